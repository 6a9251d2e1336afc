//! The folder of the real traces. They are not part of the project: without them (`CCL_SQL_TRACES`,
//! else `../shared/traces` beside the project) a test that needs them says so and passes.

use std::io::Write;
use std::path::PathBuf;

use crate::support::project;

/// The folder of the traces, or a word on stderr and None.
pub fn traces(test: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("CCL_SQL_TRACES")
        .map_or_else(|| project().join("../shared/traces"), PathBuf::from);
    if folder.join("kineto").is_dir() {
        return Some(folder);
    }
    // Straight to stderr: the test passes, and its captured output would not be shown.
    let _ = writeln!(
        std::io::stderr(),
        "{test}: no real traces at {} (CCL_SQL_TRACES), nothing was checked",
        folder.display()
    );
    None
}
