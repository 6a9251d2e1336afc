//! Pickles that CPython writes: the machine reads of them what CPython wrote.

use std::process::Command;

use ccl_sql::readers::memory::pickle::read;
use serde_json::Value;

use crate::support::project;

/// Pickles that are compared.
const COUNT: usize = 1000;

/// Whether two values are the same, however their numbers are spelled.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (None, None) => a.as_f64().map(f64::to_bits) == b.as_f64().map(f64::to_bits),
            (a, b) => a == b,
        },
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        // The order of keys counts, too.
        (Value::Object(a), Value::Object(b)) => {
            a.keys().eq(b.keys()) && a.values().zip(b.values()).all(|(a, b)| same(a, b))
        }
        (a, b) => a == b,
    }
}

#[expect(clippy::print_stderr, reason = "who runs the tests is to know that this one did nothing")]
#[test]
fn what_python_writes_is_read() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut python = Command::new("python3");
    python.arg(project().join("tests/it/readers/pickles.py"));
    let output = match python.arg(folder.path()).arg(COUNT.to_string()).output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("skipped: python3 cannot be started ({error})");
            return;
        }
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for number in 0..COUNT {
        let file = |end: &str| {
            let path = folder.path().join(format!("{number}.{end}"));
            std::fs::read(path).expect("the script wrote it")
        };
        let expected: Value = serde_json::from_slice(&file("json")).expect("it is JSON");
        let written = file("pickle");
        let pickle = read(&written).unwrap_or_else(|f| panic!("{number}: {f:?}: {expected}"));
        let found = pickle.arena.json(pickle.root);
        let found: Value = serde_json::from_str(&found).expect("it is JSON");
        assert!(same(&found, &expected), "{number}: {found}, not {expected}");
        assert_eq!(pickle.end, written.len(), "{number}");
    }
}
