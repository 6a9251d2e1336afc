//! The header of an SQL file: one `-- @tag` a line, then one `SELECT`.
//!
//! Grammar (see `sql/README.md`): the first tag is `@metric`, `@view`, `@derived` or `@comparison` with
//! the name; then the tags below in any order. Comments after the header belong to the query.

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
    /// What it does.
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
    /// What it is.
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
    /// Its name.
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
    /// `@param`.
    pub params: Vec<Param>,
    /// `@column`.
    pub columns: Vec<Column>,
    /// `@alias`.
    pub aliases: Vec<String>,
    /// `@caveat`.
    pub caveats: Vec<String>,
    /// `@heading column | text`: what a column is called in a workbook, where tools before set a name.
    pub headings: Vec<Pair>,
    /// `@null`: what NULL means; in a view of a report, why it may be empty.
    pub nulls: Vec<String>,
    /// `@source`: where the definition comes from.
    pub sources: Vec<String>,
    /// `@partition rank`: the query may be run for a few ranks at a time (derived tables).
    pub by_rank: bool,
    /// `@materialize`: a view that is costly and small, computed once for all metrics of a run.
    pub materialize: bool,
    /// `@profilers`: whose traces can answer (metrics).
    pub profilers: Vec<String>,
    /// `@nvtx`: whether ranges set by hand are needed: none, partial or required.
    pub nvtx: String,
}

/// Whose traces there are; a metric without `@profilers` is of the first three.
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

    /// Whether it is data of ours: a view of rows that it holds itself, which derived tables may read too.
    pub fn is_data(&self) -> bool {
        self.kind == Kind::View && self.inputs().next().is_none()
    }

    /// Everything that the query reads by its header.
    pub fn inputs(&self) -> impl Iterator<Item = &str> {
        self.requires.iter().chain(&self.reads).map(String::as_str)
    }
}

fn fault(path: &str, line: usize, message: impl Into<String>) -> Error {
    Error::new("metric-header", message)
        .at(format!("{path}:{line}"))
        .hint("see sql/README.md for the grammar of the header")
}

/// An expression may hold bars (`||`), so its message stands after the last one; elsewhere the
/// text may (`|comm|`), so it begins after the first.
fn pair(text: &str, expression: bool) -> Option<Pair> {
    let (left, right) = if expression { text.rsplit_once('|')? } else { text.split_once('|')? };
    let (left, right) = (left.trim().to_owned(), right.trim().to_owned());
    (!left.is_empty() && !right.is_empty()).then_some(Pair { left, right })
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
    let mut header: Option<Header> = None;
    let mut seen: Vec<String> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let number = number + 1;
        let Some(comment) = line.strip_prefix("--") else { break };
        let Some(tag) = comment.trim_start().strip_prefix('@') else {
            return Err(fault(path, number, "a line of the header is no tag"));
        };
        let (tag, rest) = tag.split_once(char::is_whitespace).unwrap_or((tag, ""));
        let rest = rest.trim();
        if rest.is_empty() {
            return Err(fault(path, number, format!("@{tag} has no text")));
        }
        let Some(h) = header.as_mut() else {
            let kind = match tag {
                "metric" => Kind::Metric,
                "view" => Kind::View,
                "derived" => Kind::Derived,
                "comparison" => Kind::Comparison,
                _ => {
                    return Err(fault(
                        path,
                        number,
                        "the first tag is not @metric, @view, @derived or @comparison",
                    ));
                }
            };
            // A metric may keep the spelling that a seed set (hockney_inverse_beta_Bps).
            if !is_name(rest) {
                return Err(fault(path, number, format!("`{rest}` is no snake-case name")));
            }
            header = Some(Header {
                kind,
                name: rest.to_owned(),
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
            });
            continue;
        };
        let words = || rest.split_whitespace().map(str::to_owned);
        let repeatable = matches!(
            tag,
            "check"
                | "reason"
                | "coverage"
                | "warn"
                | "param"
                | "column"
                | "alias"
                | "caveat"
                | "heading"
                | "null"
                | "source"
                | "requires"
                | "reads"
        );
        if !repeatable {
            if seen.iter().any(|s| s == tag) {
                return Err(fault(path, number, format!("@{tag} comes twice")));
            }
            seen.push(tag.to_owned());
        }
        let no_bar = || fault(path, number, format!("@{tag} needs `left | right`"));
        match tag {
            "version" => {
                h.version = rest
                    .parse()
                    .ok()
                    .filter(|v| *v > 0)
                    .ok_or_else(|| fault(path, number, "@version is no integer from 1 on"))?;
            }
            "area" => h.area = rest.to_owned(),
            "summary" => h.summary = rest.to_owned(),
            "grain" => h.grain = words().collect(),
            "requires" => h.requires.extend(words()),
            "reads" => h.reads.extend(words()),
            "value" => h.value = Some(rest.to_owned()),
            "nvtx" => h.nvtx = rest.to_owned(),
            "partition" if rest == "rank" && h.kind == Kind::Derived => h.by_rank = true,
            "partition" => {
                return Err(fault(path, number, "@partition is `rank`, and for derived tables"));
            }
            "materialize" if rest == "session" && h.kind == Kind::View => h.materialize = true,
            "materialize" => {
                return Err(fault(path, number, "@materialize is `session`, and for views"));
            }
            "profilers" => {
                h.profilers = words().collect();
                if let Some(other) = h.profilers.iter().find(|p| !PROFILERS.contains(&p.as_str())) {
                    return Err(fault(path, number, format!("@profilers: `{other}` is none")));
                }
            }
            "check" | "reason" => {
                let Pair { left, right } = pair(rest, true).ok_or_else(no_bar)?;
                h.checks.push(Check { left, right, is_reason: tag == "reason" });
            }
            "coverage" => h.coverage.push(pair(rest, false).ok_or_else(no_bar)?),
            "warn" if h.kind == Kind::Metric => {
                h.warns.push(pair(rest, true).ok_or_else(no_bar)?);
            }
            "answer" if h.kind == Kind::Metric => h.answer = Some(rest.to_owned()),
            "warn" | "answer" => return Err(fault(path, number, format!("@{tag} is for metrics"))),
            "alias" => h.aliases.extend(words()),
            "caveat" => h.caveats.push(rest.to_owned()),
            "heading" => h.headings.push(pair(rest, false).ok_or_else(no_bar)?),
            "null" => h.nulls.push(rest.to_owned()),
            "source" => h.sources.push(rest.to_owned()),
            "param" => {
                let Pair { left, right: doc } = pair(rest, false).ok_or_else(no_bar)?;
                let parts: Vec<&str> = left.split_whitespace().collect();
                let [name, ty, default] = parts[..] else {
                    return Err(fault(path, number, "@param needs `name TYPE default | text`"));
                };
                h.params.push(Param {
                    name: name.to_owned(),
                    ty: ty.to_owned(),
                    default: (default != "NULL").then(|| default.to_owned()),
                    doc,
                });
            }
            "column" => {
                let Pair { left, right: doc } = pair(rest, false).ok_or_else(no_bar)?;
                let parts: Vec<&str> = left.split_whitespace().collect();
                let (name, ty, role, unit, better) = match parts[..] {
                    [name, ty, role, unit] => (name, ty, role, unit, None),
                    [name, ty, role, unit, better] => (name, ty, role, unit, Some(better)),
                    _ => {
                        return Err(fault(
                            path,
                            number,
                            "@column needs `name TYPE dim|value unit [higher|lower] | text`",
                        ));
                    }
                };
                if !matches!(role, "dim" | "value")
                    || !matches!(better, None | Some("higher" | "lower"))
                {
                    return Err(fault(path, number, "@column has an unknown role or direction"));
                }
                h.columns.push(Column {
                    name: name.to_owned(),
                    ty: ty.to_owned(),
                    dim: role == "dim",
                    unit: (unit != "-").then(|| unit.to_owned()),
                    better: better.map(str::to_owned),
                    doc,
                });
            }
            _ => return Err(fault(path, number, format!("@{tag} is no tag"))),
        }
    }
    let header = header.ok_or_else(|| fault(path, 1, "the file has no header"))?;
    if header.summary.is_empty() {
        return Err(fault(path, 1, "@summary is missing"));
    }
    if header.kind == Kind::Metric {
        for (tag, missing) in [
            ("version", !seen.iter().any(|s| s == "version")),
            ("area", header.area.is_empty()),
            ("grain", header.grain.is_empty()),
            ("value", header.value.is_none()),
            ("column", header.columns.is_empty()),
            ("source", header.sources.is_empty()),
        ] {
            if missing {
                return Err(fault(path, 1, format!("@{tag} is missing")));
            }
        }
        if header.value_column().is_none() {
            return Err(fault(path, 1, "@value names no @column"));
        }
    }
    if let Some(heading) =
        header.headings.iter().find(|h| !header.columns.iter().any(|c| c.name == h.left))
    {
        return Err(fault(path, 1, format!("@heading: there is no @column `{}`", heading.left)));
    }
    Ok(header)
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
        assert_eq!(
            parse("x.sql", "SELECT 1").expect_err("no header").message,
            "the file has no header"
        );
    }
}
