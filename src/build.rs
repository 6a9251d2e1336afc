//! Embeds every file of `sql/`, so that a new metric or view needs no Rust. A program that is linked
//! with a shared DuckDB is told where to find it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn walk(folder: &Path, out: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).expect("the folder sql/ can be listed");
    for entry in entries {
        let path = entry.expect("an entry of sql/ can be read").path();
        if path.is_dir() {
            walk(&path, out);
        } else if path.extension().is_some_and(|e| e == "sql") {
            out.push(path);
        }
    }
}

/// The library of `DUCKDB_LIB_DIR` is found there when the program starts, too.
fn find_linked_engine() {
    let has = |variable: &str| std::env::var_os(variable).is_some();
    if !has("CARGO_FEATURE_ENGINE")
        || ["CARGO_FEATURE_BUNDLED", "CARGO_FEATURE_EXTENSION"].into_iter().any(has)
    {
        return;
    }
    println!("cargo::rerun-if-env-changed=DUCKDB_LIB_DIR");
    if let (Ok(folder), true) = (std::env::var("DUCKDB_LIB_DIR"), has("CARGO_CFG_UNIX")) {
        println!("cargo::rustc-link-arg=-Wl,-rpath,{folder}");
    }
}

fn main() {
    find_linked_engine();
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let mut files = Vec::new();
    walk(&root.join("sql"), &mut files);
    files.sort();
    let mut code = String::from(
        "/// Every SQL file: its path from the project's root, its text.\n\
         pub const FILES: &[(&str, &str)] = &[\n",
    );
    for file in &files {
        let name = file.strip_prefix(&root).expect("the file lies under the root");
        let name = name.to_string_lossy().replace('\\', "/");
        // By the folder of the compilation: checkouts may share a target directory.
        writeln!(
            code,
            "    ({name:?}, include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/{name}\"))),"
        )
        .expect("writing to a string cannot fail");
    }
    code.push_str("];\n");
    let out = PathBuf::from(std::env::var("OUT_DIR").expect("cargo sets it"));
    std::fs::write(out.join("sql_files.rs"), code).expect("OUT_DIR can be written");
    println!("cargo::rerun-if-changed=sql");
}
