//! The pages that people read: `README.md`, `docs/*.md`, and those of `benches`, `sql` and
//! `trace_collection`.
//!
//! Each ```` ```console ```` block of a page is a session: the test runs its commands in a shell,
//! in a folder with `trace_collection`, and compares what they print (standard output and standard
//! error). All blocks of a page share the folder. What differs from run to run is cut out on both
//! sides, see [`steady`]. `CCL_SQL_BLESS=1` writes the output into the page.
//!
//! Commands in other blocks are not run, but must be ones that the program understands. Links must
//! lead to files and headings, and paths in code type must be there.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use regex::Regex;

use crate::support::{blessing, files, in_parallel, name, program, project, registry};

/// Pages that `ccl-sql check --write` makes: nobody wraps their lines.
const GENERATED: [&str; 4] =
    ["docs/diagnoses.md", "docs/event_tables.md", "docs/metrics.md", "docs/views.md"];

/// Columns of the longest line.
const WIDEST: usize = 100;

/// The page that tells how to write a metric, and where that metric lies.
const OWN_METRIC: (&str, &str) = ("docs/commands.md", "my-metrics/longest_call_ms.v1.sql");

/// A page.
struct Page {
    /// Path inside the project.
    path: String,
    text: String,
}

/// A block of code.
struct Block<'t> {
    /// Language, as the line with the fence says it.
    language: &'t str,
    /// Number of the first line inside, from 0.
    line: usize,
    lines: Vec<&'t str>,
}

/// A command of a session, with what it prints.
struct Exchange<'t> {
    command: String,
    printed: Vec<&'t str>,
}

fn page(path: &str) -> Page {
    let text = std::fs::read_to_string(project().join(path));
    Page { path: path.to_owned(), text: text.unwrap_or_else(|e| panic!("{path}: {e}")) }
}

/// Every page, in order of its path.
fn pages() -> Vec<Page> {
    let docs = files(&project().join("docs"));
    let docs = docs.iter().filter(|file| file.extension() == Some(OsStr::new("md")));
    let mut paths: Vec<String> = docs.map(|file| format!("docs/{}", name(file))).collect();
    let others = ["README.md", "benches/README.md", "sql/README.md", "trace_collection/README.md"];
    paths.extend(others.map(str::to_owned));
    paths.sort();
    paths.iter().map(|path| page(path)).collect()
}

impl Page {
    fn blocks(&self) -> Vec<Block<'_>> {
        let mut out: Vec<Block<'_>> = Vec::new();
        let mut inside = false;
        for (number, line) in self.text.lines().enumerate() {
            match line.strip_prefix("```") {
                Some(_) if inside => inside = false,
                Some(language) => {
                    inside = true;
                    out.push(Block { language, line: number + 1, lines: Vec::new() });
                }
                None if inside => out.last_mut().expect("a block is open").lines.push(line),
                None => {}
            }
        }
        assert!(!inside, "{}: a block of code does not end", self.path);
        out
    }

    /// Lines outside of blocks of code, with their numbers from 1.
    fn prose(&self) -> Vec<(usize, &str)> {
        let mut inside = false;
        let lines = self.text.lines().enumerate().filter(|(_, line)| {
            let fence = line.starts_with("```");
            inside ^= fence;
            !inside && !fence
        });
        lines.map(|(number, line)| (number + 1, line)).collect()
    }

    /// What links to headings of the page name: small letters, words joined by `-`.
    fn anchors(&self) -> BTreeSet<String> {
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        let mut out = BTreeSet::new();
        for (_, line) in self.prose() {
            let heading = line.trim_start_matches('#');
            if heading.len() == line.len() || !heading.starts_with(' ') {
                continue;
            }
            let kept = heading.trim().to_lowercase();
            let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            let slug: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
            let times = seen.entry(slug.clone()).or_default();
            out.insert(if *times == 0 { slug } else { format!("{slug}-{times}") });
            *times += 1;
        }
        out
    }
}

/// Commands of the lines of a block, each with the lines below it. `prompt` begins a command; it
/// goes on in the next line after a `\` and while a quote is open.
fn exchanges<'t>(lines: &[&'t str], prompt: &str) -> Vec<Exchange<'t>> {
    let mut out: Vec<Exchange<'t>> = Vec::new();
    let mut open = false;
    for line in lines {
        match (line.strip_prefix(prompt), out.last_mut()) {
            (_, Some(last)) if open => {
                last.command.push('\n');
                last.command.push_str(line);
            }
            (Some(command), _) => {
                out.push(Exchange { command: command.to_owned(), printed: Vec::new() });
            }
            (None, Some(last)) => last.printed.push(line),
            (None, None) => panic!("the session does not begin with a command: {line}"),
        }
        let command = &out.last().expect("a command was read").command;
        open = words(command).is_none();
    }
    out
}

/// Words of the commands in a line of a shell, as far as pages use one: quotes, `\` at the end,
/// pipes and comments. None where the line goes on.
fn words(line: &str) -> Option<Vec<Vec<String>>> {
    let mut commands = vec![Vec::new()];
    let (mut word, mut quote): (Option<String>, Option<char>) = (None, None);
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        let done = match (quote, c) {
            (Some(mark), c) if mark == c => {
                quote = None;
                continue;
            }
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
                continue;
            }
            (None, '#') if word.is_none() => break,
            (None, '\\') => {
                chars.next()?;
                continue;
            }
            (None, '|' | ';' | '&') => Some(true),
            (None, c) if c.is_whitespace() => Some(false),
            _ => None,
        };
        let Some(ends_command) = done else {
            word.get_or_insert_default().push(c);
            continue;
        };
        commands.last_mut().expect("there is a command").extend(word.take());
        if ends_command {
            commands.push(Vec::new());
        }
    }
    if quote.is_some() {
        return None;
    }
    commands.last_mut().expect("there is a command").extend(word);
    commands.retain(|words| !words.is_empty());
    Some(commands)
}

/// Lines without what differs from run to run: how long an ingest took and how fast it was, digits
/// after the ninth of a fraction (a sum of doubles depends on its order), blanks at the ends, and
/// the empty line that parts two commands of a page.
fn steady<'t>(lines: impl IntoIterator<Item = &'t str>) -> Vec<String> {
    let took = Regex::new(r" in [0-9.]+ m?s \([0-9.]+ [kMG]?B/s\)").expect("a pattern");
    let digits = Regex::new(r"(\.\d{9})\d+").expect("a pattern");
    let mut out: Vec<String> = lines
        .into_iter()
        .map(|line| digits.replace_all(&took.replace(line, " in TIME"), "$1").trim_end().to_owned())
        .collect();
    while out.last().is_some_and(String::is_empty) {
        out.pop();
    }
    out
}

/// A folder in which a session runs.
fn workplace() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let examples = project().join("trace_collection");
    std::os::unix::fs::symlink(examples, folder.path().join("trace_collection"))
        .expect("a link can be made");
    folder
}

/// What a shell prints on both its outputs. `ccl-sql` is the program under test.
fn shell(folder: &Path, line: &str) -> String {
    let mut path = vec![program().parent().expect("the program lies in a folder").to_owned()];
    path.extend(std::env::var_os("PATH").iter().flat_map(std::env::split_paths));
    let mut shell = Command::new("sh");
    for variable in ["CCL_SQL_DATA", "CCL_SQL_NO_PROGRESS", "NO_COLOR"] {
        shell.env_remove(variable);
    }
    let output = shell
        .args(["-c", &format!("exec 2>&1\n{line}")])
        .env("PATH", std::env::join_paths(path).expect("folders have plain names"))
        .env("COLUMNS", WIDEST.to_string())
        .current_dir(folder)
        .output()
        .expect("a shell can be started");
    String::from_utf8(output.stdout).expect("what is printed is UTF-8")
}

/// Runs the sessions of a page. Gives what differs, and the page with what was printed.
fn played(page: &Page) -> (Vec<String>, String) {
    let folder = workplace();
    let (mut wrong, mut text) = (Vec::new(), String::new());
    let mut copied = 0;
    let lines: Vec<&str> = page.text.lines().collect();
    for block in page.blocks() {
        if block.language == "sql" && page.path == OWN_METRIC.0 {
            let file = folder.path().join(OWN_METRIC.1);
            std::fs::create_dir_all(file.parent().expect("a folder")).expect("it can be made");
            std::fs::write(file, block.lines.join("\n")).expect("the metric can be written");
        }
        if block.language != "console" {
            continue;
        }
        let sessions = exchanges(&block.lines, "$ ");
        let last = sessions.len() - 1;
        lines[copied..block.line].iter().for_each(|line| writeln!(text, "{line}").expect("memory"));
        copied = block.line + block.lines.len();
        for (number, exchange) in sessions.iter().enumerate() {
            let printed = shell(folder.path(), &exchange.command);
            let same = steady(printed.lines()) == steady(exchange.printed.iter().copied());
            let command = &exchange.command;
            if !same {
                let said = exchange.printed.join("\n");
                wrong.push(format!("{}: $ {command}\n{said}\nis now\n{printed}", page.path));
            }
            let shown = if same { exchange.printed.join("\n") } else { printed };
            let gap = if number == last { "" } else { "\n" };
            let lines = format!("$ {command}\n{shown}");
            writeln!(text, "{}{gap}", lines.trim_end()).expect("memory");
        }
    }
    lines[copied..].iter().for_each(|line| writeln!(text, "{line}").expect("memory"));
    (wrong, text)
}

#[test]
fn sessions_print_what_the_pages_say() {
    let pages = pages();
    let sessions = pages.iter().flat_map(Page::blocks).filter(|b| b.language == "console").count();
    assert!(sessions >= 5, "only {sessions} sessions");
    let wrong = in_parallel(&pages, |page| {
        let (differs, text) = played(page);
        if !blessing() || differs.is_empty() {
            return differs;
        }
        std::fs::write(project().join(&page.path), text).expect("the page can be written");
        Vec::new()
    });
    assert!(wrong.is_empty(), "{}\n\nCCL_SQL_BLESS=1 writes it", wrong.join("\n\n"));
}

#[test]
fn lines_end_where_a_terminal_does() {
    let mut wrong = Vec::new();
    for page in pages().iter().filter(|page| !GENERATED.contains(&page.path.as_str())) {
        let whole = page.path == "README.md";
        let prose: BTreeSet<usize> = page.prose().iter().map(|(number, _)| *number).collect();
        for (number, line) in page.text.lines().enumerate().map(|(number, line)| (number + 1, line))
        {
            // A row of a table cannot go on in the next line, nor can what a program prints.
            let wrapped = whole || prose.contains(&number) && !line.starts_with('|');
            if wrapped && line.chars().count() > WIDEST {
                wrong.push(format!("{}:{number}: {line}", page.path));
            }
        }
    }
    assert!(wrong.is_empty(), "more than {WIDEST} columns:\n{}", wrong.join("\n"));
}

#[test]
fn commands_of_the_pages_are_ones_of_the_program() {
    let (mut wrong, mut tried) = (Vec::new(), 0);
    for page in pages() {
        for block in page.blocks() {
            let prompt = match block.language {
                "console" => "$ ",
                "sh" => "",
                _ => continue,
            };
            for exchange in exchanges(&block.lines, prompt) {
                let commands = words(&exchange.command).expect("the command is whole");
                for words in commands.iter().filter_map(|words| arguments(words)) {
                    tried += 1;
                    if let Err(e) = ccl_sql::cli::command().try_get_matches_from(words) {
                        wrong.push(format!("{}: {}\n{e}", page.path, exchange.command));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(tried >= 30, "only {tried} commands");
}

/// The command line of the program, where the words are one.
fn arguments(words: &[String]) -> Option<&[String]> {
    let place = match words.first()?.as_str() {
        "ccl-sql" => 0,
        "cargo" if words.get(1)? == "run" => words.iter().position(|word| word == "--")?,
        _ => return None,
    };
    Some(&words[place..])
}

#[test]
fn links_lead_somewhere() {
    let link = Regex::new(r#"\]\(([^)\s]+)\)|(?:src|srcset|href)="([^"]+)""#).expect("a pattern");
    let (mut wrong, mut followed) = (Vec::new(), 0);
    for page in pages() {
        for (number, line) in page.prose() {
            for found in link.captures_iter(line) {
                let target = found.get(1).or(found.get(2)).expect("one of the two").as_str();
                if target.contains("://") {
                    continue;
                }
                followed += 1;
                if !leads(&page, target) {
                    wrong.push(format!("{}:{number}: {target}", page.path));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "links that lead nowhere:\n{}", wrong.join("\n"));
    assert!(followed >= 60, "only {followed} links");
}

/// Whether a link of a page leads to a file that is there, and to a heading of it.
fn leads(from: &Page, target: &str) -> bool {
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let here = PathBuf::from(&from.path);
    let to = match path {
        "" => here,
        path => here.parent().expect("a page lies in a folder").join(path),
    };
    let file = project().join(&to);
    if anchor.is_empty() || !file.is_file() {
        return file.exists() && anchor.is_empty();
    }
    page(&to.to_string_lossy()).anchors().contains(anchor)
}

#[test]
fn paths_in_code_type_are_there() {
    let mut wrong = Vec::new();
    for page in pages().iter().filter(|page| !GENERATED.contains(&page.path.as_str())) {
        for (number, line) in page.prose() {
            for word in line.split('`').skip(1).step_by(2).flat_map(str::split_whitespace) {
                // What a person fills in is no path.
                let filled = word.chars().any(|c| c.is_uppercase()) && !word.ends_with(".md")
                    || word.contains(['<', '*', '{']);
                let folders = ["src/", "sql/", "tests/", "docs/", "benches/", "trace_collection/"];
                let path = folders.iter().any(|folder| word.starts_with(folder));
                if path && !filled && !project().join(word).exists() {
                    wrong.push(format!("{}:{number}: {word}", page.path));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "paths that are not there:\n{}", wrong.join("\n"));
}

#[test]
fn metrics_of_the_questions_are_there() {
    let known: BTreeSet<&str> = registry().metrics().map(|f| f.header.name.as_str()).collect();
    for (path, head) in [("README.md", "begin with"), ("docs/commands.md", "metrics")] {
        let page = page(path);
        let table = page.text.split_once(&format!("| question | {head} |")).expect("a table").1;
        let table = table.split_once("\n\n").expect("the table ends").0;
        let code = table.split('`').skip(1).step_by(2);
        let names: Vec<&str> = code.flat_map(str::split_whitespace).collect();
        assert!(names.len() >= 25, "{path}: {names:?}");
        let unknown: Vec<&&str> = names.iter().filter(|name| !known.contains(**name)).collect();
        assert!(unknown.is_empty(), "{path}: {unknown:?}");
    }
}
