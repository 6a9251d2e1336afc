//! Completion by Tab: keywords, tables, columns, functions, metrics and dot commands.

use std::collections::{BTreeMap, BTreeSet};

use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::{Context as LineContext, Helper, Hinter};

use crate::cli::metric_tables::METRIC;
use crate::cli::shell::commands::{COMMANDS, Mode, catalogue};
use crate::cli::split::{Item, Splitter, Task, code_of, is_word};
use crate::engine::Engine;
use crate::functions::FUNCTIONS;
use crate::registry::Registry;
use crate::registry::header::is_name;
use crate::schema::TABLES;
use crate::sql_text::sql_name;

/// The words of SQL that are worth a Tab; DuckDB knows some 500, most of them rare.
pub const KEYWORDS: &[&str] = &[
    "ALL",
    "ALTER",
    "AND",
    "ANTI",
    "ANY",
    "AS",
    "ASC",
    "ASOF",
    "ATTACH",
    "BEGIN",
    "BETWEEN",
    "BY",
    "CASE",
    "CAST",
    "COMMIT",
    "COPY",
    "CREATE",
    "CROSS",
    "CURRENT",
    "DELETE",
    "DESC",
    "DESCRIBE",
    "DETACH",
    "DISTINCT",
    "DROP",
    "ELSE",
    "END",
    "EXCEPT",
    "EXCLUDE",
    "EXISTS",
    "EXPLAIN",
    "FALSE",
    "FILTER",
    "FIRST",
    "FOLLOWING",
    "FROM",
    "FULL",
    "GROUP",
    "HAVING",
    "ILIKE",
    "IN",
    "INNER",
    "INSERT",
    "INTERSECT",
    "INTERVAL",
    "INTO",
    "IS",
    "JOIN",
    "LAST",
    "LATERAL",
    "LEFT",
    "LIKE",
    "LIMIT",
    "MACRO",
    "NATURAL",
    "NOT",
    "NULL",
    "NULLS",
    "OFFSET",
    "ON",
    "OR",
    "ORDER",
    "OUTER",
    "OVER",
    "PARTITION",
    "PIVOT",
    "POSITIONAL",
    "PRECEDING",
    "QUALIFY",
    "RANGE",
    "RECURSIVE",
    "REPLACE",
    "RETURNING",
    "RIGHT",
    "ROLLBACK",
    "ROWS",
    "SAMPLE",
    "SELECT",
    "SEMI",
    "SET",
    "SHOW",
    "SUMMARIZE",
    "TABLE",
    "TEMP",
    "THEN",
    "TO",
    "TRUE",
    "UNBOUNDED",
    "UNION",
    "UNNEST",
    "UNPIVOT",
    "UPDATE",
    "USING",
    "VALUES",
    "VIEW",
    "WHEN",
    "WHERE",
    "WINDOW",
    "WITH",
];

/// Words that a statement begins with.
const BEGINNINGS: &[&str] = &[
    "ALTER",
    "ATTACH",
    "COPY",
    "CREATE",
    "DELETE",
    "DESCRIBE",
    "DROP",
    "EXPLAIN",
    "FROM",
    "INSERT",
    "PIVOT",
    "SELECT",
    "SET",
    "SHOW",
    "SUMMARIZE",
    "UNPIVOT",
    "UPDATE",
    "VALUES",
    "WITH",
];

/// Words that a table follows.
const BEFORE_TABLE: &[&str] = &[
    "FROM",
    "JOIN",
    "INTO",
    "TABLE",
    "VIEW",
    "UPDATE",
    "DESCRIBE",
    "SUMMARIZE",
    "PIVOT",
    "UNPIVOT",
];

/// Words that say in which part of a query the cursor is.
const CLAUSES: &[&str] = &[
    "SELECT", "FROM", "WHERE", "GROUP", "HAVING", "QUALIFY", "WINDOW", "ORDER", "LIMIT", "ON",
    "USING", "SET", "VALUES", "INTO",
];

struct Metric {
    name: String,
    versions: Vec<u32>,
    params: Vec<String>,
    columns: Vec<String>,
}

/// The names that can be offered.
#[derive(Default)]
pub struct Names {
    tables: BTreeMap<String, Vec<String>>,
    functions: BTreeSet<String>,
    table_functions: BTreeSet<String>,
    metrics: Vec<Metric>,
    traces: Vec<String>,
    /// Tables of the schema and views of the registry.
    known: BTreeSet<String>,
}

impl Names {
    /// Names of the schema and the registry.
    pub fn new(registry: &Registry, traces: Vec<String>) -> Self {
        let mut out = Self { traces, ..Self::default() };
        for t in TABLES {
            let columns = t.columns.iter().map(|c| c.name.to_owned());
            let columns = std::iter::once("trace".to_owned()).chain(columns).collect();
            out.tables.insert(t.name.to_owned(), columns);
        }
        for v in registry.views() {
            let columns = v.header.columns.iter().map(|c| c.name.clone()).collect();
            out.tables.insert(v.header.name.clone(), columns);
        }
        out.known = out.tables.keys().cloned().collect();
        out.functions.extend(FUNCTIONS.iter().map(|f| f.0.to_owned()));
        out.metrics = registry
            .metrics()
            .map(|f| Metric {
                name: f.header.name.clone(),
                versions: registry
                    .versions(&f.header.name)
                    .iter()
                    .map(|v| v.header.version)
                    .collect(),
                params: f.header.params.iter().map(|p| p.name.clone()).collect(),
                columns: f.header.columns.iter().map(|c| c.name.clone()).collect(),
            })
            .collect();
        out
    }

    /// Reads the tables and views of the connection again.
    pub fn refresh(&mut self, engine: &Engine<'_>) {
        // Completion is a help, not a duty: in a transaction that has failed there is no catalogue.
        let Ok(tables) = catalogue(engine) else { return };
        let of_user: BTreeMap<String, Vec<String>> = tables
            .into_iter()
            .map(|(name, columns)| (name, columns.into_iter().map(|c| c.0).collect()))
            .collect();
        // Those of the program are there as soon as they are named.
        self.tables.retain(|name, _| self.known.contains(name));
        self.tables.extend(of_user);
    }

    /// Adds the functions of DuckDB.
    pub fn add_functions(&mut self, engine: &Engine<'_>) {
        let sql = "SELECT DISTINCT function_name, function_type LIKE 'table%' \
                   FROM duckdb_functions() WHERE function_type <> 'pragma'";
        let Ok(mut statement) = engine.connection.prepare(sql) else { return };
        let row = |row: &duckdb::Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, bool>(1)?));
        let Ok(names) = statement.query_map([], row) else { return };
        for (name, of_table) in names.flatten() {
            if is_name(&name) && !name.starts_with('_') {
                let list = if of_table { &mut self.table_functions } else { &mut self.functions };
                list.insert(name);
            }
        }
    }

    /// Columns of the tables given; of all but the helpers when none is.
    fn columns<'a>(&'a self, tables: &'a [String]) -> impl Iterator<Item = String> + 'a {
        let named = self.tables.iter().filter(move |(name, _)| {
            if tables.is_empty() { !name.starts_with('_') } else { tables.contains(name) }
        });
        let metrics = self.metrics.iter().filter(|m| tables.contains(&m.name));
        let columns = named.map(|(_, columns)| columns).chain(metrics.map(|m| &m.columns));
        columns.flatten().map(|c| quoted(c))
    }

    /// Columns of a table or metric.
    fn columns_of(&self, name: &String) -> &[String] {
        let metric = || self.metrics.iter().find(|m| m.name == *name).map(|m| &m.columns);
        self.tables.get(name).or_else(metric).map_or(&[], Vec::as_slice)
    }

    fn metric_names(&self) -> impl Iterator<Item = String> + '_ {
        self.metrics.iter().map(|m| m.name.clone())
    }

    fn table_names(&self) -> impl Iterator<Item = String> + '_ {
        self.tables.keys().map(|t| quoted(t))
    }

    fn table(&self, word: &str) -> Option<&String> {
        let metrics = self.metrics.iter().map(|m| &m.name);
        self.tables.keys().chain(metrics).find(|t| t.eq_ignore_ascii_case(word))
    }

    /// Candidates for a parameter of a metric, or for the traces that it is computed of.
    fn parameter(&self, metric: &str, word: &str) -> Vec<String> {
        if let Some(begun) = word.strip_prefix("trace=") {
            let fit = self.traces.iter().filter(|t| t.starts_with(begun));
            return fit.map(|t| format!("trace={t}")).collect();
        }
        let name = metric.split('@').next().unwrap_or(metric);
        let of_metric = self.metrics.iter().filter(|m| m.name == name);
        let params = of_metric.flat_map(|m| m.params.iter().map(|p| format!("{p}=")));
        params.chain(["trace=".to_owned()]).collect()
    }

    /// Candidates for the word at the end of a dot command.
    fn command(&self, command: &str) -> Vec<String> {
        let mut words: Vec<&str> = command.split_whitespace().collect();
        if command.ends_with(char::is_whitespace) {
            words.push("");
        }
        let metrics = || self.metric_names();
        let tables = || self.table_names();
        let last = words.last().copied().unwrap_or_default();
        let candidates: Vec<String> = match words[..] {
            [_] => COMMANDS.iter().map(|c| c.0.to_owned()).collect(),
            [".tables", _] => tables().collect(),
            [".schema" | ".describe", _] => tables().chain(metrics()).collect(),
            [".run" | ".metric", name] => match name.split_once('@') {
                Some((name, _)) => self
                    .metrics
                    .iter()
                    .filter(|m| m.name == name)
                    .flat_map(|m| m.versions.iter().map(|v| format!("{}@{v}", m.name)))
                    .collect(),
                None => metrics().collect(),
            },
            [".metric", .., "--trace", _] | [".use", ..] => self.traces.clone(),
            [".run" | ".metric", name, ..] => self.parameter(name, last),
            [".plot", ..] => self.columns(&[]).collect(),
            [".show", _] => {
                metrics().chain(tables()).chain(FUNCTIONS.iter().map(|f| f.0.to_owned())).collect()
            }
            [".mode", _] => Mode::ALL.iter().map(|m| m.name().to_owned()).collect(),
            [".timer" | ".bail" | ".exact" | ".pager" | ".highlight", _] => {
                vec!["on".to_owned(), "off".to_owned()]
            }
            _ => Vec::new(),
        };
        matching(last, candidates)
    }

    /// Candidates for the word at the end of `before`, the statement up to the cursor.
    fn sql(&self, before: &str, after: &str) -> Vec<String> {
        let word = word_at_end(before);
        let code = code_of(&before[..before.len() - word.len()]);
        let rest = code_of(after);
        let rest = rest.split(';').next().unwrap_or_default();
        let tokens: Vec<String> = tokens(&code).map(str::to_uppercase).collect();
        // Tables stand behind the cursor as often as in front of it.
        let all: Vec<&str> = self::tokens(&code).chain(self::tokens(rest)).collect();
        let mentioned: Vec<String> = all.iter().filter_map(|t| self.table(t)).cloned().collect();
        if code.ends_with('.') {
            let [.., owner, _] = &tokens[..] else { return Vec::new() };
            return matching(word, self.of_owner(owner, &all));
        }
        let last = tokens.last().map_or("", String::as_str);
        let clause = tokens.iter().rev().find(|t| CLAUSES.contains(&t.as_str()));
        let in_list = last == "," && clause.is_some_and(|c| c == "FROM");
        let mut out: Vec<String> = Vec::new();
        if BEFORE_TABLE.contains(&last) || in_list {
            out.extend(self.table_names().chain(common_tables(&all)));
            if !word.is_empty() {
                out.extend(self.metric_names());
                out.extend(self.table_functions.iter().map(|f| format!("{f}(")));
                out.push(format!("{METRIC}("));
                out.extend(["SELECT", "FROM", "VALUES", "LATERAL"].map(|k| cased(k, word)));
            }
        } else if tokens.is_empty() {
            out.extend(BEGINNINGS.iter().map(|k| cased(k, word)));
        } else if word.is_empty() {
            // Everything there is would be no help.
            if mentioned.is_empty() {
                out.extend(self.table_names());
            } else {
                out.extend(self.columns(&mentioned));
            }
        } else {
            out.extend(self.columns(&mentioned));
            out.extend(KEYWORDS.iter().map(|k| cased(k, word)));
            out.extend(self.functions.iter().map(|f| format!("{f}(")));
            out.extend(self.table_names().chain(common_tables(&all)));
        }
        matching(word, out)
    }

    /// Columns of the table or alias in front of a dot.
    fn of_owner(&self, owner: &str, tokens: &[&str]) -> Vec<String> {
        let aliased = || {
            tokens.iter().enumerate().find_map(|(i, token)| {
                let table = self.table(token)?;
                let is = |at: usize, word: &str| {
                    tokens.get(at).is_some_and(|t| t.eq_ignore_ascii_case(word))
                };
                (is(i + 1, owner) || is(i + 1, "AS") && is(i + 2, owner)).then_some(table)
            })
        };
        match self.table(owner).or_else(aliased) {
            Some(table) => self.columns_of(table).iter().map(|c| quoted(c)).collect(),
            None if owner.eq_ignore_ascii_case("main") => self.table_names().collect(),
            None => Vec::new(),
        }
    }
}

/// A name as SQL takes it.
fn quoted(name: &str) -> String {
    if is_name(name) && !KEYWORDS.contains(&name.to_uppercase().as_str()) {
        name.to_owned()
    } else {
        sql_name(name)
    }
}

/// A keyword in the case of what was typed: in lower case only after lower case.
fn cased(keyword: &str, typed: &str) -> String {
    if !typed.is_empty() && typed.chars().all(|c| !c.is_uppercase()) {
        keyword.to_lowercase()
    } else {
        keyword.to_owned()
    }
}

fn word_at_end(text: &str) -> &str {
    let start = text
        .rfind(|c| !is_word(c))
        .map_or(0, |at| at + text[at..].chars().next().map_or(0, char::len_utf8));
    &text[start..]
}

/// Words, and every other character but white space by itself.
fn tokens(code: &str) -> impl Iterator<Item = &str> {
    let mut rest = code;
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        let first = rest.chars().next()?;
        let end = if is_word(first) {
            rest.find(|c| !is_word(c)).unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        let (token, left) = rest.split_at(end);
        rest = left;
        Some(token)
    })
}

/// Names of common table expressions: `x AS (`.
fn common_tables<'a>(tokens: &'a [&str]) -> impl Iterator<Item = String> + 'a {
    tokens
        .windows(3)
        .filter(|w| w[1].eq_ignore_ascii_case("AS") && w[2] == "(" && w[0].starts_with(is_word))
        .map(|w| w[0].to_owned())
}

/// The candidates that begin with `word`, sorted, each once. Helpers need their underscore.
fn matching(word: &str, candidates: impl IntoIterator<Item = String>) -> Vec<String> {
    let word = word.to_lowercase();
    let fit = |c: &String| {
        let bare = c.trim_start_matches('"').to_lowercase();
        bare.starts_with(&word) && (!bare.starts_with('_') || word.starts_with('_'))
    };
    candidates.into_iter().filter(fit).collect::<BTreeSet<_>>().into_iter().collect()
}

/// The helper of the line editor.
#[derive(Helper, Hinter)]
pub struct Assistant {
    /// The names that can be offered.
    pub names: Names,
    /// The input of the lines before this one.
    pub input: Splitter,
    /// Whether what is typed has colours.
    pub colour: bool,
    /// The completer of paths of files.
    files: Option<FilenameCompleter>,
}

impl Assistant {
    /// A helper that offers these names, and files unless they are out of bounds.
    pub fn new(names: Names, with_files: bool) -> Self {
        let files = with_files.then(FilenameCompleter::new);
        Self { names, input: Splitter::default(), colour: false, files }
    }

    /// The place in `line` where the word begins that the candidates stand for.
    fn candidates(&self, line: &str, cursor: usize) -> (usize, Vec<String>) {
        let (before, after) = line.split_at(cursor);
        let mut input = self.input.clone();
        match input.feed_part(before).pop() {
            Some(Item { task: Task::Command(_), .. }) => {
                // The command of the splitter has lost the blank at its end, which counts here.
                let start = before.rfind(char::is_whitespace).map_or(0, |at| at + 1);
                let command = before.rfind(';').map_or(before, |at| &before[at + 1..]);
                (start, self.names.command(command.trim_start()))
            }
            _ if input.in_text() => (cursor, Vec::new()),
            _ => {
                let start = cursor - word_at_end(before).len();
                (start, self.names.sql(input.pending(), after))
            }
        }
    }
}

impl Completer for Assistant {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        pos: usize,
        context: &LineContext<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        if let Some(files) = &self.files
            && self.input.is_idle()
            && [".output ", ".once ", ".read "].iter().any(|c| line.trim_start().starts_with(c))
        {
            return files.complete(line, pos, context);
        }
        let (start, candidates) = self.candidates(line, pos);
        let pair = |c: String| Pair { display: c.clone(), replacement: c };
        Ok((start, candidates.into_iter().map(pair).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Candidates at the bar in the last of some lines.
    fn at_bar(lines: &str) -> Vec<String> {
        let registry = Registry::load(None).expect("the embedded files are right");
        let mut names = Names::new(&registry, vec!["job one".to_owned(), "run_a".to_owned()]);
        names.tables.insert("my table".to_owned(), vec!["the sum".to_owned()]);
        let mut assistant = Assistant::new(names, false);
        let (front, line) = lines.rsplit_once('\n').unwrap_or(("", lines));
        if !front.is_empty() {
            assistant.input.feed(front);
        }
        let cursor = line.find('|').expect("a bar");
        let (start, found) = assistant.candidates(&line.replace('|', ""), cursor);
        assert!(start <= cursor);
        found
    }

    fn has(lines: &str, wanted: &[&str]) {
        let found = at_bar(lines);
        for w in wanted {
            assert!(found.iter().any(|f| f == w), "{w} for {lines:?}: {found:?}");
        }
    }

    fn lacks(lines: &str, unwanted: &[&str]) {
        let found = at_bar(lines);
        for w in unwanted {
            assert!(!found.iter().any(|f| f == w), "{w} for {lines:?}: {found:?}");
        }
    }

    #[test]
    fn where_nothing_is_typed_yet_tables_come_first() {
        has("SELECT |", &["device_events", "steps"]);
        lacks("SELECT |", &["SELECT", "coll_call_num"]);
    }

    #[test]
    fn dot_commands_and_their_arguments() {
        assert_eq!(at_bar(".ti|"), [".timer"]);
        assert_eq!(at_bar("SELECT 1; .ta|"), [".tables"]);
        has(".run |", &["coll_call_num", "iter_time"]);
        assert_eq!(at_bar(".run coll_c|"), ["coll_call_num"]);
        assert_eq!(at_bar(".run coll_call_num@|"), ["coll_call_num@1"]);
        assert_eq!(at_bar(".schema device_e|"), ["device_events"]);
        assert_eq!(at_bar(".schema _wind|"), ["_windows"]);
        lacks(".schema |", &["_busy"]);
        has(".show |", &["coll_call_num", "kernels", "steps", "interval_union"]);
        has(".mode |", &["csv", "json", "jsonl", "line", "table", "value"]);
        assert_eq!(at_bar(".use r|"), ["run_a"]);
        assert_eq!(at_bar(".run mfu trace=r|"), ["trace=run_a"]);
        has(".metric mfu --trace |", &["job one", "run_a"]);
        has(".describe mf|", &["mfu"]);
        assert_eq!(at_bar(".timer o|"), ["off", "on"]);
        assert_eq!(at_bar(".metrics |"), [""; 0]);
        has(".tables |", &["steps", "kernels"]);
        lacks(".tables |", &["coll_call_num", "_busy"]);
        assert_eq!(at_bar(".tables device_e|"), ["device_events"]);
        // Of which tables is not known there.
        has(".plot |", &["start_ns", "dur_ns", "mean_lag_us"]);
        assert_eq!(at_bar(".plot marke|"), ["marker"]);
    }

    #[test]
    fn parameters_of_a_metric() {
        let registry = Registry::load(None).expect("the embedded files are right");
        for file in registry.metrics().filter(|f| !f.header.params.is_empty()) {
            let wanted = format!("{}=", file.header.params[0].name);
            has(&format!(".run {} |", file.header.name), &[&wanted]);
        }
    }

    #[test]
    fn keywords_follow_the_case_of_the_typed() {
        assert_eq!(at_bar("SELE|"), ["SELECT"]);
        assert_eq!(at_bar("sele|"), ["select"]);
        has("|", &["SELECT", "FROM", "WITH"]);
        has("SELECT 1 fr|", &["from"]);
    }

    #[test]
    fn tables_after_from_and_join() {
        has("SELECT * FROM |", &["collectives", "kernels", "\"my table\""]);
        lacks("SELECT * FROM |", &["_busy", "SELECT", "ts_ns"]);
        assert_eq!(at_bar("SELECT * FROM _wind|"), ["_windows"]);
        has("SELECT *\nFROM steps JOIN coll|", &["collectives", "collective_calls"]);
        has("SELECT * FROM steps, coll|", &["collectives"]);
        has("WITH wide AS (SELECT 1) SELECT * FROM w|", &["wide"]);
    }

    #[test]
    fn columns_of_the_tables_that_are_mentioned() {
        has("SELECT | FROM steps", &["marker", "dur_ns", "trace"]);
        lacks("SELECT | FROM steps", &["message_bytes", "SELECT"]);
        has("SELECT mar| FROM steps", &["marker"]);
        lacks("SELECT mess| FROM steps", &["message_bytes"]);
        has("FROM steps\nWHERE m|", &["marker"]);
        has("SELECT interval_u|", &["interval_union(", "interval_union_ns("]);
        has("SELECT count(ts_|", &["ts_ns"]);
        // Before a table is named, a name of one may stand there too.
        has("SELECT kern|", &["kernels"]);
        has("SELECT the| FROM \"my table\"", &["\"the sum\"", "then"]);
        // Behind a comma of FROM stands another table, behind a table no further one.
        has("SELECT * FROM steps, |", &["collectives", "ranks"]);
        lacks("SELECT * FROM steps, |", &["marker"]);
        lacks("SELECT * FROM steps |", &["collectives", "ranks"]);
        lacks("SELECT marker, | FROM steps", &["collectives", "ranks"]);
    }

    #[test]
    fn columns_of_a_table_or_alias_before_a_dot() {
        assert_eq!(at_bar("SELECT steps.mar|"), ["marker"]);
        assert_eq!(at_bar("SELECT s.mar| FROM steps AS s"), ["marker"]);
        assert_eq!(at_bar("SELECT * FROM steps s\nWHERE s.mar|"), ["marker"]);
        lacks("SELECT s.| FROM steps s, collectives c", &["message_bytes"]);
        assert_eq!(at_bar("SELECT x.|"), [""; 0]);
    }

    #[test]
    fn metrics_are_tables() {
        has("SELECT * FROM straggler_l|", &["straggler_lag"]);
        has("SELECT * FROM metr|", &["metric("]);
        lacks("SELECT * FROM |", &["straggler_lag"]);
        has("SELECT mean_l| FROM straggler_lag", &["mean_lag_us"]);
        assert_eq!(at_bar("SELECT s.mean_l| FROM straggler_lag s"), ["mean_lag_us"]);
    }

    #[test]
    fn nothing_in_strings_and_comments_and_nothing_of_the_last_statement() {
        assert_eq!(at_bar("SELECT 'sel|"), [""; 0]);
        assert_eq!(at_bar("/*\nsel|"), [""; 0]);
        assert_eq!(at_bar("SELECT 1 -- sel|"), [""; 0]);
        assert_eq!(at_bar("SELECT * FROM steps; SELE|"), ["SELECT"]);
        lacks("SELECT * FROM steps; SELECT mess| FROM collectives", &["marker"]);
    }
}
