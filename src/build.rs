//! Embeds every file of `sql/`, so that a new metric or view needs no Rust.

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

fn main() {
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
