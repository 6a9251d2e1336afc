//! `verify`: the main figures of traces beside those of a second program, which reads raw files.
//!
//! That program is Python in `tests/verify`: it shares no code with this one, and asks it for its
//! figures as anybody would. Here it is started, and what it says is printed.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Map, Value, json};

use crate::cli::args::{ReadingArgs, VerifyArgs};
use crate::cli::context::Context;
use crate::cli::engine::{program, python};
use crate::cli::errors::Errors;
use crate::cli::output::table_form;
use crate::cli::select;
use crate::error::{Error, Result};
use crate::input::place::{absolute, is_remote};
use crate::report::{Format, Grid};
use crate::store::manifest::Manifest;

/// The modules of the second program, each before those that import it.
const MODULES: [(&str, &str); 7] = [
    ("raw", include_str!("../../tests/verify/raw.py")),
    ("kineto", include_str!("../../tests/verify/kineto.py")),
    ("nsys", include_str!("../../tests/verify/nsys.py")),
    ("xla", include_str!("../../tests/verify/xla.py")),
    ("memory", include_str!("../../tests/verify/memory.py")),
    ("figures", include_str!("../../tests/verify/figures.py")),
    ("verify", include_str!("../../tests/verify/verify.py")),
];

/// Makes modules of the texts on standard input, and runs the last of them.
const LOADER: &str = "\
import json, sys, types
for name, text in json.load(sys.stdin).items():
    sys.modules[name] = module = types.ModuleType(name)
    exec(compile(text, name + '.py', 'exec'), module.__dict__)
sys.exit(module.main(sys.argv[1:]))
";

/// Columns of what is printed; rows of JSON and CSV have those of one value each.
const COLUMNS: [&str; 9] =
    ["trace", "figure", "of", "key", "ccl_sql", "independent", "difference", "verdict", "reason"];

/// Runs the command.
///
/// # Errors
/// `figures-differ`, `python-failed`, and those of finding and ingesting traces.
pub fn run(context: &Context, args: &VerifyArgs) -> Result<(), Errors> {
    let format = table_form(context, "verify")?;
    let mut rows = Vec::new();
    let traces = select::traces(context, &args.trace, &ReadingArgs::default())?;
    context.directories(&traces)?;
    for trace in &traces {
        let manifest = Manifest::read(&context.store.directory(trace))?;
        if manifest.sources.iter().any(|source| is_remote(&source.absolute)) {
            return Err(Error::new("file-unreadable", "the raw files lie in an object store")
                .at(trace.clone())
                .hint("copy them to a disk, and ingest the copies")
                .into());
        }
        rows.extend(recomputed(context, trace, args.tolerance)?);
    }
    let differing = rows.iter().filter(|row| row[7] == "differs").count();
    let values = rows.iter().filter(|row| row[7] != "not recomputed").count();
    let bytes = match format {
        Format::Table => worst(rows).table(context.printer.layout()),
        format => Grid::of_rows(&COLUMNS, rows).bytes(format, usize::MAX)?,
    };
    context.printer.result(&bytes)?;
    if values == 0 {
        return Err(Error::new("nothing-found", "no figure could be recomputed")
            .facts("the reasons stand above")
            .into());
    }
    if differing > 0 {
        let message = format!("{differing} of {values} values differ by more than the tolerance");
        return Err(Error::new("figures-differ", message)
            .hint("`--format json` has every value; one of the two programs is wrong")
            .into());
    }
    context.printer.note(&format!("{values} values are equal, within {:e}", args.tolerance));
    Ok(())
}

/// What the second program says of a trace.
fn recomputed(context: &Context, trace: &str, tolerance: f64) -> Result<Vec<Vec<Value>>> {
    let mut client = Command::new(python());
    // Alone: no module that lies in the folder of a trace may stand in for one of Python's.
    client.args(["-I", "-c", LOADER]).arg(program()?).arg(absolute(&context.store.path));
    client.args([trace, "--tolerance", &tolerance.to_string()]);
    if let Some(folder) = &context.global.sql_dir {
        client.arg("--sql-dir").arg(absolute(folder));
    }
    let name = client.get_program().to_string_lossy().into_owned();
    let failed = |why: String| {
        Error::new("python-failed", format!("{name} {why}"))
            .facts("CCL_SQL_PYTHON names a Python of version 3.11 or newer")
    };
    let mut child = client
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| failed(format!("cannot be run: {e}")))?;
    let modules: Map<String, Value> =
        MODULES.iter().map(|(name, text)| ((*name).to_owned(), json!(text))).collect();
    if let Some(mut stdin) = child.stdin.take() {
        // A Python that cannot read them says why itself.
        let _ = stdin.write_all(Value::Object(modules).to_string().as_bytes());
    }
    let output = child.wait_with_output().map_err(|e| failed(format!("cannot be read: {e}")))?;
    let rows: Vec<Map<String, Value>> = serde_json::from_slice(&output.stdout)
        .map_err(|_| failed(format!("ended with {} and no answer", output.status)))?;
    let cell = |row: &Map<String, Value>, column: &str| match column {
        "trace" => trace.into(),
        column => row.get(column).cloned().unwrap_or_default(),
    };
    Ok(rows.iter().map(|row| COLUMNS.iter().map(|c| cell(row, c)).collect()).collect())
}

/// Of each figure of a trace the value that differs most, and how many there are.
fn worst(rows: Vec<Vec<Value>>) -> Grid {
    let rank = |row: &[Value]| (row[7] == "differs", row[6].as_f64().unwrap_or(0.0));
    let mut out: Vec<(Vec<Value>, usize)> = Vec::new();
    for row in rows {
        match out.last_mut().filter(|(last, _)| last[..2] == row[..2]) {
            None => out.push((row, 1)),
            Some((last, count)) => {
                *count += 1;
                if rank(&row) > rank(last) {
                    *last = row;
                }
            }
        }
    }
    let mut columns = COLUMNS.to_vec();
    columns.insert(3, "values");
    let rows = out.into_iter().map(|(mut row, count)| {
        row.insert(3, count.into());
        row
    });
    Grid::of_rows(&columns, rows.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row of one value.
    fn row(figure: &str, key: &str, difference: f64, verdict: &str) -> Vec<Value> {
        let cells = json!(["t", figure, "m", key, 1.0, 1.0, difference, verdict, null]);
        cells.as_array().cloned().unwrap_or_default()
    }

    #[test]
    fn the_worst_value_stands_for_a_figure() {
        let grid = worst(vec![
            row("busy", "0", 0.5, "equal"),
            row("busy", "1", 0.1, "differs"),
            row("busy", "2", 0.7, "equal"),
            row("idle", "0", 0.0, "equal"),
        ]);
        let cells: Vec<_> =
            grid.rows.iter().map(|r| (r[1].clone(), r[3].clone(), r[4].clone())).collect();
        assert_eq!(
            cells,
            [(json!("busy"), json!(3), json!("1")), (json!("idle"), json!(1), json!("0"))]
        );
    }
}
