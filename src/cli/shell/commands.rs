//! The dot commands: their list, their grammar, and the ones that give rows.

use std::path::PathBuf;

use serde_json::Value;

use crate::cli::args::What;
use crate::cli::context::Context;
use crate::cli::list;
use crate::cli::results::NULL_REASON;
use crate::engine::Engine;
use crate::error::{Error, Result, nearest};
use crate::registry::SqlFile;
use crate::report::Grid;
use crate::schema::{self, TABLES};
use crate::sql_text::sql_string;

/// Name, arguments and meaning of each command, for `.help` and completion.
pub const COMMANDS: &[(&str, &str, &str)] = &[
    (".tables", "[PATTERN]", "tables and views; a pattern holds * and ?, or is a part of the name"),
    (".schema", "[NAME]", "columns and types of a table, view or metric, or of all tables"),
    (".describe", "NAME", "the same of one"),
    (".show", "NAME", "definition of a metric, view, table or function"),
    (".metrics", "[PATTERN]", "metrics; each is a table too: FROM mfu"),
    (".metric", "NAME[@V] [-p KEY=VALUE]... [--trace T]", "compute a metric"),
    (".run", "NAME[@V] [trace=T] [KEY=VALUE]...", "the same"),
    (".traces", "", "ingested traces, and which of them are shown"),
    (".use", "[TRACE]...", "show these traces only, or all again; a path is ingested first"),
    (".plot", "[X Y]", "draw two columns of the last query"),
    (
        ".mode",
        "[table|box|json|jsonl|csv|tsv|md|value|line|trash]",
        "form of the results; a table on a terminal is a box",
    ),
    (".exact", "[on|off]", "numbers as they are, in place of three to five digits and a unit"),
    (".maxrows", "[N]", "rows of a table that are shown"),
    (".maxwidth", "[N]", "columns of the screen that a table takes; 0 for all"),
    (".pager", "[on|off]", "results longer than the screen go through $PAGER, else less"),
    (".highlight", "[on|off]", "colours of what is typed"),
    (".bail", "[on|off]", "end at the first error, where input is no terminal"),
    (".timer", "[on|off]", "print how long each statement takes"),
    (".once", "[--force] FILE", "write the next result to FILE; its ending says the form"),
    (".output", "[[--force] FILE]", "add the next results to FILE, or print them again"),
    (".read", "FILE", "run the statements and commands of FILE"),
    (".print", "TEXT", "print a text among the results"),
    (".help", "[WORD]", "this text, or what is about WORD"),
    (".quit", "", "leave; so do .exit and Ctrl-D"),
    (".exit", "", "leave"),
];

/// Statement keys and the list of commands; with a word those that are about it.
///
/// # Errors
/// `nothing-found` where no command is.
pub fn help(word: Option<&str>) -> Result<String> {
    let is_about = |(name, args, doc): &&(&str, &str, &str)| {
        let text = format!("{name} {args} {doc}").to_lowercase();
        word.is_none_or(|word| text.contains(&word.to_lowercase()))
    };
    let commands: Vec<_> = COMMANDS.iter().filter(is_about).collect();
    let mut out = match word {
        None => String::from(
            "A statement ends with ; and may span lines. Tab completes, Ctrl-R searches the\n\
             history, Ctrl-C clears the line or stops the query, Ctrl-D leaves.\n\
             A metric is a table: FROM mfu; and with parameters FROM metric('mfu', peak_tflops := 989);\n\n",
        ),
        Some(word) if commands.is_empty() => {
            return Err(Error::new("nothing-found", format!("no command is about `{word}`"))
                .hint("`.help` shows them all"));
        }
        Some(_) => String::new(),
    };
    let usage = |name: &str, args: &str| format!("{name} {args}").trim_end().to_owned();
    for (name, args, doc) in commands {
        let usage = usage(name, args);
        let gap =
            if usage.len() > WIDEST { format!("\n{}", " ".repeat(WIDEST)) } else { String::new() };
        out.push_str(&format!("{usage:WIDEST$}{gap}  {doc}\n"));
    }
    Ok(out)
}

/// Columns that a command and its arguments take in the help.
const WIDEST: usize = 34;

/// The form of the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A box on a terminal, else aligned columns.
    Table,
    /// A box for people.
    Box,
    /// An array of objects.
    Json,
    /// An object a line.
    Jsonl,
    /// Comma-separated values.
    Csv,
    /// Values between tabs.
    Tsv,
    /// Markdown.
    Markdown,
    /// The first column, or the value of a metric, bare.
    Value,
    /// `column = value`, a line each.
    Line,
    /// Parquet, in a file of `.once`.
    Parquet,
    /// Nothing.
    Trash,
}

impl Mode {
    /// All forms that can be set.
    pub const ALL: &[Self] = &[
        Self::Table,
        Self::Box,
        Self::Json,
        Self::Jsonl,
        Self::Csv,
        Self::Tsv,
        Self::Markdown,
        Self::Value,
        Self::Line,
        Self::Trash,
    ];

    /// The word of the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Box => "box",
            Self::Json => "json",
            Self::Jsonl => "jsonl",
            Self::Csv => "csv",
            Self::Tsv => "tsv",
            Self::Markdown => "md",
            Self::Value => "value",
            Self::Line => "line",
            Self::Parquet => "parquet",
            Self::Trash => "trash",
        }
    }

    /// The form of a word.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|m| m.name() == name)
    }

    /// The form of a file with this ending.
    pub fn of_ending(ending: &str) -> Option<Self> {
        match ending.to_lowercase().as_str() {
            "parquet" => Some(Self::Parquet),
            "txt" => Some(Self::Table),
            "ndjson" => Some(Self::Jsonl),
            ending @ ("json" | "jsonl" | "csv" | "tsv" | "md") => Self::of(ending),
            _ => None,
        }
    }
}

/// A dot command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// `.tables`.
    Tables(Option<String>),
    /// `.schema` and `.describe`.
    Schema(Option<String>),
    /// `.metrics`.
    Metrics(Option<String>),
    /// `.traces`.
    Traces,
    /// `.use`; none for all traces.
    Use(Vec<String>),
    /// `.run` and `.metric`.
    Run {
        /// NAME or NAME@VERSION.
        name: String,
        /// Parameters.
        params: Vec<(String, String)>,
        /// Traces; none for those that are shown.
        trace: Vec<String>,
    },
    /// `.plot`.
    Plot(Option<(String, String)>),
    /// `.show`.
    Show(String),
    /// `.mode`; None asks.
    Mode(Option<Mode>),
    /// `.exact`; None asks.
    Exact(Option<bool>),
    /// `.maxrows`; None asks.
    MaxRows(Option<usize>),
    /// `.maxwidth`; None asks.
    MaxWidth(Option<usize>),
    /// `.pager`; None asks.
    Pager(Option<bool>),
    /// `.highlight`; None asks.
    Highlight(Option<bool>),
    /// `.once`.
    Once {
        /// The file.
        file: PathBuf,
        /// Whether to write over a file that is there.
        force: bool,
    },
    /// `.output`; None is stdout.
    Output {
        /// The file.
        file: Option<PathBuf>,
        /// Whether to write over a file that is there.
        force: bool,
    },
    /// `.read`.
    Read(PathBuf),
    /// `.bail`; None asks.
    Bail(Option<bool>),
    /// `.timer`; None asks.
    Timer(Option<bool>),
    /// `.print`.
    Print(String),
    /// `.help`.
    Help(Option<String>),
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

/// A metric with its parameters: `KEY=VALUE`, with `-p` before it or not, `trace=T` or `--trace T`.
fn run(name: &str, args: &[&str]) -> Result<Command> {
    let Some((metric, rest)) = args.split_first() else { return Err(usage(name)) };
    let (mut params, mut trace) = (Vec::new(), Vec::new());
    let mut rest = rest.iter();
    while let Some(word) = rest.next() {
        let mut next = || rest.next().copied().ok_or_else(|| usage(name));
        let pair = match *word {
            "-p" | "--param" => next()?,
            "--trace" => {
                trace.push(next()?.to_owned());
                continue;
            }
            word => word,
        };
        match pair.split_once('=').ok_or_else(|| usage(name))? {
            ("trace" | "--trace", value) => trace.push(value.to_owned()),
            (key, value) => params.push((key.replace('-', "_"), value.to_owned())),
        }
    }
    Ok(Command::Run { name: (*metric).to_owned(), params, trace })
}

/// `on` or `off`; none asks.
fn switch(name: &str, word: Option<String>) -> Result<Option<bool>> {
    match word.as_deref() {
        None => Ok(None),
        Some("on") => Ok(Some(true)),
        Some("off") => Ok(Some(false)),
        Some(_) => Err(usage(name)),
    }
}

/// A number; none asks.
fn number(name: &str, word: Option<String>) -> Result<Option<usize>> {
    word.map(|word| word.parse().map_err(|_| usage(name))).transpose()
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
    let needed = || one(&args)?.ok_or_else(|| usage(name));
    let none = |command: Command| if args.is_empty() { Ok(command) } else { Err(usage(name)) };
    let force = args.first() == Some(&"--force");
    let file = || one(if force { &args[1..] } else { &args });
    Ok(match name.as_str() {
        ".tables" => Command::Tables(one(&args)?),
        ".schema" => Command::Schema(one(&args)?),
        ".describe" => Command::Schema(Some(needed()?)),
        ".metrics" => Command::Metrics(one(&args)?),
        ".traces" => none(Command::Traces)?,
        ".use" => Command::Use(args.iter().map(|word| (*word).to_owned()).collect()),
        ".run" | ".metric" => run(name, &args)?,
        ".plot" => Command::Plot(match args[..] {
            [] => None,
            [x, y] => Some((x.to_owned(), y.to_owned())),
            _ => return Err(usage(name)),
        }),
        ".show" => Command::Show(needed()?),
        ".mode" => Command::Mode(match one(&args)? {
            Some(mode) => Some(Mode::of(&mode).ok_or_else(|| unknown_mode(&mode))?),
            None => None,
        }),
        ".exact" => Command::Exact(switch(name, one(&args)?)?),
        ".maxrows" => match number(name, one(&args)?)? {
            Some(0) => return Err(usage(name)),
            rows => Command::MaxRows(rows),
        },
        ".maxwidth" => Command::MaxWidth(number(name, one(&args)?)?),
        ".pager" => Command::Pager(switch(name, one(&args)?)?),
        ".highlight" => Command::Highlight(switch(name, one(&args)?)?),
        ".bail" => Command::Bail(switch(name, one(&args)?)?),
        ".timer" => Command::Timer(switch(name, one(&args)?)?),
        ".once" => match file()? {
            Some(file) => Command::Once { file: PathBuf::from(file), force },
            None => return Err(usage(name)),
        },
        ".output" => match file()? {
            None if force => return Err(usage(name)),
            file => Command::Output { file: file.filter(|f| f != "-").map(PathBuf::from), force },
        },
        ".read" => Command::Read(PathBuf::from(needed()?)),
        ".print" => Command::Print(args.join(" ")),
        ".help" => Command::Help(one(&args)?),
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
         FROM duckdb_columns() WHERE NOT internal AND NOT starts_with(table_name, '@') \
         ORDER BY 1, 4, column_index",
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

fn no_table<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Error {
    let error = Error::new("sql", format!("there is no table or view `{name}`"));
    match nearest(name, known) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error.hint("`.tables` shows them all"),
    }
}

/// Whether a name is one of the schema's tables or of the views of the registry, which are made
/// when they are asked for.
pub fn is_known(context: &Context, name: &str) -> bool {
    schema::table(name).is_some() || context.registry.view(name).is_some()
}

/// `.tables`: helpers, whose names begin with `_`, only when the pattern does too.
///
/// # Errors
/// `sql` when nothing fits.
pub fn tables(context: &Context, engine: &Engine<'_>, pattern: Option<&str>) -> Result<Grid> {
    let made = catalogue(engine)?;
    let views: Vec<String> =
        rows(engine, "SELECT view_name FROM duckdb_views() WHERE NOT internal")?.concat();
    let shown = |name: &str| match pattern {
        Some(pattern) if pattern.starts_with('_') => fits(pattern, name),
        Some(pattern) => !name.starts_with('_') && fits(pattern, name),
        None => !name.starts_with('_'),
    };
    // The tables of the schema are views of Parquet files, which is nobody's business.
    let own_tables = TABLES.iter().map(|t| (t.name, "table", t.columns.len() + 1, Some(t.doc)));
    let headers = context.registry.views().map(|v| &v.header);
    let own_views =
        headers.map(|h| (h.name.as_str(), "view", h.columns.len(), Some(h.summary.as_str())));
    let is_metric = |name: &str| context.registry.metric(name).is_ok();
    let others = made.iter().filter(|(name, _)| !is_known(context, name) && !is_metric(name));
    let others = others.map(|(name, columns)| {
        let kind = if views.contains(name) { "view" } else { "table" };
        (name.as_str(), kind, columns.len(), None)
    });
    let mut named: Vec<_> = own_views.chain(others).collect();
    named.sort_by_key(|(name, ..)| *name);
    let all: Vec<_> = own_tables.chain(named).collect();
    let rows: Vec<Vec<Value>> = all
        .iter()
        .filter(|(name, ..)| shown(name))
        .map(|(name, kind, columns, doc)| {
            let doc = doc.map_or(Value::Null, Value::from);
            vec![(*name).into(), (*kind).into(), (*columns).into(), doc]
        })
        .collect();
    match pattern {
        Some(pattern) if rows.is_empty() => {
            Err(no_table(pattern, all.iter().map(|(name, ..)| *name)))
        }
        _ => Ok(Grid::of_rows(&["table", "kind", "columns", "row"], rows)),
    }
}

/// `.metrics`: those whose name or summary fits.
///
/// # Errors
/// `nothing-found` when none does.
pub fn metrics(context: &Context, pattern: Option<&str>) -> Result<Grid> {
    let mut grid = list::grid(context, What::Metrics);
    let Some(pattern) = pattern else { return Ok(grid) };
    let lower = pattern.to_lowercase();
    grid.rows.retain(|row| {
        let text = |i: usize| row.get(i).and_then(Value::as_str).unwrap_or_default();
        fits(pattern, text(0)) || text(6).to_lowercase().contains(&lower)
    });
    if grid.rows.is_empty() {
        let message = format!("none of the metrics has `{pattern}` in its name or description");
        return Err(Error::new("nothing-found", message).hint("`.metrics` shows them all"));
    }
    Ok(grid)
}

/// `.traces`: all, with those that are shown.
pub fn traces(context: &Context, shown: &[String]) -> Grid {
    let mut grid = list::grid(context, What::Traces);
    grid.columns.insert(1, "shown".to_owned());
    for row in &mut grid.rows {
        let is_shown = row[0].as_str().is_some_and(|name| shown.iter().any(|t| t == name));
        row.insert(1, is_shown.into());
    }
    grid
}

/// The columns of a metric's table, as its header has them.
fn of_metric(file: &SqlFile) -> Grid {
    let header = &file.header;
    let rows = header.columns.iter().map(|c| {
        let unit = c.unit.as_deref().map_or(Value::Null, Value::from);
        let is_value = header.value.as_ref() == Some(&c.name);
        let doc = if is_value { format!("The value. {}", c.doc) } else { c.doc.clone() };
        vec![c.name.as_str().into(), c.ty.as_str().into(), unit, doc.into()]
    });
    let added = [
        (NULL_REASON, "VARCHAR", "Why the trace has no value."),
        ("warnings", "VARCHAR[]", "What the value rests on, where that is little."),
    ];
    let own = |name: &str| header.columns.iter().any(|c| c.name == name);
    let added = added.into_iter().filter(|(name, _, _)| !own(name));
    let added = added.map(|(name, ty, doc)| vec![name.into(), ty.into(), Value::Null, doc.into()]);
    Grid::of_rows(&["column", "type", "unit", "meaning"], rows.chain(added).collect())
}

/// `.schema`: a row per column.
///
/// # Errors
/// `sql` for a name that there is not.
pub fn columns(context: &Context, engine: &Engine<'_>, name: Option<&str>) -> Result<Grid> {
    let known = catalogue(engine)?;
    // A metric that was named is a table already, of which its header says more.
    let is_metric = |name: &str| context.registry.metric(name).is_ok();
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
        Some(name) if out.is_empty() => match context.registry.metric(name) {
            Ok(file) => Ok(of_metric(file)),
            Err(_) => {
                let views = context.registry.views().map(|v| v.header.name.as_str());
                let tables = TABLES.iter().map(|t| t.name);
                let made = known.iter().map(|(name, _)| name.as_str());
                Err(no_table(name, tables.chain(views).chain(made)))
            }
        },
        Some(name) if is_metric(name) => Ok(of_metric(context.registry.metric(name)?)),
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
        let params = vec![("min_calls".into(), "5".into()), ("text".into(), "a b".into())];
        let (name, trace) = ("a@2".to_owned(), vec!["t".to_owned()]);
        let run = Command::Run { name, params, trace };
        assert_eq!(parse(".run a@2 min-calls=5 trace=t text='a b'").expect("run"), run);
        let line = ".metric a@2 -p min-calls=5 --trace t --param text='a b'";
        assert_eq!(parse(line).expect("metric"), run);
        assert!(parse(".metric a -p").is_err() && parse(".metric a --trace").is_err());
        assert_eq!(parse(".use").expect("use"), Command::Use(Vec::new()));
        assert_eq!(parse(".maxrows 10").expect("rows"), Command::MaxRows(Some(10)));
        assert!(parse(".maxrows 0").is_err() && parse(".maxrows x").is_err());
        assert!(parse(".once").is_err() && parse(".read").is_err() && parse(".plot a").is_err());
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
        assert_eq!(hint(".run"), "write .run NAME[@V] [trace=T] [KEY=VALUE]...");
        assert_eq!(hint(".run a b"), "write .run NAME[@V] [trace=T] [KEY=VALUE]...");
        assert_eq!(hint(".traces now"), "write .traces");
        assert!(parse(".show 'a").is_err());
    }

    #[test]
    fn every_command_is_read_and_in_the_help() {
        for (name, _, _) in COMMANDS {
            let needs = [".run", ".metric", ".show", ".describe", ".once", ".read"];
            let line = if needs.contains(name) { format!("{name} x") } else { (*name).into() };
            assert!(parse(&line).is_ok(), "{name}");
            assert!(help(None).is_ok_and(|help| help.contains(name)), "{name}");
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
