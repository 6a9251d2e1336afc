//! Checks on the SQL files: one `SELECT` each, headers that say what the query does, names with
//! their units, layers that read leftwards.
//!
//! The engine parses: `json_serialize_sql` refuses everything but `SELECT` and gives the tables
//! that a query reads. What needs a running engine with the empty tables of the schema comes in as
//! [`Probe`], from the layer above.

use std::collections::BTreeSet;

use serde_json::Value;

use super::areas::{AREAS, Group, SUBJECTS};
use super::header::{Column, Header, Kind};
use super::{Registry, SqlFile};
use crate::error::Error;
use crate::schema::{self, Made, units};

/// Columns and metrics whose names the tools that came before set; scripts read them. They are
/// exempt from the rule that a name ends in its unit.
const NAMES_SET_BEFORE: [&str; 37] = [
    "active_over_allocated",
    "avg_comm_bandwidth_GBps",
    "comm_kernels",
    "communication_fraction",
    "comp_kernels",
    "compute_utilization_proxy",
    "cv",
    "expected_ratio",
    "fractions",
    "group_ranks_missing",
    "largest_fraction",
    "normalized_lag",
    "num_allocations",
    "num_blocks",
    "num_collectives",
    "num_experts",
    "num_frees",
    "num_iterations",
    "num_ranks",
    "num_segment_allocations",
    "num_segments",
    "num_stacks",
    "num_steps",
    "num_traces",
    "of_busy",
    "oom_events",
    "overlap_ratio_of_comm",
    "overlap_ratio_of_comp",
    "r2",
    "requested_over_reserved",
    "requests",
    "sizes",
    "straggler_score",
    "stream_queue_length",
    "tokens_per_s_per_gib",
    "tokens_per_step_per_gib",
    "total_steps",
];

/// Columns of a diagnosis, with their types: a row is a finding.
pub const FINDING: [(&str, &str); 8] = [
    ("trace", "VARCHAR"),
    ("finding", "VARCHAR"),
    ("where", "STRUCT"),
    ("time_per_step_ms", "DOUBLE"),
    ("gain_ms", "DOUBLE"),
    ("limits", "VARCHAR[]"),
    ("advice", "VARCHAR"),
    ("evidence", "VARCHAR"),
];

/// What a running engine says of a query.
#[derive(Debug, Clone, Default)]
pub struct Probe {
    /// The syntax tree of `json_serialize_sql`, or its error.
    pub tree: Value,
    /// Names and SQL types of the result on empty tables.
    pub columns: Vec<(String, String)>,
    /// Parameters of the prepared statement.
    pub params: Vec<String>,
    /// What the engine says when the query cannot be prepared or run.
    pub error: Option<String>,
    /// Trees of the expressions of `@check`, `@warn` and `@answer`, as `SELECT (expression)`.
    pub expression_trees: Vec<Value>,
}

/// The tables that a tree reads, without the names that it defines itself.
pub fn base_tables(tree: &Value) -> BTreeSet<String> {
    fn walk(node: &Value, tables: &mut BTreeSet<String>, defined: &mut BTreeSet<String>) {
        match node {
            Value::Object(map) => {
                if map.get("type").and_then(Value::as_str) == Some("BASE_TABLE")
                    && let Some(name) = map.get("table_name").and_then(Value::as_str)
                {
                    tables.insert(name.to_owned());
                }
                if let Some(ctes) =
                    map.get("cte_map").and_then(|c| c.get("map")).and_then(Value::as_array)
                {
                    for cte in ctes {
                        if let Some(name) = cte.get("key").and_then(Value::as_str) {
                            defined.insert(name.to_owned());
                        }
                    }
                }
                map.values().for_each(|v| walk(v, tables, defined));
            }
            Value::Array(list) => list.iter().for_each(|v| walk(v, tables, defined)),
            _ => {}
        }
    }
    let (mut tables, mut defined) = (BTreeSet::new(), BTreeSet::new());
    walk(tree, &mut tables, &mut defined);
    tables.difference(&defined).cloned().collect()
}

/// Every fault of a file.
pub fn file(registry: &Registry, file: &SqlFile, probe: &Probe) -> Vec<Error> {
    let mut lint = Lint { registry, file, probe, faults: Vec::new() };
    if lint.runs() {
        lint.path();
        lint.warns();
        lint.tables();
        lint.params();
        lint.columns();
        lint.grain();
        lint.schema();
        lint.repetition();
    }
    lint.faults
}

/// The names between braces of a message: `{lag_us}`.
pub fn placeholders(message: &str) -> impl Iterator<Item = &str> {
    message.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name)
}

/// One file under the checks.
struct Lint<'a> {
    registry: &'a Registry,
    file: &'a SqlFile,
    probe: &'a Probe,
    faults: Vec<Error>,
}

impl<'a> Lint<'a> {
    fn fault(&mut self, message: impl Into<String>, hint: &str) {
        let error = Error::new("check-failed", message);
        self.faults.push(error.at(self.file.path.clone()).hint(hint));
    }

    fn header(&self) -> &'a Header {
        &self.file.header
    }

    /// The file is one `SELECT` that runs on empty tables; the other checks need that.
    fn runs(&mut self) -> bool {
        let tree = &self.probe.tree;
        let one_select = "write one SELECT after the header";
        if tree.get("error").and_then(Value::as_bool) == Some(true) {
            let why = tree.get("error_message").and_then(Value::as_str).unwrap_or("no SELECT");
            self.fault(format!("the file is not one SELECT: {why}"), one_select);
            return false;
        }
        if tree.get("statements").and_then(Value::as_array).map(Vec::len) != Some(1) {
            self.fault("the file holds more than one statement", one_select);
            return false;
        }
        if let Some(error) = &self.probe.error {
            self.fault(
                format!("the query does not run on empty tables: {error}"),
                "mend the query",
            );
            return false;
        }
        true
    }

    /// A metric or diagnosis is `<name>.v<N>.sql`, anything else `<name>.sql`; the project's own
    /// files lie in the folder of their area or subject.
    fn path(&mut self) {
        let h = self.header();
        let wanted = if matches!(h.kind, Kind::Metric | Kind::Diagnosis) {
            format!("{}.v{}.sql", h.name, h.version)
        } else {
            format!("{}.sql", h.name)
        };
        if !self.file.path.replace('\\', "/").ends_with(&format!("/{wanted}")) {
            self.fault(
                format!("the file should be called {wanted}"),
                "rename it, or change its header",
            );
        }
        if !self.file.of_user {
            self.folder();
        }
    }

    fn folder(&mut self) {
        let h = self.header();
        let names = |groups: &[Group]| groups.iter().map(|g| g.name).collect::<Vec<_>>();
        let (known, wanted) = match h.kind {
            Kind::Metric => (names(&AREAS), Some(h.area.as_str())),
            Kind::View if h.is_data() => (vec!["data"], None),
            Kind::View => (names(&SUBJECTS), None),
            Kind::Diagnosis => (vec!["diagnoses"], None),
            Kind::Derived | Kind::Comparison => return,
        };
        let folder = self.file.folder();
        if !known.contains(&folder) || wanted.is_some_and(|area| area != folder) {
            self.fault(
                format!("a {} does not belong in the folder `{folder}`", h.kind.word()),
                &format!("the folders: {}; that of a metric is its @area", known.join(", ")),
            );
        }
    }

    /// A message of `@warn` names columns only.
    fn warns(&mut self) {
        let h = self.header();
        for name in h.warns.iter().flat_map(|warn| placeholders(&warn.right)) {
            if !h.columns.iter().any(|c| c.name == name) {
                self.fault(
                    format!("the message of @warn names `{name}`, which is no column"),
                    "write a column of the result between the braces",
                );
            }
        }
    }

    /// The header lists what the query reads, and the layer of the file may read it.
    fn tables(&mut self) {
        let mut used = base_tables(&self.probe.tree);
        used.extend(self.probe.expression_trees.iter().flat_map(base_tables));
        let listed: BTreeSet<String> = self.header().inputs().map(str::to_owned).collect();
        for name in used.difference(&listed) {
            self.fault(
                format!("the query reads `{name}`, which the header does not list"),
                "add it to @requires or @reads",
            );
        }
        let mut reached = BTreeSet::new();
        used.iter().for_each(|name| reach(self.registry, name, &mut reached));
        for name in listed.difference(&reached) {
            self.fault(
                format!("the header lists `{name}`, which the query does not read"),
                "take it out of @requires or @reads",
            );
        }
        for name in &listed {
            if self.may_read(name) {
                continue;
            }
            self.fault(
                format!("`{name}` is no table or view that this layer may read"),
                "derived tables read ingested and derived tables, and data; views and metrics read \
                 tables and views; comparisons also metric_results",
            );
        }
    }

    /// Layers read leftwards only.
    fn may_read(&self, name: &str) -> bool {
        let table = schema::table(name);
        let view = self.registry.view(name);
        match self.header().kind {
            Kind::Derived => {
                table.is_some_and(|t| t.made == Made::Ingest)
                    || view.is_some_and(|v| v.header.is_data())
                    || self.registry.derived().iter().any(|d| d.header.name == *name)
            }
            Kind::View | Kind::Metric | Kind::Diagnosis => table.is_some() || view.is_some(),
            Kind::Comparison => table.is_some() || view.is_some() || name == schema::RESULTS.name,
        }
    }

    /// Parameters of the header are those of the query.
    fn params(&mut self) {
        let (h, probe) = (self.header(), self.probe);
        if matches!(h.kind, Kind::View | Kind::Derived) && !probe.params.is_empty() {
            let message = "only metrics, diagnoses and comparisons take parameters";
            self.fault(message, "take the $parameter out");
            return;
        }
        for param in &h.params {
            if !probe.params.contains(&param.name) {
                self.fault(
                    format!("parameter `{}` is not used", param.name),
                    "use it, or take it out of the header",
                );
            }
            if !["BIGINT", "DOUBLE", "BOOLEAN", "VARCHAR"].contains(&param.ty.as_str()) {
                self.fault(
                    format!("parameter `{}` has the type {}", param.name, param.ty),
                    "use BIGINT, DOUBLE, BOOLEAN or VARCHAR",
                );
            }
        }
        for name in probe.params.iter().filter(|name| !h.params.iter().any(|p| p.name == **name)) {
            self.fault(
                format!("`${name}` has no @param"),
                "add `-- @param name TYPE default | text`",
            );
        }
    }

    /// Columns of the header are those of the query, and their names say their units.
    fn columns(&mut self) {
        let (h, probe) = (self.header(), self.probe);
        if h.kind == Kind::Diagnosis {
            return self.finding();
        }
        if h.kind != Kind::Metric && h.columns.is_empty() {
            return;
        }
        let (listed, given) = (h.columns.len(), probe.columns.len());
        if listed != given {
            self.fault(
                format!(
                    "header and query disagree: {listed} columns in the header, {given} in the query"
                ),
                "list the columns of the closing SELECT in its order",
            );
        }
        for (i, (column, (name, ty))) in h.columns.iter().zip(&probe.columns).enumerate() {
            if column.name != *name || !same_type(&column.ty, ty) {
                self.fault(
                    format!(
                        "header and query disagree on column {}: header `{} {}`, query `{name} {ty}`",
                        i + 1,
                        column.name,
                        column.ty
                    ),
                    "rename it or cast it in the closing SELECT, or change the header",
                );
            }
        }
        h.columns.iter().for_each(|column| self.unit(column));
    }

    /// A diagnosis gives the columns of a finding, and names what shows it.
    fn finding(&mut self) {
        let (h, probe) = (self.header(), self.probe);
        let given = probe.columns.iter().map(|(name, ty)| (name.as_str(), ty.as_str()));
        let right = |((name, ty), (given, query)): ((&str, &str), (&str, &str))| {
            name == given && same_type(ty, query)
        };
        let all = FINDING.len() == probe.columns.len() && FINDING.into_iter().zip(given).all(right);
        if !all {
            let given: Vec<String> =
                probe.columns.iter().map(|(name, ty)| format!("{name} {ty}")).collect();
            let wanted: Vec<String> = FINDING.iter().map(|(n, ty)| format!("{n} {ty}")).collect();
            self.fault(
                format!("the columns are {}", given.join(", ")),
                &format!("a diagnosis gives {}", wanted.join(", ")),
            );
        }
        let shown = h.shown.as_deref().unwrap_or_default();
        if self.registry.view(shown).is_none() && self.registry.metric(shown).is_err() {
            self.fault(
                format!("@shown names `{shown}`, which is no metric or view"),
                "name the metric or view that shows what is found",
            );
        }
    }

    /// The name of a column ends in its unit.
    fn unit(&mut self, column: &Column) {
        let unit = column.unit.as_deref();
        if let Some(unit) = unit.filter(|name| units::unit(name).is_none()) {
            self.fault(
                format!("column `{}` has the unknown unit `{unit}`", column.name),
                "see the list of units in sql/README.md",
            );
            return;
        }
        let nested = matches!(column.ty.as_str(), "MAP" | "LIST" | "STRUCT");
        if nested || column.dim || NAMES_SET_BEFORE.contains(&column.name.as_str()) {
            return;
        }
        // The longest suffix counts: `_gb_per_s` is no `_s`.
        let suffixes = || units::UNITS.iter().filter(|u| u.in_names).map(|u| u.name);
        let said = suffixes()
            .filter(|s| column.name.ends_with(&format!("_{s}")))
            .max_by_key(|s| s.len())
            .filter(|s| *s != "s" || !column.name.ends_with("_per_s"));
        let needs = unit.filter(|u| suffixes().any(|s| s == *u));
        if said.is_some() && said != unit || needs.is_some() && said != needs {
            self.fault(
                format!(
                    "column `{}` has the unit `{}`, which its name does not say",
                    column.name,
                    unit.unwrap_or("-")
                ),
                "end the name in the unit, e.g. lag_us, size_bytes, overlap_ratio",
            );
        }
    }

    fn grain(&mut self) {
        if self.header().kind == Kind::Metric && self.header().grain != ["trace"] {
            self.fault("the grain of a metric is one row per trace", "write @grain trace");
        }
    }

    /// A derived table that the schema describes has its columns.
    fn schema(&mut self) {
        let (Kind::Derived, Some(table)) = (self.header().kind, schema::table(&self.header().name))
        else {
            return;
        };
        let names: Vec<&str> = table.columns.iter().map(|c| c.name).collect();
        let given: Vec<&str> = self.probe.columns.iter().map(|(n, _)| n.as_str()).collect();
        if names != given {
            self.fault(
                format!("columns differ from the schema: {}", difference(&names, &given)),
                "src/schema/tables.rs and the closing SELECT list the same columns in one order",
            );
        }
    }

    /// The closing `SELECT` does a job of its own.
    fn repetition(&mut self) {
        if let Some(name) = repeated_cte(&self.probe.tree["statements"][0]["node"]) {
            self.fault(
                format!("the closing SELECT only repeats the columns of `{name}`"),
                "let the closing SELECT do what this CTE does",
            );
        }
    }
}

fn difference(wanted: &[&str], given: &[&str]) -> String {
    match wanted.iter().zip(given).position(|(a, b)| a != b) {
        Some(i) => format!("column {} is `{}`, should be `{}`", i + 1, given[i], wanted[i]),
        None => format!("{} columns, should be {}", given.len(), wanted.len()),
    }
}

/// Everything that a name reads, directly or through views.
fn reach(registry: &Registry, name: &str, seen: &mut BTreeSet<String>) {
    if seen.insert(name.to_owned())
        && let Some(view) = registry.view(name)
    {
        view.header.inputs().for_each(|input| reach(registry, input, seen));
    }
}

/// Whether a type of the query is the one of the header; `MAP`, `LIST`, `STRUCT` stand for all.
fn same_type(header: &str, query: &str) -> bool {
    match header {
        "MAP" => query.starts_with("MAP("),
        "LIST" => query.ends_with("[]"),
        "STRUCT" => query.starts_with("STRUCT("),
        exact => exact == query,
    }
}

/// The last CTE of a query whose closing `SELECT` is nothing but the columns of that CTE.
fn repeated_cte(node: &Value) -> Option<&str> {
    let last = node["cte_map"]["map"].as_array()?.last()?;
    let name = last["key"].as_str()?;
    let empty = |key: &str| node[key].as_array().is_none_or(Vec::is_empty);
    let plain = ["where_clause", "having", "qualify", "sample"].iter().all(|k| node[k].is_null())
        && empty("group_expressions");
    let from = &node["from_table"];
    if !plain || from["type"] != "BASE_TABLE" || from["table_name"] != name {
        return None;
    }
    let made = &last["value"]["query_node"];
    // The columns of a UNION are those of its first part; a LIMIT has an order of its own.
    let first = made["children"].get(0).unwrap_or(made);
    let limited = made["modifiers"].as_array()?.iter().any(|m| m["type"] == "LIMIT_MODIFIER");
    let columns = |node: &Value| -> Option<BTreeSet<String>> {
        node["select_list"].as_array()?.iter().map(column_name).collect()
    };
    let alone = node["select_list"]
        .as_array()?
        .iter()
        .all(|item| item["class"] == "COLUMN_REF" && item["alias"] == "");
    (alone && !limited && columns(node)? == columns(first)?).then_some(name)
}

/// The name of an item of a select list; None for an expression without one.
fn column_name(item: &Value) -> Option<String> {
    let alias = item["alias"].as_str().filter(|alias| !alias.is_empty());
    let column = item["column_names"].as_array().and_then(|names| names.last()?.as_str());
    alias.or(column).map(str::to_owned)
}

/// The text of `sql/metrics.lock`: kind, name, version, hash of the query.
pub fn lock(registry: &Registry) -> String {
    let mut lines: Vec<String> = registry
        .files()
        .map(|f| {
            let kind = f.header.kind.word();
            format!("{kind} {} {} {}", f.header.name, f.header.version, f.sha256())
        })
        .collect();
    lines.sort();
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_defined_inside_are_no_tables() {
        let tree = serde_json::json!({"statements": [{"node": {
            "cte_map": {"map": [{"key": "calls", "value": {"from_table": {"type": "BASE_TABLE", "table_name": "collectives"}}}]},
            "from_table": {"type": "BASE_TABLE", "table_name": "calls"}}}]});
        assert_eq!(base_tables(&tree).into_iter().collect::<Vec<_>>(), ["collectives"]);
    }

    #[test]
    fn a_derived_table_has_the_columns_of_the_schema() {
        let registry = Registry::load(None).expect("the embedded files are right");
        let file = &registry.derived["steps"];
        let faults = |given: &[&str]| {
            let columns = given.iter().map(|name| ((*name).to_owned(), String::new())).collect();
            let probe = Probe { columns, ..Probe::default() };
            let mut lint = Lint { registry: &registry, file, probe: &probe, faults: Vec::new() };
            lint.schema();
            lint.faults.iter().map(|fault| fault.message.clone()).collect::<Vec<_>>()
        };
        let columns = &schema::table("steps").expect("the schema has it").columns;
        let mut names: Vec<&str> = columns.iter().map(|c| c.name).collect();
        assert_eq!(faults(&names), [""; 0]);
        let (all, last) = (names.len(), names.pop().expect("it has columns"));
        let few = format!("columns differ from the schema: {} columns, should be {all}", all - 1);
        assert_eq!(faults(&names), [few]);
        names.push("other");
        let other =
            format!("columns differ from the schema: column {all} is `other`, should be `{last}`");
        assert_eq!(faults(&names), [other]);
    }

    #[test]
    fn units_stand_at_the_end_of_names() {
        let registry = Registry::load(None).expect("the embedded files are right");
        let file = registry.metrics().next().expect("there are metrics");
        let faults = |name: &str, unit: Option<&str>| {
            let column = Column {
                name: name.into(),
                ty: "DOUBLE".into(),
                dim: false,
                unit: unit.map(str::to_owned),
                better: None,
                doc: String::new(),
            };
            let probe = Probe::default();
            let mut lint = Lint { registry: &registry, file, probe: &probe, faults: Vec::new() };
            lint.unit(&column);
            lint.faults.len()
        };
        assert_eq!(faults("lag_us", Some("us")), 0);
        assert_eq!(faults("lag", Some("us")), 1);
        assert_eq!(faults("lag_ms", Some("us")), 1);
        assert_eq!(faults("bus_bw_gb_per_s", Some("gb_per_s")), 0);
        assert_eq!(faults("tokens_per_s", Some("tokens_per_s")), 0);
        assert_eq!(faults("lag_us", Some("parsecs")), 1);
        assert_eq!(faults("method", None), 0);
    }
}
