//! The card of a workload: its values, and where each may stand.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::Error;
use crate::input::place::small_text;
use crate::readers::log::{Log, Severity};

const PLAN: &str = "Model-executor.model_plan_parallelization";

const DATA: &str = "workload.data";

const SPEC: &str = "workload.hardware.xpu_spec";

const MODEL: &str = "workload.model";

const ARCH: &str = "workload.model.model_arch";

/// Tables of the card and keys in them.
type Places = &'static [(&'static str, &'static str)];

/// Columns that are counts: name, least value, and each place in the card where it may stand.
const COUNTS: [(&str, i64, Places); 20] = [
    ("batch_size", 1, &[(DATA, "batch_size")]),
    ("seq_len", 1, &[(DATA, "seq_len")]),
    ("input_len", 1, &[(DATA, "input_len")]),
    ("output_len", 1, &[(DATA, "output_len")]),
    ("iteration", 1, &[(MODEL, "iteration")]),
    ("num_params", 1, &[(ARCH, "num_params"), (MODEL, "num_params")]),
    (
        "num_params_active",
        1,
        &[
            (ARCH, "num_params_active"),
            (MODEL, "num_params_active"),
            (ARCH, "num_active_params"),
            (MODEL, "num_active_params"),
        ],
    ),
    ("num_params_embedding", 0, &[(ARCH, "num_params_embedding"), (MODEL, "num_params_embedding")]),
    ("num_layers", 1, &[(ARCH, "num_layers"), (MODEL, "num_layers")]),
    ("num_heads", 1, &[(ARCH, "num_heads"), (MODEL, "num_heads")]),
    ("head_dim", 1, &[(ARCH, "head_dim"), (MODEL, "head_dim")]),
    ("total_count", 1, &[(SPEC, "total_count")]),
    ("count_per_node", 1, &[(SPEC, "count_per_node")]),
    ("dp_replicate", 1, &[(PLAN, "dp_replicate")]),
    ("dp_shard", 1, &[(PLAN, "dp_shard")]),
    ("tp", 1, &[(PLAN, "tp")]),
    ("pp", 1, &[(PLAN, "pp")]),
    ("cp", 1, &[(PLAN, "cp")]),
    ("ep", 1, &[(PLAN, "ep")]),
    ("pp_mb", 1, &[(PLAN, "pp_mb")]),
];

/// A card that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Card {
    /// The file.
    pub path: PathBuf,
    /// The whole card.
    pub value: Value,
    /// The configuration beside it (`--config`), and where it lies.
    pub config: Option<(PathBuf, Value)>,
}

impl Card {
    fn find(&self, paths: &[&str]) -> Option<&Value> {
        paths.iter().find_map(|path| {
            path.split('.').try_fold(&self.value, |at, key| at.get(key)).filter(|v| !v.is_null())
        })
    }

    /// The integer at the first of these paths that holds one.
    pub fn int(&self, paths: &[&str]) -> Option<i64> {
        paths.iter().find_map(|path| match self.find(&[path])? {
            Value::Number(n) => n.to_string().parse().ok().or_else(|| {
                // `num_params: 8.03e9` is how people write eight billion.
                let float = n.as_f64()?;
                (float.fract() == 0.0 && float.abs() < 9e15).then_some(float as i64)
            }),
            Value::String(s) => s.trim().parse().ok(),
            _ => None,
        })
    }

    /// The text at the first of these paths that holds some.
    pub fn text(&self, paths: &[&str]) -> Option<String> {
        paths.iter().find_map(|path| match self.find(&[path])? {
            Value::String(s) if s.trim().is_empty() => None,
            Value::String(s) => Some(s.trim().to_owned()),
            Value::Number(n) => Some(n.to_string()),
            Value::Bool(b) => Some(b.to_string()),
            _ => None,
        })
    }

    /// The count of a column.
    pub fn count(&self, column: &str) -> Option<i64> {
        let (_, least, places) = COUNTS.iter().find(|(name, ..)| *name == column)?;
        places
            .iter()
            .find_map(|(path, key)| self.int(&[&format!("{path}.{key}")]))
            .filter(|count| count >= least)
    }

    /// Counts that the card states, but no number that can be one: `column = value`.
    pub(crate) fn odd_counts(&self) -> Vec<String> {
        let stated = |(path, key): &(&str, &str)| self.find(&[&format!("{path}.{key}")]).cloned();
        COUNTS
            .iter()
            .filter(|(column, ..)| self.count(column).is_none())
            .filter_map(|(column, _, places)| {
                let value = places.iter().find_map(stated)?;
                let said = !matches!(&value, Value::String(text) if text.trim().is_empty());
                let text: String = value.to_string().chars().take(40).collect();
                said.then(|| format!("{column} = {text}"))
            })
            .collect()
    }

    /// Says which counts it states that are of no use.
    pub fn note_odd(&self, log: &mut Log) {
        let odd = self.odd_counts();
        if !odd.is_empty() {
            log.add(Severity::Info, "card-value", None, || {
                format!(
                    "{}: no usable number, and taken as unknown: {}",
                    self.path.display(),
                    odd.join(", ")
                )
            });
        }
    }

    /// Element `index` of `bandwidth_gbps` (0 scale-out, 1 scale-up), Gbit/s.
    pub fn bandwidth(&self, index: usize) -> Option<f64> {
        let value = match self.find(&["workload.hardware.network_topo.bandwidth_gbps"])? {
            Value::Array(list) => list.get(index)?,
            single if index == 0 => single,
            _ => return None,
        };
        match value {
            Value::Number(n) => n.as_f64(),
            Value::String(s) => s.trim().parse().ok(),
            _ => None,
        }
        .filter(|x| x.is_finite() && *x > 0.0)
    }
}

/// The largest card that is read; real ones are a few kilobytes.
const MAX_CARD_BYTES: u64 = 1 << 20;

/// The fault for which a card or configuration is of no use.
#[derive(Debug)]
pub struct Unusable {
    /// In words.
    pub why: String,
    /// The line that shows it.
    pub line: Option<u64>,
}

impl Unusable {
    /// A fault of the file as a whole.
    pub fn whole(why: impl Into<String>) -> Self {
        Self { why: why.into(), line: None }
    }

    pub(crate) fn error(self, code: &'static str, what: &str, path: &Path) -> Error {
        let path = path.display();
        let place = self.line.map_or_else(|| path.to_string(), |n| format!("{path}, line {n}"));
        Error::new(code, format!("the {what} cannot be used: {}", self.why)).at(place)
    }
}

/// The text of a small file.
pub(crate) fn text(path: &Path) -> Result<String, Unusable> {
    small_text(path, MAX_CARD_BYTES).map_err(Unusable::whole)
}
