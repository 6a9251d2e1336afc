//! The header of an SQL file: one `-- @tag` a line, then one `SELECT`.
//!
//! Grammar (see `sql/README.md`): the first tag is `@metric`, `@view`, `@derived`, `@comparison` or
//! `@diagnosis` with the name; then the tags below in any order. A line of `--` and at least four
//! blanks continues the tag above. Comments after the header belong to the query.

use crate::error::{Error, Result};
use crate::sql_text::sql_string;

/// What a file defines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A metric: one row per trace.
    Metric,
    /// A view over tables and views.
    View,
    /// A table made at the end of an ingest.
    Derived,
    /// A table that sets traces beside each other.
    Comparison,
    /// A diagnosis: one row per finding.
    Diagnosis,
}

impl Kind {
    /// The tag that begins the header of a file of this kind.
    pub fn word(self) -> &'static str {
        match self {
            Self::Metric => "metric",
            Self::View => "view",
            Self::Derived => "derived",
            Self::Comparison => "comparison",
            Self::Diagnosis => "diagnosis",
        }
    }
}

/// `@param name TYPE default | text`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Param {
    /// Name, without the dollar sign.
    pub name: String,
    /// SQL type.
    pub ty: String,
    /// Default as text; None for NULL.
    pub default: Option<String>,
    /// Its summary.
    pub doc: String,
}

/// `@column name TYPE dim|value unit [higher|lower] | text`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Name.
    pub name: String,
    /// SQL type; a bare `MAP`, `STRUCT` or `LIST` stands for any such type.
    pub ty: String,
    /// Whether it is a dimension.
    pub dim: bool,
    /// Unit; None for `-`.
    pub unit: Option<String>,
    /// Which direction is better.
    pub better: Option<String>,
    /// Its description.
    pub doc: String,
}

/// `@warn expression | message` and `@coverage column | what`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// The part before the bar.
    pub left: String,
    /// The part after it.
    pub right: String,
}

/// `@check expression | message`, or `@reason expression | text`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// SQL: of `@check` what must hold, of `@reason` the sentence why there is no value, or NULL.
    pub left: String,
    /// The sentence; of `@reason` what stands for its sentences in the documents.
    pub right: String,
    /// Whether the SQL gives the sentence.
    pub is_reason: bool,
}

impl Check {
    /// SQL for the sentence why there is no value, or NULL.
    pub fn reason(&self) -> String {
        if self.is_reason {
            format!("CAST(({}) AS VARCHAR)", self.left)
        } else {
            format!("CASE WHEN ({}) THEN NULL ELSE {} END", self.left, sql_string(&self.right))
        }
    }
}

/// Everything that the header says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// What the file defines.
    pub kind: Kind,
    /// Name of the file in SQL.
    pub name: String,
    /// `@version`, 1 where there is none.
    pub version: u32,
    /// `@area`.
    pub area: String,
    /// `@summary`.
    pub summary: String,
    /// `@grain`: the columns that make a row unique.
    pub grain: Vec<String>,
    /// `@requires`: tables and views that must have rows (metrics) or be there (others).
    pub requires: Vec<String>,
    /// `@reads`: tables and views that may be empty.
    pub reads: Vec<String>,
    /// `@value`: the column of the one number.
    pub value: Option<String>,
    /// `@check` and `@reason`, in the order of the header.
    pub checks: Vec<Check>,
    /// `@coverage`.
    pub coverage: Vec<Pair>,
    /// `@warn`: boolean SQL over the row of the result, and what to know where it holds.
    pub warns: Vec<Pair>,
    /// `@answer`: text in SQL over the row of the result, which a person reads beside the value.
    pub answer: Option<String>,
    /// `@gain`: the bound that `gain_ms` of a diagnosis is.
    pub gain: String,
    /// `@shown`: the metric or view that shows what a diagnosis finds.
    pub shown: Option<String>,
    /// `@param`.
    pub params: Vec<Param>,
    /// `@column`.
    pub columns: Vec<Column>,
    /// `@alias`.
    pub aliases: Vec<String>,
    /// `@caveat`.
    pub caveats: Vec<String>,
    /// `@heading column | text`: what a column is called in a workbook, where tools before set a
    /// name.
    pub headings: Vec<Pair>,
    /// `@null`: what NULL means; in a view of a report, why it may be empty.
    pub nulls: Vec<String>,
    /// `@source`: where the definition comes from.
    pub sources: Vec<String>,
    /// `@partition rank`: the query may be run for a few ranks at a time (derived tables, views).
    pub by_rank: bool,
    /// `@materialize`: a view that is costly and small, computed once for all metrics of a run.
    pub materialize: bool,
    /// `@profilers`: whose traces can answer (metrics).
    pub profilers: Vec<String>,
    /// `@nvtx`: whether ranges set by hand are needed: none, partial or required.
    pub nvtx: String,
}

/// The profilers whose traces there are; a metric without `@profilers` is of the first three.
const PROFILERS: [&str; 5] = ["kineto", "nsys", "xla", "memory", "bench"];

impl Header {
    /// The column that `@value` names.
    pub fn value_column(&self) -> Option<&Column> {
        let value = self.value.as_deref()?;
        self.columns.iter().find(|c| c.name == value)
    }

    /// The unit of the value.
    pub fn unit(&self) -> Option<&str> {
        self.value_column()?.unit.as_deref()
    }

    /// Whether the file is data: a view of rows that it holds itself, which derived tables may
    /// read.
    pub fn is_data(&self) -> bool {
        self.kind == Kind::View && self.inputs().next().is_none()
    }

    /// Everything that the query reads by its header.
    pub fn inputs(&self) -> impl Iterator<Item = &str> {
        self.requires.iter().chain(&self.reads).map(String::as_str)
    }
}

/// One tag of a header.
#[derive(Debug)]
pub struct Tag<'a> {
    /// The name, without `@`.
    pub name: &'a str,
    /// The text: that of the line of the tag, and of the lines that continue it.
    pub text: String,
    /// Number of the line of the tag, from 1 on.
    pub line: usize,
    /// Number of lines of the tag.
    pub lines: usize,
}

/// The text of a line that continues the tag above: `--` and at least four blanks.
fn continuation(line: &str) -> Option<&str> {
    line.strip_prefix("--    ").map(str::trim)
}

/// The tags at the top of `text`, in order.
///
/// # Errors
/// The number of a line that is no part of a tag, and why.
pub fn tags(text: &str) -> Result<Vec<Tag<'_>>, (usize, String)> {
    let mut tags: Vec<Tag<'_>> = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let Some(comment) = line.strip_prefix("--") else { break };
        if let (Some(more), Some(tag)) = (continuation(line), tags.last_mut()) {
            tag.text = format!("{} {more}", tag.text).trim().to_owned();
            tag.lines += 1;
            continue;
        }
        let Some(tag) = comment.trim_start().strip_prefix('@') else {
            return Err((number, "a line of the header is no tag".to_owned()));
        };
        let (name, rest) = tag.split_once(char::is_whitespace).unwrap_or((tag, ""));
        tags.push(Tag { name, text: rest.trim().to_owned(), line: number, lines: 1 });
    }
    if let Some(tag) = tags.iter().find(|tag| tag.text.is_empty()) {
        return Err((tag.line, format!("@{} has no text", tag.name)));
    }
    Ok(tags)
}

/// How the text of a tag is read, and where it goes.
enum Read {
    /// Once: one text.
    Text(fn(&mut Header) -> &mut String),
    /// Once: anything else.
    Once(fn(&mut Header, &str) -> Result<(), String>),
    /// Each time: words.
    Words(fn(&mut Header) -> &mut Vec<String>),
    /// Each time: a text.
    Texts(fn(&mut Header) -> &mut Vec<String>),
    /// Each time: `column | text`. The text may hold bars (`|comm|`), so it begins after the first.
    Notes(fn(&mut Header) -> &mut Vec<Pair>),
    /// Each time: `expression | message`. The expression may hold bars (`||`), so its message
    /// stands after the last one.
    Conditions(fn(&mut Header) -> &mut Vec<Pair>),
    /// Each time, in one list: `@check expression | message`, or `@reason expression | text`.
    Checks { is_reason: bool },
    /// Each time: anything else that stands before a bar.
    Each(fn(&mut Header, Pair) -> Result<(), String>),
}

/// Every tag but the first of a header.
const TAGS: [(&str, Read); 25] = [
    ("version", Read::Once(version)),
    ("area", Read::Text(|h| &mut h.area)),
    ("summary", Read::Text(|h| &mut h.summary)),
    ("grain", Read::Once(|h, text| set(&mut h.grain, words(text)))),
    ("requires", Read::Words(|h| &mut h.requires)),
    ("reads", Read::Words(|h| &mut h.reads)),
    ("value", Read::Once(|h, text| set(&mut h.value, Some(text.to_owned())))),
    ("check", Read::Checks { is_reason: false }),
    ("reason", Read::Checks { is_reason: true }),
    ("coverage", Read::Notes(|h| &mut h.coverage)),
    ("warn", Read::Conditions(|h| &mut h.warns)),
    ("answer", Read::Once(|h, text| set(&mut h.answer, Some(text.to_owned())))),
    ("gain", Read::Text(|h| &mut h.gain)),
    ("shown", Read::Once(|h, text| set(&mut h.shown, Some(text.to_owned())))),
    ("param", Read::Each(param)),
    ("column", Read::Each(column)),
    ("heading", Read::Notes(|h| &mut h.headings)),
    ("null", Read::Texts(|h| &mut h.nulls)),
    ("caveat", Read::Texts(|h| &mut h.caveats)),
    ("profilers", Read::Once(profilers)),
    ("materialize", Read::Once(materialize)),
    ("nvtx", Read::Text(|h| &mut h.nvtx)),
    ("partition", Read::Once(partition)),
    ("alias", Read::Words(|h| &mut h.aliases)),
    ("source", Read::Texts(|h| &mut h.sources)),
];

/// Tags that are of metrics alone.
const OF_METRICS: [&str; 2] = ["warn", "answer"];

/// Tags that are of diagnoses alone.
const OF_DIAGNOSES: [&str; 2] = ["gain", "shown"];

impl Read {
    fn repeats(&self) -> bool {
        !matches!(self, Self::Text(_) | Self::Once(_))
    }

    fn read(&self, header: &mut Header, text: &str) -> Result<(), String> {
        match self {
            Self::Text(field) => text.clone_into(field(header)),
            Self::Once(read) => read(header, text)?,
            Self::Words(field) => field(header).extend(words(text)),
            Self::Texts(field) => field(header).push(text.to_owned()),
            Self::Notes(field) => field(header).push(pair(text.split_once('|'))?),
            Self::Conditions(field) => field(header).push(pair(text.rsplit_once('|'))?),
            Self::Checks { is_reason } => {
                let Pair { left, right } = pair(text.rsplit_once('|'))?;
                header.checks.push(Check { left, right, is_reason: *is_reason });
            }
            Self::Each(read) => read(header, pair(text.split_once('|'))?)?,
        }
        Ok(())
    }
}

fn set<T>(field: &mut T, value: T) -> Result<(), String> {
    *field = value;
    Ok(())
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn pair(parts: Option<(&str, &str)>) -> Result<Pair, String> {
    parts
        .map(|(left, right)| Pair { left: left.trim().to_owned(), right: right.trim().to_owned() })
        .filter(|pair| !pair.left.is_empty() && !pair.right.is_empty())
        .ok_or_else(|| "needs `left | right`".to_owned())
}

fn version(header: &mut Header, text: &str) -> Result<(), String> {
    let version = text.parse().ok().filter(|v| *v > 0);
    set(&mut header.version, version.ok_or("is no integer from 1 on")?)
}

fn profilers(header: &mut Header, text: &str) -> Result<(), String> {
    let names = words(text);
    match names.iter().find(|name| !PROFILERS.contains(&name.as_str())) {
        Some(other) => Err(format!("knows no `{other}`")),
        None => set(&mut header.profilers, names),
    }
}

fn partition(header: &mut Header, text: &str) -> Result<(), String> {
    if text != "rank" || !matches!(header.kind, Kind::Derived | Kind::View) {
        return Err("is `rank`, and for derived tables and views".to_owned());
    }
    set(&mut header.by_rank, true)
}

fn materialize(header: &mut Header, text: &str) -> Result<(), String> {
    if text != "session" || header.kind != Kind::View {
        return Err("is `session`, and for views".to_owned());
    }
    set(&mut header.materialize, true)
}

fn param(header: &mut Header, pair: Pair) -> Result<(), String> {
    let parts: Vec<&str> = pair.left.split_whitespace().collect();
    let [name, ty, default] = parts[..] else {
        return Err("needs `name TYPE default | text`".to_owned());
    };
    header.params.push(Param {
        name: name.to_owned(),
        ty: ty.to_owned(),
        default: (default != "NULL").then(|| default.to_owned()),
        doc: pair.right,
    });
    Ok(())
}

fn column(header: &mut Header, pair: Pair) -> Result<(), String> {
    let parts: Vec<&str> = pair.left.split_whitespace().collect();
    let (name, ty, role, unit, better) = match parts[..] {
        [name, ty, role, unit] => (name, ty, role, unit, None),
        [name, ty, role, unit, better] => (name, ty, role, unit, Some(better)),
        _ => return Err("needs `name TYPE dim|value unit [higher|lower] | text`".to_owned()),
    };
    if !matches!(role, "dim" | "value") || !matches!(better, None | Some("higher" | "lower")) {
        return Err("has an unknown role or direction".to_owned());
    }
    header.columns.push(Column {
        name: name.to_owned(),
        ty: ty.to_owned(),
        dim: role == "dim",
        unit: (unit != "-").then(|| unit.to_owned()),
        better: better.map(str::to_owned),
        doc: pair.right,
    });
    Ok(())
}

/// A snake-case name; one leading underscore marks a helper.
pub fn is_name(name: &str) -> bool {
    let inner = name.strip_prefix('_').unwrap_or(name);
    inner.starts_with(|c: char| c.is_ascii_lowercase())
        && inner.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Reads the header at the top of `text`.
///
/// # Errors
/// `metric-header` with path and line: no such tag, a tag twice, or one that lacks a part.
pub fn parse(path: &str, text: &str) -> Result<Header> {
    let fault = |line: usize, message: String| {
        Error::new("metric-header", message)
            .at(format!("{path}:{line}"))
            .hint("see sql/README.md for the grammar of the header")
    };
    let tags = tags(text).map_err(|(line, message)| fault(line, message))?;
    let Some((first, rest)) = tags.split_first() else {
        return Err(fault(1, "the file has no header".to_owned()));
    };
    let mut header = begun(first).map_err(|message| fault(first.line, message))?;
    for (i, tag) in rest.iter().enumerate() {
        let before = &rest[..i];
        read(&mut header, tag, before).map_err(|message| fault(tag.line, message))?;
    }
    complete(&header, rest).map_err(|message| fault(1, message))?;
    Ok(header)
}

/// The header of which only the first tag is read.
fn begun(tag: &Tag<'_>) -> Result<Header, String> {
    let kinds = [Kind::Metric, Kind::View, Kind::Derived, Kind::Comparison, Kind::Diagnosis];
    let kind = kinds
        .into_iter()
        .find(|kind| kind.word() == tag.name)
        .ok_or("the first tag is not @metric, @view, @derived, @comparison or @diagnosis")?;
    // A metric may keep the spelling that earlier tools set (hockney_inverse_beta_Bps).
    if !is_name(&tag.text) {
        return Err(format!("`{}` is no snake-case name", tag.text));
    }
    Ok(Header {
        kind,
        name: tag.text.clone(),
        version: 1,
        area: String::new(),
        summary: String::new(),
        grain: Vec::new(),
        requires: Vec::new(),
        reads: Vec::new(),
        value: None,
        checks: Vec::new(),
        coverage: Vec::new(),
        warns: Vec::new(),
        answer: None,
        gain: String::new(),
        shown: None,
        params: Vec::new(),
        columns: Vec::new(),
        aliases: Vec::new(),
        caveats: Vec::new(),
        headings: Vec::new(),
        nulls: Vec::new(),
        sources: Vec::new(),
        by_rank: false,
        materialize: false,
        profilers: PROFILERS[..3].iter().map(|p| (*p).to_owned()).collect(),
        nvtx: "none".to_owned(),
    })
}

fn read(header: &mut Header, tag: &Tag<'_>, before: &[Tag<'_>]) -> Result<(), String> {
    let name = tag.name;
    let Some((_, rule)) = TAGS.iter().find(|(known, _)| *known == name) else {
        return Err(format!("@{name} is no tag"));
    };
    if !rule.repeats() && before.iter().any(|b| b.name == name) {
        return Err(format!("@{name} comes twice"));
    }
    if OF_METRICS.contains(&name) && header.kind != Kind::Metric {
        return Err(format!("@{name} is for metrics"));
    }
    if OF_DIAGNOSES.contains(&name) && header.kind != Kind::Diagnosis {
        return Err(format!("@{name} is for diagnoses"));
    }
    rule.read(header, &tag.text).map_err(|why| format!("@{name} {why}"))
}

/// Whether a header has all that its kind needs, and names only its own columns.
fn complete(header: &Header, tags: &[Tag<'_>]) -> Result<(), String> {
    let needed: &[&str] = match header.kind {
        Kind::Metric => &["version", "area", "grain", "value", "column", "source"],
        Kind::Diagnosis => &["version", "gain", "shown", "source"],
        Kind::View | Kind::Derived | Kind::Comparison => &[],
    };
    let missing = |name: &&&str| !tags.iter().any(|tag| tag.name == **name);
    if let Some(name) = ["summary"].iter().chain(needed).find(missing) {
        return Err(format!("@{name} is missing"));
    }
    if header.kind == Kind::Metric && header.value_column().is_none() {
        return Err("@value names no @column".to_owned());
    }
    let stranger = |h: &&Pair| !header.columns.iter().any(|c| c.name == h.left);
    match header.headings.iter().find(stranger) {
        Some(heading) => Err(format!("@heading: there is no @column `{}`", heading.left)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRIC: &str = "-- @metric x_ratio\n-- @version 2\n-- @area a\n-- @summary S.\n-- @grain trace\n\
        -- @requires steps device_events\n-- @value x_ratio\n-- @check (SELECT a | b) > 1 | no x\n\
        -- @reason (SELECT a || b FROM c) | c says why\n\
        -- @warn x_ratio > 1 || $min > 3 | x is {x_ratio}\n-- @answer 'x' || x_ratio\n\
        -- @param min BIGINT 3 | Least.\n-- @param top BIGINT NULL | Most.\n\
        -- @column trace VARCHAR dim - | The trace.\n-- @column x_ratio DOUBLE value ratio higher | X.\n\
        -- @source here\nSELECT 1\n";

    #[test]
    fn a_line_of_blanks_continues_the_tag_above() {
        let long = METRIC
            .replace("> 1 | no x", "\n--    > 1\n--         | no x")
            .replace("| The trace.", "| The\n--           trace.");
        assert_eq!(parse("x.sql", &long), parse("x.sql", METRIC));
        let error = parse("x.sql", "--     a\n-- @view v\n").expect_err("it continues nothing");
        assert_eq!(error.message, "a line of the header is no tag");
        let error = parse("x.sql", "-- @view v\n--   a\n").expect_err("three blanks are too few");
        assert_eq!(error.place.as_deref(), Some("x.sql:2"));
    }

    #[test]
    fn reads_every_tag() {
        let h = parse("x.sql", METRIC).expect("the header is right");
        assert_eq!((h.kind, h.name.as_str(), h.version), (Kind::Metric, "x_ratio", 2));
        assert_eq!(h.requires, ["steps", "device_events"]);
        assert_eq!(h.checks[0].left, "(SELECT a | b) > 1");
        let check = "CASE WHEN ((SELECT a | b) > 1) THEN NULL ELSE 'no x' END";
        assert_eq!(h.checks[0].reason(), check);
        assert_eq!(h.checks[1].reason(), "CAST(((SELECT a || b FROM c)) AS VARCHAR)");
        assert_eq!(h.warns[0].left, "x_ratio > 1 || $min > 3");
        assert_eq!(h.warns[0].right, "x is {x_ratio}");
        assert_eq!(h.answer.as_deref(), Some("'x' || x_ratio"));
        assert_eq!(h.params[0].default.as_deref(), Some("3"));
        assert_eq!(h.params[1].default, None);
        assert_eq!(h.unit(), Some("ratio"));
        assert_eq!(h.columns[1].better.as_deref(), Some("higher"));
        assert_eq!(h.columns.iter().map(|c| c.dim).collect::<Vec<_>>(), [true, false]);
        let heading = METRIC.replace("-- @source", "-- @heading x_ratio | Ratio\n-- @source");
        let h = parse("x.sql", &heading).expect("the heading is of a column");
        assert_eq!(h.headings[0].right, "Ratio");
    }

    #[test]
    fn a_view_says_little() {
        let h = parse("v.sql", "-- @view v\n-- @summary S.\nSELECT 1\n").expect("it is enough");
        assert_eq!(
            (h.version, h.profilers.as_slice()),
            (1, ["kineto", "nsys", "xla"].map(String::from).as_slice())
        );
        assert!(h.is_data() && !h.by_rank && !h.materialize);
        let tags = "-- @requires steps\n-- @partition rank\n-- @materialize session\n";
        let h = parse("v.sql", &format!("-- @view v\n-- @summary S.\n{tags}SELECT 1\n"));
        let h = h.expect("it is right");
        assert!(!h.is_data() && h.by_rank && h.materialize);
        let derived = "-- @derived d\n-- @summary S.\n-- @partition rank\nSELECT 1\n";
        let h = parse("d.sql", derived).expect("it is right");
        assert!(!h.is_data() && h.by_rank);
        // A text of several lines is one line more each time.
        let several =
            "-- @view v\n-- @summary S\n--           and\n--           so on.\nSELECT 1\n";
        assert_eq!(super::tags(several).map(|tags| tags[1].lines), Ok(3));
    }

    #[test]
    fn says_line_and_fault() {
        for (from, to, place, message) in [
            ("-- @version 2", "-- @version 0", "x.sql:2", "@version is no integer from 1 on"),
            ("-- @grain trace", "-- @grane trace", "x.sql:5", "@grane is no tag"),
            ("-- @grain trace\n", "", "x.sql:1", "@grain is missing"),
            ("-- @area a", "-- area a", "x.sql:3", "a line of the header is no tag"),
            ("@value x_ratio", "@value y", "x.sql:1", "@value names no @column"),
            (
                "-- @warn x_ratio > 1 || $min > 3 |",
                "-- @warn",
                "x.sql:10",
                "@warn needs `left | right`",
            ),
            (
                "x_ratio DOUBLE value",
                "x_ratio DOUBLE worth",
                "x.sql:15",
                "@column has an unknown role or direction",
            ),
        ] {
            let error = parse("x.sql", &METRIC.replace(from, to)).expect_err("the header is wrong");
            assert_eq!((error.place.as_deref(), error.message.as_str()), (Some(place), message));
        }
        for (from, to, message) in [
            ("-- @area a\n", "-- @area a\n-- @area b\n", "@area comes twice"),
            ("-- @area a\n", "-- @area a\n-- @shown x\n", "@shown is for diagnoses"),
            ("-- @area a\n", "-- @area a\n-- @area\n", "@area has no text"),
            ("@metric x_ratio", "@metric X_ratio", "`X_ratio` is no snake-case name"),
            ("| Least.", "|", "@param needs `left | right`"),
            ("min BIGINT 3 |", "|", "@param needs `left | right`"),
            (
                "-- @source here",
                "-- @partition rank",
                "@partition is `rank`, and for derived tables and views",
            ),
            (
                "-- @source here",
                "-- @materialize session",
                "@materialize is `session`, and for views",
            ),
            (
                "-- @source here",
                "-- @source here\n-- @heading y | Y",
                "@heading: there is no @column `y`",
            ),
        ] {
            let error = parse("x.sql", &METRIC.replace(from, to)).expect_err("the header is wrong");
            assert_eq!(error.message, message);
        }
        for (tag, message) in [
            ("answer 'x'", "@answer is for metrics"),
            ("partition step", "@partition is `rank`, and for derived tables and views"),
            ("materialize always", "@materialize is `session`, and for views"),
        ] {
            let text = format!("-- @view v\n-- @summary S.\n-- @{tag}\nSELECT 1\n");
            assert_eq!(parse("v.sql", &text).expect_err("it is wrong").message, message);
        }
        let none = parse("x.sql", "SELECT 1").expect_err("no header");
        assert_eq!(none.place.as_deref(), Some("x.sql:1"));
        assert_eq!(
            parse("x.sql", "SELECT 1").expect_err("no header").message,
            "the file has no header"
        );
    }
}
