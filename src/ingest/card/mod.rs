//! Workload cards: the YAML that says what was run.
//!
//! A card is a help, not a trace: one that lies beside a trace and cannot be read is a finding, and
//! the trace is ingested without it. One that the user names is what he wants read, so it is an
//! error. Types in real cards vary (`"TBD"` for a bandwidth, `[25, null]`, a number in quotes);
//! what has not the type of its column is NULL there and stays in `card`.

pub mod beside;
pub mod fields;
pub(crate) mod torchtitan;

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::Error;
use crate::ingest::card::fields::{Card, Unusable, text};
use crate::readers::log::{Log, Severity};

/// The card and the configuration that the user names (`--card`, `--config`).
#[derive(Debug, Clone, Default)]
pub struct Given {
    /// The card.
    pub card: Option<Card>,
    /// The configuration, and where it lies.
    pub config: Option<(PathBuf, Value)>,
}

impl Given {
    /// Reads both, so that none is found to be of no use after a trace was read.
    ///
    /// # Errors
    /// `card-invalid`, `config-invalid`: all that there are.
    pub fn read(card: Option<&Path>, config: Option<&Path>) -> Result<Self, Vec<Error>> {
        let mut out = Self::default();
        let mut errors = Vec::new();
        match card.map(|path| parse(path).map_err(|e| (e, path))).transpose() {
            Ok(card) => out.card = card,
            Err((unusable, path)) => errors.push(
                unusable
                    .error("card-invalid", "workload card", path)
                    .hint("give a workload card (YAML), or leave --card away"),
            ),
        }
        match config.map(|path| parse_config(path).map_err(|e| (e, path))).transpose() {
            Ok(config) => out.config = config,
            Err((unusable, path)) => errors.push(
                unusable
                    .error("config-invalid", "configuration", path)
                    .hint("give a configuration of TorchTitan (TOML), or leave --config away"),
            ),
        }
        if errors.is_empty() { Ok(out) } else { Err(errors) }
    }
}

/// A YAML document, be it a card or not.
fn yaml(path: &Path) -> Result<Value, Unusable> {
    let text = text(path)?;
    // Cards of optimiser runs hold `.inf`; JSON has no such number, so it is kept as text.
    let options = serde_saphyr::options! {
        non_finite_float_policy: serde_saphyr::options::NonFiniteFloatPolicy::AsString,
    };
    serde_saphyr::from_str_with_options(&text, options).map_err(|e| {
        // It says the line itself.
        let why = e.without_snippet().to_string();
        Unusable::whole(format!("no valid YAML: {}", why.lines().next().unwrap_or_default()))
    })
}

/// The card that the user names.
fn parse(path: &Path) -> Result<Card, Unusable> {
    let value = yaml(path)?;
    match is_card(&value) {
        true => Ok(Card { path: path.to_owned(), value, config: None }),
        false => Err(Unusable::whole(
            "it has none of the keys of a workload card (workload, workload_suite)",
        )),
    }
}

/// The configuration that the user names.
fn parse_config(path: &Path) -> Result<(PathBuf, Value), Unusable> {
    Ok((path.to_owned(), torchtitan::parse(&text(path)?)?))
}

/// Reads a card; None when the YAML is none of a card, or with a finding when it is broken.
fn read(path: &Path, log: &mut Log) -> Option<Card> {
    match yaml(path) {
        Ok(value) if is_card(&value) => Some(Card { path: path.to_owned(), value, config: None }),
        Ok(_) => None,
        Err(Unusable { why, .. }) => {
            log.add(Severity::Info, "card-invalid", None, || {
                format!("{}: {why}; the trace was ingested without it", path.display())
            });
            None
        }
    }
}

/// Whether a YAML document has the keys of a card.
fn is_card(value: &Value) -> bool {
    value.get("workload").is_some_and(Value::is_object)
        || value.get("workload_suite").is_some()
        || (value.get("Model-executor").is_some() && value.get("metric_source").is_some())
}

/// The card of a folder out of the YAML files in it: `workload_card.yaml`, then
/// `<folder>/<folder name>.yaml`, then `workload_card*.yaml`, then any with the keys of a card.
/// Several that fit equally are a finding, and the first by name is taken.
pub fn choose(folder: &Path, files: &[PathBuf], log: &mut Log) -> Option<Card> {
    let folder_name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let class = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let base = name.trim_end_matches(".yml").trim_end_matches(".yaml").to_owned();
        match () {
            () if base == "workload_card" => 0,
            () if base == folder_name => 1,
            () if base.starts_with("workload_card") => 2,
            () => 3,
        }
    };
    for wanted in 0..4 {
        let mut cards: Vec<Card> =
            files.iter().filter(|f| class(f) == wanted).filter_map(|f| read(f, log)).collect();
        if cards.len() > 1 {
            log.add(Severity::Info, "several-cards", None, || {
                let names: Vec<_> = cards.iter().map(|c| c.path.display().to_string()).collect();
                format!("several workload cards; the first was taken of {}", names.join(", "))
            });
        }
        if !cards.is_empty() {
            return Some(cards.remove(0));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(yaml: &str) -> Card {
        Card {
            path: PathBuf::from("c.yaml"),
            value: serde_saphyr::from_str(yaml).expect("the test's YAML is valid"),
            config: None,
        }
    }

    #[test]
    fn values_of_another_kind_are_unknown() {
        let c = card(
            "workload:\n  model: {num_params: [1], model_family: {a: 1}, layers: true}\n  \
             hardware: {network_topo: {bandwidth_gbps: [[400], {a: 1}, 400]}}\n",
        );
        assert_eq!(c.int(&["workload.model.num_params"]), None);
        assert_eq!(c.int(&["workload.model.layers"]), None);
        assert_eq!(c.text(&["workload.model.model_family"]), None);
        assert_eq!(c.text(&["workload.model.layers"]).as_deref(), Some("true"));
        assert_eq!([0, 1, 2].map(|n| c.bandwidth(n)), [None, None, Some(400.0)]);
    }

    #[test]
    fn of_several_cards_the_name_decides() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join("run").join(name);
        std::fs::create_dir(folder.path().join("run")).expect("made");
        let names = ["zz.yaml", "a.yaml", "workload_card_2.yml", "run.yaml", "workload_card.yaml"];
        for name in names {
            std::fs::write(path(name), "workload: {}\n").expect("written");
        }
        std::fs::write(path("other.yaml"), "model: {}\n").expect("written");
        std::fs::write(path("broken.yaml"), "workload: {\n").expect("written");
        let chosen = |names: &[&str]| {
            let files: Vec<PathBuf> = names.iter().map(|name| path(name)).collect();
            let mut log = Log::default();
            let card = choose(&folder.path().join("run"), &files, &mut log);
            let name = card.map(|c| c.path.file_name().expect("a name").to_owned());
            let codes: Vec<String> = log.findings.iter().map(|f| f.code.to_string()).collect();
            (name.unwrap_or_default().into_string().expect("text"), codes.join(" "))
        };
        let of = |name: &str, codes: &str| (name.to_owned(), codes.to_owned());
        assert_eq!(chosen(&names), of("workload_card.yaml", ""));
        assert_eq!(chosen(&names[..4]), of("run.yaml", ""));
        assert_eq!(chosen(&names[..3]), of("workload_card_2.yml", ""));
        assert_eq!(chosen(&names[..2]), of("zz.yaml", "several-cards"));
        assert_eq!(chosen(&["other.yaml", "a.yaml"]), of("a.yaml", ""));
        assert_eq!(chosen(&["broken.yaml"]), of("", "card-invalid"));
    }

    #[test]
    fn odd_types_become_null() {
        let c = card(
            "workload:\n  data: {batch_size: '16', seq_len: TBD}\n  model: {moe: true, \
             num_params: 8.03e9}\n  hardware:\n    network_topo: {bandwidth_gbps: [200, N/A]}\n",
        );
        assert_eq!(c.int(&["workload.data.batch_size"]), Some(16));
        assert_eq!(c.int(&["workload.data.seq_len"]), None);
        assert_eq!(
            c.int(&["workload.model.none", "workload.model.num_params"]),
            Some(8_030_000_000)
        );
        assert_eq!(c.text(&["workload.model.moe"]).as_deref(), Some("true"));
        assert_eq!((c.bandwidth(0), c.bandwidth(1)), (Some(200.0), None));
        assert_eq!(c.odd_counts(), ["seq_len = \"TBD\""]);
    }

    #[test]
    fn counts_begin_at_one() {
        let c = card(
            "workload:\n  data: {batch_size: -1, seq_len: 0}\n  model: {num_params_embedding: 0}\n  \
             hardware: {xpu_spec: {total_count: 8}}\n",
        );
        let counts = ["batch_size", "seq_len", "num_params_embedding", "total_count", "tp"];
        assert_eq!(counts.map(|name| c.count(name)), [None, None, Some(0), Some(8), None]);
        assert_eq!(c.odd_counts(), ["batch_size = -1", "seq_len = 0"]);
    }

    #[test]
    fn other_yaml_is_no_card() {
        assert!(!is_card(&serde_json::json!({"services": {}})));
        assert!(is_card(&serde_json::json!({"workload": {}})));
    }
}
