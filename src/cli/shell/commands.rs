//! The dot commands: their list, their grammar, and the ones that give rows.

use std::path::PathBuf;

use serde_json::Value;

use crate::cli::context::Context;
use crate::engine::Engine;
use crate::error::{Error, Result, nearest};
use crate::report::Grid;
use crate::schema::{self, TABLES};
use crate::sql_text::sql_string;

/// Name, arguments and meaning of each command, for `.help` and completion.
pub const COMMANDS: &[(&str, &str, &str)] = &[
    (".tables", "[PATTERN]", "tables and views; a pattern holds * and ?, or is a part of the name"),
    (".schema", "[NAME]", "columns and types of a table or view, or of all"),
    (".metrics", "", "metrics"),
    (".run", "NAME[@V] [KEY=VALUE]...", "compute a metric of all traces"),
    (".show", "NAME", "definition of a metric, view, table or function"),
    (".mode", "[table|json|csv|value|line]", "form of the results"),
    (".output", "[[--force] FILE]", "add the next results to FILE, or print them again"),
    (".timer", "[on|off]", "print how long each statement takes"),
    (".help", "", "this text"),
    (".quit", "", "leave; so do .exit and Ctrl-D"),
    (".exit", "", "leave"),
];

/// Statement keys and the list of commands.
pub fn help() -> String {
    let mut out = String::from(
        "A statement ends with ; and may span lines. Tab completes, Ctrl-C clears the line or\n\
         stops the query, Ctrl-D leaves.\n\n",
    );
    let usage = |name: &str, args: &str| format!("{name} {args}").trim_end().to_owned();
    let width = COMMANDS.iter().map(|(name, args, _)| usage(name, args).len()).max().unwrap_or(0);
    for (name, args, doc) in COMMANDS {
        out.push_str(&format!("{:width$}  {doc}\n", usage(name, args)));
    }
    out
}

/// The form of the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Aligned columns.
    Table,
    /// An array of objects.
    Json,
    /// Comma-separated values.
    Csv,
    /// The first column, or the value of a metric, bare.
    Value,
    /// `column = value`, a line each.
    Line,
}

impl Mode {
    /// All forms.
    pub const ALL: &[Self] = &[Self::Table, Self::Json, Self::Csv, Self::Value, Self::Line];

    /// The word of the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Json => "json",
            Self::Csv => "csv",
            Self::Value => "value",
            Self::Line => "line",
        }
    }

    /// The form of a word.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|m| m.name() == name)
    }
}

/// A dot command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// `.tables`.
    Tables(Option<String>),
    /// `.schema`.
    Schema(Option<String>),
    /// `.metrics`.
    Metrics,
    /// `.run`.
    Run {
        /// NAME or NAME@VERSION.
        name: String,
        /// Parameters.
        params: Vec<(String, String)>,
    },
    /// `.show`.
    Show(String),
    /// `.mode`; None asks.
    Mode(Option<Mode>),
    /// `.output`; None is stdout.
    Output {
        /// The file.
        file: Option<PathBuf>,
        /// Whether to write over a file that is there.
        force: bool,
    },
    /// `.timer`; None asks.
    Timer(Option<bool>),
    /// `.help`.
    Help,
    /// `.quit` and `.exit`.
    Quit,
}

/// Words of a line: white space parts them, quotes of either kind hold them together; a semicolon
/// at the end is dropped, as fingers are used to it.
fn words(line: &str) -> Result<Vec<String>> {
    let line = line.trim();
    let line = line.strip_suffix(';').unwrap_or(line);
    let mut out: Vec<String> = Vec::new();
    let mut open = false;
    let mut quote = None;
    for c in line.chars() {
        match quote {
            Some(q) if c == q => quote = None,
            None if c.is_whitespace() => open = false,
            None | Some(_) => {
                if !open {
                    out.push(String::new());
                    open = true;
                }
                match c {
                    '\'' | '"' if quote.is_none() => quote = Some(c),
                    c => out.last_mut().expect("a word is open").push(c),
                }
            }
        }
    }
    if let Some(quote) = quote {
        return Err(Error::new("usage", format!("a quote is open: {quote}")).at(line.to_owned()));
    }
    Ok(out)
}

/// The error of arguments that a command does not take.
fn usage(name: &str) -> Error {
    let args = COMMANDS.iter().find(|(n, _, _)| *n == name).map_or("", |(_, args, _)| args);
    let what = if args.is_empty() { "takes no argument" } else { "has other arguments" };
    Error::new("usage", format!("`{name}` {what}"))
        .hint(format!("write {}", format!("{name} {args}").trim_end()))
}

/// Reads a line that begins with a dot.
///
/// # Errors
/// `usage` for an unknown command, with the nearest one, and for arguments that it does not take.
pub fn parse(line: &str) -> Result<Command> {
    let words = words(line)?;
    let Some((name, args)) = words.split_first() else {
        return Err(Error::new("usage", "no command"));
    };
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let one = |args: &[&str]| match args {
        [] => Ok(None),
        [arg] => Ok(Some((*arg).to_owned())),
        _ => Err(usage(name)),
    };
    let none = |command: Command| if args.is_empty() { Ok(command) } else { Err(usage(name)) };
    Ok(match name.as_str() {
        ".tables" => Command::Tables(one(&args)?),
        ".schema" => Command::Schema(one(&args)?),
        ".metrics" => none(Command::Metrics)?,
        ".run" => {
            let Some((metric, params)) = args.split_first() else { return Err(usage(name)) };
            let params = params
                .iter()
                .map(|p| p.split_once('=').ok_or_else(|| usage(name)))
                .map(|p| p.map(|(key, value)| (key.replace('-', "_"), value.to_owned())))
                .collect::<Result<_>>()?;
            Command::Run { name: (*metric).to_owned(), params }
        }
        ".show" => Command::Show(one(&args)?.ok_or_else(|| usage(name))?),
        ".mode" => Command::Mode(match one(&args)? {
            Some(mode) => Some(Mode::of(&mode).ok_or_else(|| unknown_mode(&mode))?),
            None => None,
        }),
        ".output" => {
            let force = args.first() == Some(&"--force");
            let file = one(if force { &args[1..] } else { &args })?;
            if force && file.is_none() {
                return Err(usage(name));
            }
            Command::Output { file: file.filter(|f| f != "-").map(PathBuf::from), force }
        }
        ".timer" => Command::Timer(match one(&args)?.as_deref() {
            None => None,
            Some("on") => Some(true),
            Some("off") => Some(false),
            Some(_) => return Err(usage(name)),
        }),
        ".help" => none(Command::Help)?,
        ".quit" | ".exit" => none(Command::Quit)?,
        _ => {
            let error = Error::new("usage", format!("there is no command `{name}`"));
            return Err(match nearest(name, COMMANDS.iter().map(|c| c.0)) {
                Some(near) => error.hint(format!("did you mean `{near}`?")),
                None => error.hint("`.help` shows them all"),
            });
        }
    })
}

fn unknown_mode(mode: &str) -> Error {
    let error = Error::new("usage", format!("there is no mode `{mode}`"));
    match nearest(mode, Mode::ALL.iter().map(|m| m.name())) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error.hint(usage(".mode").hint.unwrap_or_default()),
    }
}

/// Rows of the engine's own catalogue.
fn rows(engine: &Engine<'_>, sql: &str) -> Result<Vec<Vec<String>>> {
    let mut statement = engine.connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    let mut out = Vec::new();
    while let Some(row) = rows.next()? {
        let columns = row.as_ref().column_count();
        out.push((0..columns).map(|i| row.get(i)).collect::<duckdb::Result<_>>()?);
    }
    Ok(out)
}

/// A table or view with its columns and their types.
pub type Columns = (String, Vec<(String, String)>);

/// Tables and views of the connection, with their columns: those of the schema in its order, then
/// the views of the registry and what the user has made, by name.
///
/// # Errors
/// `sql`.
pub fn catalogue(engine: &Engine<'_>) -> Result<Vec<Columns>> {
    let mut out: Vec<Columns> = Vec::new();
    let mut before = String::new();
    for row in rows(
        engine,
        "SELECT table_name, column_name, data_type, database_oid || '.' || table_oid \
         FROM duckdb_columns() WHERE NOT internal ORDER BY 1, 4, column_index",
    )? {
        let [table, column, ty, id]: [String; 4] =
            row.try_into().unwrap_or_else(|_| unreachable!("four columns are asked for"));
        match out.last_mut() {
            Some((_, columns)) if before == id => columns.push((column, ty)),
            _ => out.push((table, vec![(column, ty)])),
        }
        before = id;
    }
    out.sort_by_key(|(name, _)| TABLES.iter().position(|t| t.name == name).unwrap_or(usize::MAX));
    Ok(out)
}

/// Whether a name fits: `*` and `%` stand for any text, `?` for a character; a pattern without
/// these for a part of the name.
fn fits(pattern: &str, name: &str) -> bool {
    fn whole(pattern: &[char], name: &[char]) -> bool {
        match pattern.split_first() {
            None => name.is_empty(),
            Some(('*' | '%', rest)) => (0..=name.len()).any(|n| whole(rest, &name[n..])),
            Some(('?', rest)) => !name.is_empty() && whole(rest, &name[1..]),
            Some((c, rest)) => name.first() == Some(c) && whole(rest, &name[1..]),
        }
    }
    let (pattern, name) = (pattern.to_lowercase(), name.to_lowercase());
    if !pattern.contains(['*', '%', '?']) {
        return name.contains(&pattern);
    }
    let chars = |text: &str| text.chars().collect::<Vec<_>>();
    whole(&chars(&pattern), &chars(&name))
}

fn no_table(name: &str, known: &[Columns]) -> Error {
    let error = Error::new("sql", format!("there is no table or view `{name}`"));
    match nearest(name, known.iter().map(|(n, _)| n.as_str())) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error.hint("`.tables` shows them all"),
    }
}

/// `.tables`: helpers, whose names begin with `_`, only when the pattern does too.
///
/// # Errors
/// `sql` when nothing fits.
pub fn tables(context: &Context, engine: &Engine<'_>, pattern: Option<&str>) -> Result<Grid> {
    let known = catalogue(engine)?;
    let views: Vec<String> =
        rows(engine, "SELECT view_name FROM duckdb_views() WHERE NOT internal")?.concat();
    let shown = |name: &str| match pattern {
        Some(pattern) if pattern.starts_with('_') => fits(pattern, name),
        Some(pattern) => !name.starts_with('_') && fits(pattern, name),
        None => !name.starts_with('_'),
    };
    let rows: Vec<Vec<Value>> = known
        .iter()
        .filter(|(name, _)| shown(name))
        .map(|(name, columns)| {
            // The tables of the schema are views of Parquet files, which is nobody's business.
            let table = schema::table(name);
            let view = table.is_none() && views.contains(name);
            let doc = table
                .map(|t| t.doc)
                .or_else(|| context.registry.view(name).map(|v| v.header.summary.as_str()));
            vec![
                name.as_str().into(),
                if view { "view" } else { "table" }.into(),
                columns.len().into(),
                doc.map_or(Value::Null, Value::from),
            ]
        })
        .collect();
    match pattern {
        Some(pattern) if rows.is_empty() => Err(no_table(pattern, &known)),
        _ => Ok(Grid::of_rows(&["table", "kind", "columns", "row"], rows)),
    }
}

/// `.schema`: a row per column.
///
/// # Errors
/// `sql` for a name that there is not.
pub fn columns(context: &Context, engine: &Engine<'_>, name: Option<&str>) -> Result<Grid> {
    let known = catalogue(engine)?;
    let meaning = |table: &str, column: &str| -> Value {
        let schema = schema::table(table)
            .and_then(|t| t.columns.iter().find(|c| c.name == column).map(|c| c.doc));
        let header = || {
            let view = context.registry.view(table)?;
            view.header.columns.iter().find(|c| c.name == column).map(|c| c.doc.as_str())
        };
        match schema.or_else(header) {
            Some(doc) => doc.into(),
            None if column == "trace" && schema::table(table).is_some() => {
                "Name of the ingested trace.".into()
            }
            None => Value::Null,
        }
    };
    let mut out = Vec::new();
    for (table, columns) in &known {
        let wanted = match name {
            Some(name) => name.eq_ignore_ascii_case(table),
            None => !table.starts_with('_'),
        };
        for (column, ty) in columns.iter().filter(|_| wanted) {
            let (t, c) = (table.as_str(), column.as_str());
            let mut row = vec![c.into(), ty.as_str().into(), meaning(t, c)];
            if name.is_none() {
                row.insert(0, t.into());
            }
            out.push(row);
        }
    }
    match name {
        Some(name) if out.is_empty() => Err(no_table(name, &known)),
        Some(_) => Ok(Grid::of_rows(&["column", "type", "meaning"], out)),
        None => Ok(Grid::of_rows(&["table", "column", "type", "meaning"], out)),
    }
}

/// The SQL of a view or table that the user has made here.
///
/// # Errors
/// `sql`.
pub fn own_definition(engine: &Engine<'_>, name: &str) -> Result<Option<String>> {
    let name = sql_string(name);
    let sql = format!(
        "SELECT sql FROM duckdb_views() WHERE NOT internal AND view_name = {name} \
         UNION ALL SELECT sql FROM duckdb_tables() WHERE NOT internal AND table_name = {name}"
    );
    Ok(rows(engine, &sql)?.into_iter().flatten().next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_their_arguments() {
        assert_eq!(parse(".tables").expect("tables"), Command::Tables(None));
        assert_eq!(parse(".tables coll*;").expect("tables"), Command::Tables(Some("coll*".into())));
        assert_eq!(parse("  .mode  json ").expect("mode"), Command::Mode(Some(Mode::Json)));
        assert_eq!(parse(".mode").expect("mode"), Command::Mode(None));
        assert_eq!(parse(".timer on").expect("timer"), Command::Timer(Some(true)));
        assert_eq!(parse(".exit").expect("exit"), Command::Quit);
        assert_eq!(
            parse(".run a@2 min-calls=5 text='a b'").expect("run"),
            Command::Run {
                name: "a@2".into(),
                params: vec![("min_calls".into(), "5".into()), ("text".into(), "a b".into())],
            }
        );
    }

    #[test]
    fn output_takes_a_file_with_spaces_and_force() {
        let output = |file: &str, force| Command::Output { file: Some(file.into()), force };
        assert_eq!(parse(".output 'a b.csv'").expect("output"), output("a b.csv", false));
        assert_eq!(parse(".output --force x").expect("output"), output("x", true));
        let stdout = Command::Output { file: None, force: false };
        assert_eq!(parse(".output").expect("output"), stdout);
        assert_eq!(parse(".output -").expect("output"), stdout);
        assert!(parse(".output a b").is_err() && parse(".output --force").is_err());
    }

    #[test]
    fn a_wrong_command_gets_a_hint() {
        let hint = |line: &str| parse(line).expect_err("it is wrong").hint.unwrap_or_default();
        assert_eq!(hint(".tabels"), "did you mean `.tables`?");
        assert_eq!(hint(".xyzzy"), "`.help` shows them all");
        assert_eq!(hint(".mode jsno"), "did you mean `json`?");
        assert_eq!(hint(".run"), "write .run NAME[@V] [KEY=VALUE]...");
        assert_eq!(hint(".run a b"), "write .run NAME[@V] [KEY=VALUE]...");
        assert_eq!(hint(".metrics now"), "write .metrics");
        assert!(parse(".show 'a").is_err());
    }

    #[test]
    fn every_command_is_read_and_in_the_help() {
        for (name, _, _) in COMMANDS {
            let line = if matches!(*name, ".run" | ".show") {
                format!("{name} x")
            } else {
                (*name).into()
            };
            assert!(parse(&line).is_ok(), "{name}");
            assert!(help().contains(name), "{name}");
        }
    }

    #[test]
    fn patterns() {
        assert!(fits("coll", "collectives") && fits("CALLS", "collective_calls"));
        assert!(fits("coll*", "collectives") && fits("%_calls", "collective_calls"));
        assert!(fits("step?", "steps") && !fits("step?", "step_events"));
        assert!(!fits("ll*", "collectives") && !fits("x", "steps"));
    }
}
