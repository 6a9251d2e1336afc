//! Configurations of TorchTitan (TOML), in the form of a workload card.
//!
//! What a configuration says is put under the keys of a card, where the card itself says nothing;
//! the whole of it stays under the key `config`.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::ingest::card::fields::{Card, Unusable};

/// The configuration as a tree.
///
/// # Errors
/// Why the text is none of TorchTitan.
pub fn parse(text: &str) -> Result<Value, Unusable> {
    let value: Value = toml::from_str(text).map_err(|e| {
        let before = e.span().and_then(|span| text.get(..span.start));
        Unusable {
            why: format!("no valid TOML: {}", e.message().lines().next().unwrap_or_default()),
            line: before.map(|b| 1 + b.bytes().filter(|byte| *byte == b'\n').count() as u64),
        }
    })?;
    let known = ["training", "parallelism", "model"];
    match known.iter().any(|table| value.get(table).is_some_and(Value::is_object)) {
        true => Ok(value),
        false => Err(Unusable::whole(
            "it has none of the tables [training], [parallelism] and [model] of TorchTitan",
        )),
    }
}

/// A card with what a configuration says beside it; `world` is the number of ranks of the job,
/// where that is known.
pub fn merged(card: Option<&Card>, path: &Path, config: &Value, world: Option<i64>) -> Card {
    let mut value = as_card(path, config, world);
    if let Some(card) = card {
        over(&mut value, &card.value);
    }
    Card { path: card.map_or(path, |c| &c.path).to_owned(), value, config: None }
}

/// Puts what `upper` says over `lower`.
fn over(lower: &mut Value, upper: &Value) {
    match (lower, upper) {
        (Value::Object(lower), Value::Object(upper)) => {
            for (key, value) in upper {
                over(lower.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (_, Value::Null) => {}
        (lower, upper) => *lower = upper.clone(),
    }
}

/// A configuration under the keys of a card. Older versions have the degrees in [training] and
/// [experimental].
fn as_card(path: &Path, config: &Value, world: Option<i64>) -> Value {
    let known = Card { path: path.to_owned(), value: config.clone(), config: None };
    let degree = |name: &str| {
        known.int(&[
            &format!("parallelism.{name}_degree"),
            &format!("training.{name}_degree"),
            &format!("experimental.{name}_degree"),
        ])
    };
    let set = |degree: Option<i64>| degree.filter(|d| *d > 0);
    let replicate = set(degree("data_parallel_replicate")).unwrap_or(1);
    let [tp, pp, cp] =
        ["tensor_parallel", "pipeline_parallel", "context_parallel"].map(|n| set(degree(n)));
    // -1, the default, is what the other degrees leave of the ranks.
    let others = [Some(replicate), tp, pp, cp]
        .into_iter()
        .try_fold(1_i64, |product, d| product.checked_mul(d.unwrap_or(1)));
    let rest = world.zip(others).filter(|(w, o)| w % o == 0).map(|(w, o)| w / o);
    let shard = set(degree("data_parallel_shard").or_else(|| degree("data_parallel"))).or(rest);
    let local = known.int(&["training.local_batch_size", "training.batch_size"]).filter(|b| *b > 0);
    let of_all = |local: i64| local.checked_mul(replicate)?.checked_mul(shard?);
    let global = set(known.int(&["training.global_batch_size"])).or_else(|| of_all(local?));
    let total = shard.zip(others).and_then(|(s, o)| s.checked_mul(o));
    let microbatch = set(known.int(&["parallelism.pipeline_parallel_microbatch_size"]));
    let microbatches = match (pp, local, microbatch) {
        (Some(pp), Some(local), Some(size)) if pp > 1 && local % size == 0 => Some(local / size),
        _ => None,
    };
    let family = [known.text(&["model.name"]), known.text(&["model.flavor"])];
    let family: Vec<String> = family.into_iter().flatten().collect();
    let precision = known.text(&["training.mixed_precision_param", "training.dtype"]);
    let mut plan = Map::new();
    let degrees = [
        ("dp_replicate", Some(replicate)),
        ("dp_shard", shard),
        ("tp", tp.or(Some(1))),
        ("pp", pp.or(Some(1))),
        ("cp", cp.or(Some(1))),
        ("ep", set(degree("expert_parallel"))),
        ("pp_mb", microbatches),
    ];
    for (name, degree) in degrees {
        plan.insert(name.to_owned(), degree.map_or(Value::Null, Value::from));
    }
    json!({
        "workload": {
            "model": {
                "phase": "training",
                "model_family": (!family.is_empty()).then(|| family.join("-")),
                "precision": precision.map(|p| match &*p {
                    "bfloat16" => "bf16".to_owned(),
                    "float16" => "fp16".to_owned(),
                    "float32" => "fp32".to_owned(),
                    _ => p,
                }),
            },
            "data": {
                "batch_size": global,
                "seq_len": known.int(&["training.seq_len"]).filter(|s| *s > 0),
                "dataset": known.text(&["training.dataset"]),
            },
            "hardware": {"xpu_spec": {"total_count": total}},
        },
        "Model-executor": {
            "framework": {"name": "torchtitan"},
            "communication_library": {"name": known.text(&["comm.backend"])},
            "model_plan_parallelization": plan,
        },
        "config": config,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOML: &str = "[model]\nname = \"llama3\"\nflavor = \"8B\"\n\
        [training]\nlocal_batch_size = 2\nseq_len = 8192\nsteps = 10\n\
        [parallelism]\ndata_parallel_replicate_degree = 2\ndata_parallel_shard_degree = -1\n\
        tensor_parallel_degree = 4\n";

    fn card(toml: &str, world: Option<i64>) -> Card {
        merged(None, Path::new("c.toml"), &parse(toml).expect("a configuration"), world)
    }

    #[test]
    fn shards_are_what_the_other_degrees_leave() {
        let c = card(TOML, Some(32));
        let plan =
            |name: &str| c.int(&[&format!("Model-executor.model_plan_parallelization.{name}")]);
        assert_eq!(
            [plan("dp_replicate"), plan("dp_shard"), plan("tp")],
            [Some(2), Some(4), Some(4)]
        );
        // 2 sequences on each of 2 x 4 ranks.
        assert_eq!(c.int(&["workload.data.batch_size"]), Some(16));
        assert_eq!(c.int(&["workload.hardware.xpu_spec.total_count"]), Some(32));
        assert_eq!(c.text(&["workload.model.model_family"]).as_deref(), Some("llama3-8B"));
        assert_eq!(c.int(&["config.training.steps"]), Some(10));
    }

    #[test]
    fn a_pipeline_divides_what_a_rank_takes_into_microbatches() {
        let of = |pp: i64, local: i64, size: i64| {
            let toml = format!(
                "[training]\nlocal_batch_size = {local}\n[parallelism]\n\
                 pipeline_parallel_degree = {pp}\npipeline_parallel_microbatch_size = {size}\n"
            );
            card(&toml, None).int(&["Model-executor.model_plan_parallelization.pp_mb"])
        };
        assert_eq!([of(2, 8, 2), of(4, 6, 6), of(2, 6, 1)], [Some(4), Some(1), Some(6)]);
        assert_eq!(of(2, 1, 1), Some(1));
        // No pipeline, a rest, and no size.
        assert_eq!([of(1, 8, 2), of(2, 8, 3), of(2, 8, 0), of(2, 0, 2)], [None; 4]);
    }

    #[test]
    fn precisions_have_their_short_names() {
        let of = |dtype: &str| {
            let c = card(&format!("[training]\ndtype = \"{dtype}\"\n"), None);
            c.text(&["workload.model.precision"])
        };
        let short =
            [("bfloat16", "bf16"), ("float16", "fp16"), ("float32", "fp32"), ("fp8", "fp8")];
        short.iter().for_each(|(dtype, name)| assert_eq!(of(dtype).as_deref(), Some(*name)));
    }

    #[test]
    fn without_the_number_of_ranks_the_global_batch_is_unknown() {
        let c = card(TOML, None);
        assert_eq!(c.int(&["workload.data.batch_size"]), None);
        let uneven = card(TOML, Some(12));
        assert_eq!(uneven.int(&["workload.data.batch_size"]), None);
    }

    #[test]
    fn a_card_wins_where_it_says_something() {
        let upper = Card {
            path: "card.yaml".into(),
            value: json!({"workload": {"data": {"batch_size": 64, "seq_len": null}}}),
            config: None,
        };
        let config = parse(TOML).expect("a configuration");
        let c = merged(Some(&upper), Path::new("c.toml"), &config, Some(32));
        assert_eq!(c.int(&["workload.data.batch_size"]), Some(64));
        assert_eq!(c.int(&["workload.data.seq_len"]), Some(8192));
        assert_eq!(c.path, Path::new("card.yaml"));
    }

    #[test]
    fn numbers_without_bounds_do_no_harm() {
        let huge = "[training]\nlocal_batch_size = 9223372036854775807\n[parallelism]\n\
            data_parallel_shard_degree = 9223372036854775807\ntensor_parallel_degree = 0\n\
            pipeline_parallel_degree = -9223372036854775808\n";
        let c = card(huge, Some(8));
        assert_eq!(c.int(&["workload.data.batch_size"]), None);
        assert!(parse("a = 1").is_err() && parse("[training").is_err());
    }
}
