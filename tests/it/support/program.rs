//! Runs `ccl-sql` as a user does, and holds what came out.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use assert_cmd::Command;

/// The folder of the project: as cargo says when the tests run, which may be another checkout than
/// the one that they were built in.
pub fn project() -> &'static Path {
    static PROJECT: OnceLock<PathBuf> = OnceLock::new();
    PROJECT.get_or_init(|| {
        let folder = std::env::var_os("CARGO_MANIFEST_DIR");
        folder.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into()).into()
    })
}

/// The folder of all examples of the project.
pub fn examples() -> PathBuf {
    project().join("trace_collection")
}

/// The folder of an example of the project.
pub fn example(name: &str) -> PathBuf {
    examples().join(name)
}

/// The program under test: the one of `CCL_SQL_PROGRAM`, or else of cargo, likewise. Says once
/// which.
///
/// # Panics
/// When the variable names none, or one of another name: what it says of itself holds its name, and
/// sessions of pages find it by that.
pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let path = match std::env::var_os("CCL_SQL_PROGRAM") {
            Some(path) => {
                let path = std::path::absolute(path).expect("CCL_SQL_PROGRAM is empty");
                let named = path.is_file() && path.file_name().is_some_and(|n| n == "ccl-sql");
                assert!(named, "CCL_SQL_PROGRAM is no file named ccl-sql: {}", path.display());
                path
            }
            None => built(),
        };
        // Past the capture of the tests' own output.
        let _ = writeln!(std::io::stderr(), "the program under test: {}", path.display());
        path
    })
}

/// The program that cargo built.
fn built() -> PathBuf {
    let path = std::env::var_os("CARGO_BIN_EXE_ccl-sql");
    path.unwrap_or_else(|| env!("CARGO_BIN_EXE_ccl-sql").into()).into()
}

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Exit code.
    pub code: i32,
    /// Results.
    pub stdout: String,
    /// Everything else.
    pub stderr: String,
}

impl Run {
    /// That of a command that is ready.
    pub fn of(command: &mut Command) -> Self {
        let output = command.output().expect("the program can be started");
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).expect("results are UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("messages are UTF-8"),
        }
    }

    /// The codes of the errors in stderr.
    pub fn errors(&self) -> Vec<&str> {
        self.stderr
            .lines()
            .filter_map(|line| Some(line.strip_prefix("error[")?.split_once(']')?.0))
            .collect()
    }

    /// The results of a run that must not fail.
    ///
    /// # Panics
    /// When it did.
    pub fn done(self) -> String {
        assert_eq!(self.code, 0, "{}\n{}", self.stdout, self.stderr);
        self.stdout
    }
}

/// The command, without what the environment of the developer would add.
pub fn command(folder: &Path) -> Command {
    command_of(program(), folder)
}

/// The same of the program that cargo built: the wheel has no object stores.
#[cfg(feature = "object-stores")]
pub fn command_of_cargo(folder: &Path) -> Command {
    command_of(&built(), folder)
}

/// The same, where a process may have few files open: it looks at fewer ranks together.
#[cfg(feature = "object-stores")]
pub fn command_with_few_files(folder: &Path, files: u32) -> Command {
    let mut command = command_of(Path::new("sh"), folder);
    command.arg("-c").arg(format!("ulimit -n {files} && exec \"$0\" \"$@\"")).arg(built());
    command
}

fn command_of(program: &Path, folder: &Path) -> Command {
    let mut command = Command::new(program);
    for variable in ["CCL_SQL_DATA", "CCL_SQL_NO_PROGRESS", "NO_COLOR"] {
        command.env_remove(variable);
    }
    command.env("COLUMNS", "100").current_dir(folder);
    command
}

/// Runs the command in a folder.
pub fn run(folder: &Path, args: &[&str]) -> Run {
    Run::of(command(folder).args(args))
}
