//! Embeds every file of `sql/`, so that a new metric or view needs no Rust, and the commit that the
//! program was built from. A program that is linked with a shared DuckDB is told where to find it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Digits of a commit that are shown.
const DIGITS: usize = 12;

/// The files below a folder that end so.
fn walk(folder: &Path, ending: &str, out: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).expect("the folder can be listed");
    for entry in entries {
        let path = entry.expect("an entry of the folder can be read").path();
        if path.is_dir() {
            walk(&path, ending, out);
        } else if path.extension().is_some_and(|e| e == ending) {
            out.push(path);
        }
    }
}

/// Cargo runs this script again when the file or folder changes. Of one that is not there it would
/// do so each time.
fn watch(path: &Path) {
    if path.exists() {
        println!("cargo::rerun-if-changed={}", path.display());
    }
}

/// What git says of the checkout in a folder.
fn git(root: &Path, args: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    // A hook that builds has these of its own repository.
    for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR"] {
        command.env_remove(variable);
    }
    // In a container the checkout often belongs to another user, and git then keeps quiet. These
    // questions run nothing of the checkout.
    command.args(["-c", "safe.directory=*", "-C"]).arg(root).args(args);
    let output = command.output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim_end().to_owned())
}

/// The commit of a checkout. Watches the files that change when another one is checked out or made,
/// and no others.
fn commit_of_checkout(root: &Path) -> Option<String> {
    let path = |name: &str| Some(root.join(git(root, &["rev-parse", "--git-path", name])?));
    watch(&path("HEAD")?);
    // Branches may lie in tables: one of this worktree, and one of all.
    watch(&path("reftable/tables.list")?);
    let common = root.join(git(root, &["rev-parse", "--git-common-dir"])?);
    watch(&common.join("reftable/tables.list"));
    // Nothing for a commit that is checked out without a branch.
    if let Some(branch) = git(root, &["symbolic-ref", "--quiet", "HEAD"]) {
        let file = path(&branch)?;
        if file.exists() {
            watch(&file);
        } else {
            // The branch is packed with others, and its next commit makes the file.
            watch(&path("packed-refs")?);
            file.ancestors().find(|folder| folder.exists()).into_iter().for_each(watch);
        }
    }
    git(root, &["rev-parse", "--verify", "HEAD"])
}

/// The commit of a packaged crate, which cargo notes beside the manifest.
fn commit_of_package(root: &Path) -> Option<String> {
    let path = root.join(".cargo_vcs_info.json");
    watch(&path);
    let text = std::fs::read_to_string(path).ok()?;
    let (_, after) = text.split_once("\"sha1\"")?;
    after.split('"').nth(1).map(str::to_owned)
}

fn is_commit(text: &str) -> bool {
    (7..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// The commit that is built, empty where nothing says it.
fn commit(root: &Path) -> String {
    println!("cargo::rerun-if-env-changed=CCL_SQL_COMMIT");
    let given = std::env::var("CCL_SQL_COMMIT").ok().filter(|text| !text.is_empty());
    if let Some(text) = given.as_ref().filter(|text| !is_commit(text)) {
        println!("cargo::error=CCL_SQL_COMMIT is {text:?}: write 7 to 64 hexadecimal digits");
    }
    // A crate that was unpacked into another project's checkout is not of that project: its own
    // note comes first, and then only a checkout that begins in this folder.
    let found = given
        .or_else(|| commit_of_package(root))
        .or_else(|| root.join(".git").exists().then(|| commit_of_checkout(root)).flatten())
        .filter(|text| is_commit(text));
    found.unwrap_or_default().chars().take(DIGITS).collect::<String>().to_ascii_lowercase()
}

/// A hash over the program's own text: what a program computed, another one may compute otherwise.
fn sources(root: &Path) -> String {
    println!("cargo::rerun-if-changed=src");
    let mut files = Vec::new();
    walk(&root.join("src"), "rs", &mut files);
    files.sort();
    let mut hasher = std::hash::DefaultHasher::new();
    // Which DuckDB, which Arrow.
    println!("cargo::rerun-if-changed=Cargo.toml");
    files.push(root.join("Cargo.toml"));
    for file in files {
        let text = std::fs::read(&file).expect("a file of the program can be read");
        std::hash::Hash::hash(&(file.strip_prefix(root).ok(), text), &mut hasher);
    }
    format!("{:016x}", std::hash::Hasher::finish(&hasher))
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
    println!("cargo::rustc-env=CCL_SQL_BUILD_COMMIT={}", commit(&root));
    println!("cargo::rustc-env=CCL_SQL_BUILD_SOURCES={}", sources(&root));
    let mut files = Vec::new();
    walk(&root.join("sql"), "sql", &mut files);
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
