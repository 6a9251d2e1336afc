//! The form of the tree: functions fit on a screen, comments and the README end at column 100,
//! imports of modules do not climb, `unsafe` stands in one folder, and the top has what it should.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::support::{files, project};

/// Most columns of a comment, and of a line of the README.
const COLUMNS: usize = 100;
/// Most lines of a function, from `fn` to its closing brace.
const LINES: usize = 100;
/// Where `unsafe` may stand: where DuckDB loads the crate and calls it, and in the samples below.
const UNSAFE: [&str; 2] = ["src/extension", "tests/it/tree.rs"];
/// What lies at the top beside dotfiles.
const TOP: [&str; 12] = [
    "Cargo.lock",
    "Cargo.toml",
    "README.md",
    "benches",
    "docs",
    "examples",
    "python",
    "rustfmt.toml",
    "sql",
    "src",
    "tests",
    "trace_collection",
];

/// A line that breaks a rule: its number, and what is wrong.
type Wrong = (usize, String);

/// Functions that are too long, but for those of the tests at the end of a file.
fn long_functions(text: &str) -> Vec<Wrong> {
    let lines: Vec<&str> = text.lines().take_while(|line| *line != "mod tests {").collect();
    let lengths = (0..lines.len()).filter_map(|at| Some((at + 1, function_lines(&lines[at..])?)));
    let long = lengths.filter(|(_, length)| *length > LINES);
    long.map(|(number, length)| (number, format!("a function of {length} lines"))).collect()
}

/// The lines of the function that begins on the first line; None where none does, or it has no
/// body, or ends on that line.
fn function_lines(lines: &[&str]) -> Option<usize> {
    let code = lines[0].trim_start();
    let qualifiers = ["pub", "pub(crate)", "pub(super)", "const", "async"];
    let mut words = code.split(' ').skip_while(|word| qualifiers.contains(word));
    if words.next() != Some("fn") || code.ends_with(['}', ';']) {
        return None;
    }
    let indent = &lines[0][..lines[0].len() - code.len()];
    let last = |line: &str| line.strip_prefix(indent).is_some_and(|rest| rest == "}");
    let bodiless = |line: &str| {
        line.strip_prefix(indent).is_some_and(|rest| rest.starts_with(')') && rest.ends_with(';'))
    };
    let end = lines.iter().position(|line| last(line) || bodiless(line))?;
    last(lines[end]).then_some(end + 1)
}

/// Lines that are a comment by its marker and too long, but for those with an address.
fn long_comments(text: &str, marker: &str) -> Vec<Wrong> {
    let comments = |line: &str| line.trim_start().starts_with(marker) && !line.contains("://");
    long_lines(text, comments)
}

/// Lines that count and are too long.
fn long_lines(text: &str, counts: impl Fn(&str) -> bool) -> Vec<Wrong> {
    let columns = text.lines().map(|line| (line, line.chars().count()));
    let long = columns.zip(1..).filter(|((line, columns), _)| *columns > COLUMNS && counts(line));
    long.map(|((_, columns), number)| (number, format!("{columns} columns"))).collect()
}

/// Lines that name the module above the one above.
fn climbing(text: &str) -> Vec<Wrong> {
    let climbs = text.lines().zip(1..).filter(|(line, _)| line.contains("super::super"));
    climbs.map(|(_, number)| (number, "super::super".to_owned())).collect()
}

/// Lines whose code holds the word `unsafe`. A string counts as code, a comment does not.
fn unsafe_code(text: &str) -> Vec<Wrong> {
    let is_unsafe = |line: &str| {
        let code = line.split("//").next().unwrap_or_default();
        code.split(|c: char| c != '_' && !c.is_alphanumeric()).any(|word| word == "unsafe")
    };
    let found = text.lines().zip(1..).filter(|(line, _)| is_unsafe(line));
    found.map(|(_, number)| (number, "unsafe".to_owned())).collect()
}

/// Fails with every place in the files of folders whose names end so.
fn assert_none(folders: &[&str], ending: &str, check: impl Fn(&str) -> Vec<Wrong>) {
    assert_none_but(folders, ending, &[], check);
}

/// The same without some files and folders.
fn assert_none_but(
    folders: &[&str],
    ending: &str,
    exempt: &[&str],
    check: impl Fn(&str) -> Vec<Wrong>,
) {
    let mut wrong = Vec::new();
    let mut read = 0;
    for path in folders.iter().flat_map(|folder| files(&project().join(folder))) {
        let relative = path.strip_prefix(project()).expect("it is in the project");
        let is_exempt = exempt.iter().any(|path| relative.starts_with(path));
        if !relative.to_string_lossy().ends_with(ending) || is_built(relative) || is_exempt {
            continue;
        }
        read += 1;
        let text = std::fs::read_to_string(&path).expect("the file can be read");
        let place = |(line, what)| format!("{}:{line}: {what}", relative.display());
        wrong.extend(check(&text).into_iter().map(place));
    }
    assert!(read > 0, "no file of {folders:?} ends with {ending}");
    assert!(wrong.is_empty(), "{} places:\n{}", wrong.len(), wrong.join("\n"));
}

/// Whether a file was made by the fuzzer or by its build.
fn is_built(path: &Path) -> bool {
    ["tests/fuzz/target", "tests/fuzz/work"].iter().any(|folder| path.starts_with(folder))
}

#[test]
fn nothing_else_is_committed_at_the_top() {
    // Without git, and in an archive of the tree, nothing is listed.
    let listed = Command::new("git").arg("ls-files").current_dir(project()).output();
    let listed = listed.map(|listed| listed.stdout).unwrap_or_default();
    let listed = String::from_utf8_lossy(&listed);
    let first =
        |path: &str| path.split('/').next().unwrap_or_default().trim_matches('"').to_owned();
    let tops: BTreeSet<String> = listed.lines().map(first).collect();
    let more = |top: &&String| !top.starts_with('.') && !TOP.contains(&top.as_str());
    let more: Vec<&String> = tops.iter().filter(more).collect();
    assert!(more.is_empty(), "committed at the top: {more:?}");
}

#[test]
fn functions_fit_on_a_screen() {
    assert_none(&["src"], ".rs", long_functions);
}

#[test]
fn comments_of_rust_end_at_column_100() {
    assert_none(&["src", "tests", "benches"], ".rs", |text| long_comments(text, "//"));
}

#[test]
fn comments_of_sql_end_at_column_100() {
    assert_none(&["sql", "tests"], ".sql", |text| long_comments(text, "--"));
}

#[test]
fn comments_of_python_end_at_column_100() {
    assert_none(&["tests", "benches"], ".py", |text| long_comments(text, "#"));
}

#[test]
fn imports_do_not_climb() {
    assert_none(&["src"], ".rs", climbing);
}

#[test]
fn unsafe_stands_only_where_duckdb_loads_the_crate() {
    assert_none_but(&["src", "tests", "benches"], ".rs", &UNSAFE, unsafe_code);
}

#[test]
fn the_readme_ends_at_column_100() {
    assert_none(&["README.md"], "README.md", |text| long_lines(text, |_| true));
}

#[test]
fn long_functions_are_found() {
    let of = |head: &str, lines: usize, tail: &str| {
        format!("{head}{}{tail}", "    let _ = 1;\n".repeat(lines))
    };
    let found = |text: &str| long_functions(text).len();
    assert_eq!(
        long_functions(&of("\nfn a() {\n", 99, "}\n")),
        [(2, "a function of 101 lines".into())]
    );
    assert_eq!(found(&of("fn a() {\n", 98, "}\n")), 0);
    assert_eq!(found(&of("impl A {\n    pub(crate) const fn a() {\n", 99, "    }\n}\n")), 1);
    assert_eq!(found(&of("pub fn a(\n    b: i64,\n) -> i64 {\n", 97, "}\n")), 1);
    // A method without a body is not the one below it.
    assert_eq!(found(&of("trait A {\n    fn a(\n        b: i64,\n    );\n", 99, "    }\n}\n")), 0);
    assert_eq!(found(&of("fn a() {}\n", 99, "}\n")), 0);
    // Text and tests do not count.
    assert_eq!(found(&of("// fn a() {\n", 99, "}\n")), 0);
    assert_eq!(found(&of("mod tests {\n    fn a() {\n", 99, "    }\n}\n")), 0);
}

#[test]
fn long_comments_are_found() {
    let (fits, long) = ("é".repeat(97), "é".repeat(98));
    assert_eq!(long_comments(&format!("\n// {long}\n"), "//"), [(2, "101 columns".to_owned())]);
    assert_eq!(long_comments(&format!("    /// {long}"), "//").len(), 1);
    assert_eq!(long_comments(&format!("-- {long}"), "--").len(), 1);
    assert_eq!(long_comments(&format!("// {fits}\nlet a = \"{long}\";"), "//"), []);
    assert_eq!(long_comments(&format!("// https://example.org/{long}"), "//"), []);
}

#[test]
fn unsafe_code_is_found() {
    let found = |text: &str| unsafe_code(text).len();
    assert_eq!(unsafe_code("a();\nunsafe { b() }"), [(2, "unsafe".to_owned())]);
    assert_eq!(found("    let a = unsafe{b()}; // c"), 1);
    assert_eq!(found("pub unsafe extern \"C\" fn a() {}\n#[unsafe(no_mangle)]"), 2);
    assert_eq!(found("//! unsafe\n    // unsafe\na(); // unsafe"), 0);
    assert_eq!(found("#![forbid(unsafe_code)]\nlet is_unsafe = unsafely;"), 0);
}

#[test]
fn climbing_imports_are_found() {
    assert_eq!(climbing("use a::b;\nuse super::super::c;"), [(2, "super::super".to_owned())]);
    assert_eq!(climbing("use super::a;\nuse crate::b;"), []);
}

#[test]
fn long_lines_are_found() {
    let text = format!("a\n{}\n{}", "b".repeat(100), "c".repeat(101));
    assert_eq!(long_lines(&text, |_| true), [(3, "101 columns".to_owned())]);
}
