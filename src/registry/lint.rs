//! Checks on the SQL files: one `SELECT` each, headers that say what the query does, names with
//! their units, layers that read leftwards.
//!
//! The engine parses: `json_serialize_sql` refuses everything but `SELECT` and gives the tables
//! that a query reads. What needs a running engine with the empty tables of the schema comes in as
//! [`Probe`], from the layer above.

use std::collections::BTreeSet;

use serde_json::Value;

use super::header::{Column, Header, Kind};
use super::{Registry, SqlFile};
use crate::error::Error;
use crate::schema::{self, Made};

/// Units that a column may have.
pub const UNITS: [&str; 29] = [
    "ns",
    "us",
    "ms",
    "s",
    "bytes",
    "mb",
    "gb",
    "gib",
    "mib",
    "gb_per_s",
    "s_per_gb",
    "s_per_byte",
    "bytes_per_s",
    "count",
    "ratio",
    "pct",
    "calls",
    "tokens",
    "tokens_per_s",
    "requests_per_s",
    "samples_per_s",
    "tokens_per_gib",
    "tokens_per_s_per_gib",
    "per_s",
    "score",
    "flops",
    "flops_per_s",
    "flops_per_token",
    "flops_per_byte",
];

/// Units that a column name carries as its last part.
const SUFFIXES: [&str; 14] = [
    "ns", "us", "ms", "s", "bytes", "mb", "gb", "gib", "mib", "gb_per_s", "s_per_gb", "count",
    "ratio", "pct",
];

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

fn fault(file: &SqlFile, message: String, hint: &str) -> Error {
    Error::new("check-failed", message).at(file.path.clone()).hint(hint)
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
    let h = &file.header;
    let mut out = Vec::new();
    if probe.tree.get("error").and_then(Value::as_bool) == Some(true) {
        let why = probe.tree.get("error_message").and_then(Value::as_str).unwrap_or("no SELECT");
        out.push(fault(
            file,
            format!("the file is not one SELECT: {why}"),
            "write one SELECT after the header",
        ));
        return out;
    }
    if probe.tree.get("statements").and_then(Value::as_array).map(Vec::len) != Some(1) {
        out.push(fault(
            file,
            "the file holds more than one statement".to_owned(),
            "write one SELECT after the header",
        ));
    }
    if let Some(error) = &probe.error {
        out.push(fault(
            file,
            format!("the query does not run on empty tables: {error}"),
            "mend the query",
        ));
        return out;
    }
    path(file, &mut out);
    for warn in &h.warns {
        for name in placeholders(&warn.right) {
            if !h.columns.iter().any(|c| c.name == name) {
                out.push(fault(
                    file,
                    format!("the message of @warn names `{name}`, which is no column"),
                    "write a column of the result between the braces",
                ));
            }
        }
    }
    tables(registry, file, probe, &mut out);
    params(file, probe, &mut out);
    if h.kind == Kind::Metric || !h.columns.is_empty() {
        columns(file, probe, &mut out);
    }
    if h.kind == Kind::Metric && h.grain != ["trace"] {
        out.push(fault(
            file,
            "the grain of a metric is one row per trace".to_owned(),
            "write @grain trace",
        ));
    }
    if let (Kind::Derived, Some(table)) = (h.kind, schema::table(&h.name)) {
        let names: Vec<&str> = table.columns.iter().map(|c| c.name).collect();
        let given: Vec<&str> = probe.columns.iter().map(|(n, _)| n.as_str()).collect();
        if names != given {
            out.push(fault(
                file,
                format!("columns differ from the schema: {}", difference(&names, &given)),
                "src/schema/tables.rs and the final SELECT list the same columns in one order",
            ));
        }
    }
    out
}

/// The names between braces of a message: `{lag_us}`.
pub fn placeholders(message: &str) -> impl Iterator<Item = &str> {
    message.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name)
}

fn difference(wanted: &[&str], given: &[&str]) -> String {
    match wanted.iter().zip(given).position(|(a, b)| a != b) {
        Some(i) => format!("column {} is `{}`, should be `{}`", i + 1, given[i], wanted[i]),
        None => format!("{} columns, should be {}", given.len(), wanted.len()),
    }
}

/// A metric lies at `<area>/<name>.v<N>.sql`, anything else at `<name>.sql`.
fn path(file: &SqlFile, out: &mut Vec<Error>) {
    let h = &file.header;
    let wanted = match h.kind {
        Kind::Metric => format!("{}.v{}.sql", h.name, h.version),
        Kind::View | Kind::Derived | Kind::Comparison => format!("{}.sql", h.name),
    };
    if !file.path.replace('\\', "/").ends_with(&format!("/{wanted}")) {
        out.push(fault(
            file,
            format!("the file should be called {wanted}"),
            "rename it, or change its header",
        ));
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

fn tables(registry: &Registry, file: &SqlFile, probe: &Probe, out: &mut Vec<Error>) {
    let h = &file.header;
    let mut used = base_tables(&probe.tree);
    for tree in &probe.expression_trees {
        used.extend(base_tables(tree));
    }
    let listed: BTreeSet<String> = h.inputs().map(str::to_owned).collect();
    for name in used.difference(&listed) {
        out.push(fault(
            file,
            format!("the query reads `{name}`, which the header does not list"),
            "add it to @requires or @reads",
        ));
    }
    let mut reached = BTreeSet::new();
    used.iter().for_each(|name| reach(registry, name, &mut reached));
    for name in listed.difference(&reached) {
        out.push(fault(
            file,
            format!("the header lists `{name}`, which the query does not read"),
            "take it out of @requires or @reads",
        ));
    }
    for name in &listed {
        let table = schema::table(name);
        let view = registry.view(name).is_some();
        let derived = registry.derived().iter().any(|d| d.header.name == *name);
        let allowed = match h.kind {
            Kind::Derived => {
                derived
                    || table.is_some_and(|t| t.made == Made::Ingest)
                    || registry.view(name).is_some_and(|v| v.header.is_data())
            }
            Kind::View | Kind::Metric => table.is_some() || view,
            Kind::Comparison => table.is_some() || view || *name == schema::RESULTS.name,
        };
        if !allowed {
            out.push(fault(
                file,
                format!("`{name}` is no table or view that this layer may read"),
                "derived tables read ingested and derived tables, and data; views and metrics read tables and views; comparisons also metric_results",
            ));
        }
    }
}

fn params(file: &SqlFile, probe: &Probe, out: &mut Vec<Error>) {
    let h = &file.header;
    if matches!(h.kind, Kind::View | Kind::Derived) && !probe.params.is_empty() {
        out.push(fault(
            file,
            "only metrics and comparisons take parameters".to_owned(),
            "take the $parameter out",
        ));
        return;
    }
    for param in &h.params {
        if !probe.params.contains(&param.name) {
            out.push(fault(
                file,
                format!("parameter `{}` is not used", param.name),
                "use it, or take it out of the header",
            ));
        }
        if !["BIGINT", "DOUBLE", "BOOLEAN", "VARCHAR"].contains(&param.ty.as_str()) {
            out.push(fault(
                file,
                format!("parameter `{}` has the type {}", param.name, param.ty),
                "use BIGINT, DOUBLE, BOOLEAN or VARCHAR",
            ));
        }
    }
    for name in &probe.params {
        if !h.params.iter().any(|p| p.name == *name) {
            out.push(fault(
                file,
                format!("`${name}` has no @param"),
                "add `-- @param name TYPE default | text`",
            ));
        }
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

fn columns(file: &SqlFile, probe: &Probe, out: &mut Vec<Error>) {
    let h: &Header = &file.header;
    if h.columns.len() != probe.columns.len() {
        out.push(fault(
            file,
            format!(
                "header and query disagree: {} columns in the header, {} in the query",
                h.columns.len(),
                probe.columns.len()
            ),
            "list the columns of the final SELECT in its order",
        ));
    }
    for (i, (column, (name, ty))) in h.columns.iter().zip(&probe.columns).enumerate() {
        if column.name != *name || !same_type(&column.ty, ty) {
            out.push(fault(
                file,
                format!(
                    "header and query disagree on column {}: header `{} {}`, query `{name} {ty}`",
                    i + 1,
                    column.name,
                    column.ty
                ),
                "rename it or cast it in the final SELECT, or change the header",
            ));
        }
    }
    for column in &h.columns {
        unit(file, column, out);
    }
}

fn unit(file: &SqlFile, column: &Column, out: &mut Vec<Error>) {
    if let Some(unit) = column.unit.as_deref().filter(|u| !UNITS.contains(u)) {
        out.push(fault(
            file,
            format!("column `{}` has the unknown unit `{unit}`", column.name),
            "see the list of units in sql/README.md",
        ));
        return;
    }
    let nested = matches!(column.ty.as_str(), "MAP" | "LIST" | "STRUCT");
    if nested || column.dim || NAMES_SET_BEFORE.contains(&column.name.as_str()) {
        return;
    }
    // The longest suffix counts: `_gb_per_s` is no `_s`.
    let said = SUFFIXES
        .iter()
        .filter(|s| column.name.ends_with(&format!("_{s}")))
        .max_by_key(|s| s.len())
        .copied()
        .filter(|s| *s != "s" || !column.name.ends_with("_per_s"));
    let unit = column.unit.as_deref();
    let needs = unit.filter(|u| SUFFIXES.contains(u));
    if said.is_some() && said != unit || needs.is_some() && said != needs {
        out.push(fault(
            file,
            format!(
                "column `{}` has the unit `{}`, which its name does not say",
                column.name,
                unit.unwrap_or("-")
            ),
            "end the name in the unit, e.g. lag_us, size_bytes, overlap_ratio",
        ));
    }
}

/// The text of `sql/metrics.lock`: kind, name, version, hash of the query.
pub fn lock(registry: &Registry) -> String {
    let mut lines: Vec<String> = registry
        .files()
        .map(|f| {
            let kind = match f.header.kind {
                Kind::Metric => "metric",
                Kind::View => "view",
                Kind::Derived => "derived",
                Kind::Comparison => "comparison",
            };
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
            let mut out = Vec::new();
            super::unit(file, &column, &mut out);
            out.len()
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
