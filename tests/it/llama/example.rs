//! The example jobs: their files are what the generator writes, and the program's answers are those
//! of the generator's plan, which knows nothing of the JSON.

use serde_json::Value;

use crate::llama::answers::Answer;
use crate::llama::jobs;
use crate::llama::plan::RANKS;
use crate::support::{Place, Tables, blessing, example};

#[test]
fn committed_files_are_what_the_generator_writes() {
    for job in jobs() {
        for (name, text) in job.files {
            let path = example(job.name).join(name);
            if blessing() {
                std::fs::create_dir_all(example(job.name)).expect("the folder can be made");
                std::fs::write(&path, text).expect("the file can be written");
            } else {
                let committed = std::fs::read_to_string(&path).expect("the file is committed");
                assert!(committed == text, "{} differs; CCL_SQL_BLESS=1 writes it", path.display());
            }
        }
    }
}

/// The plan's number, and what the program says; the plan rounds ratios to 12 decimals.
fn close(plan: &str, said: &Value) -> bool {
    let said = said.to_string();
    if plan == said {
        return true;
    }
    match (plan.parse::<f64>(), said.parse::<f64>()) {
        (Ok(plan), Ok(said)) => (plan - said).abs() <= 1e-9 * plan.abs(),
        _ => false,
    }
}

/// The answer of the program for a field of the plan: of the job, then of each rank. None where the
/// details do not break it down by rank.
fn said(result: &Value, tables: &Tables, answer: &Answer) -> (Value, Option<Vec<Value>>) {
    let details = &result["details"];
    let of_rank = |map: &Value| -> Option<Vec<Value>> {
        (0..RANKS).map(|r| map.get(r.to_string()).cloned()).collect()
    };
    let by_rank = |expression: &str| {
        let csv = tables.query(&format!(
            "SELECT rank, {expression} AS n FROM collectives AS c
             LEFT JOIN process_groups AS g ON g.trace = c.trace AND g.pg_id = c.pg_id
             GROUP BY rank ORDER BY rank"
        ));
        let number = |row: usize| csv.get(row, "n").and_then(|n| n.parse::<i64>().ok());
        (0..RANKS).map(|r| number(r).map(Value::from)).collect()
    };
    match (answer.metric, answer.field) {
        ("coll_call_num", "total_calls") => {
            (result["value"].clone(), of_rank(&details["calls_per_rank"]))
        }
        ("coll_call_num", field) => {
            let kind = field.strip_prefix("calls_by_type.").expect("the only other fields");
            let expression = format!("count(*) FILTER (WHERE c.collective = '{kind}')");
            (details["calls_by_type"][kind].clone(), by_rank(&expression))
        }
        ("traffic_distribution", field) => {
            let dim = field.strip_suffix("_bytes").expect("the only fields");
            let expression = format!(
                "CAST(sum(c.wire_bytes) FILTER (WHERE coalesce(g.dim, 'unknown') = '{dim}') AS BIGINT)"
            );
            (details[field].clone(), by_rank(&expression))
        }
        ("comm_comp_overlap", field) => {
            let list = details["per_rank"].as_array().cloned().unwrap_or_default();
            let per_rank: Option<Vec<Value>> = list.iter().map(|r| r.get(field).cloned()).collect();
            (details[field].clone(), per_rank.filter(|p| p.len() == RANKS))
        }
        ("straggler_lag", "last_rank_counts") => {
            (details["num_collectives"].clone(), of_rank(&details["last_rank_counts"]))
        }
        // The plan names the value after the metric here.
        (metric, field) if metric == field => {
            (result["value"].clone(), of_rank(&details["per_rank"]))
        }
        (_, field) => (details[field].clone(), of_rank(&details["per_rank"])),
    }
}

/// Numbers that were compared, and what differs.
fn compare(name: &str, answers: &[Answer]) -> (usize, Vec<String>) {
    let place = Place::new();
    let trace = example(name).to_string_lossy().into_owned();
    let args = ["metric", "--all", "--trace", &trace, "--format", "json"];
    let results: Value = serde_json::from_str(&place.run(&args).done()).expect("JSON");
    let results = results.as_array().expect("several metrics are a list");
    let tables = place.tables();
    let (mut compared, mut wrong) = (0, Vec::new());
    for answer in answers {
        // The plan also knows answers of metrics that are still to come.
        let Some(result) = results.iter().find(|r| r["metric"] == answer.metric) else { continue };
        let (of_job, of_ranks) = said(result, &tables, answer);
        let label = format!("{name}: {}.{} in {}", answer.metric, answer.field, answer.unit);
        compared += 1;
        if !close(&answer.job, &of_job) {
            wrong.push(format!("{label}: plan {}, program {of_job}", answer.job));
        }
        for (rank, plan) in answer.per_rank.iter().enumerate() {
            compared += 1;
            match &of_ranks {
                Some(said) if close(plan, &said[rank]) => {}
                Some(said) => {
                    wrong
                        .push(format!("{label}, rank {rank}: plan {plan}, program {}", said[rank]));
                }
                // The one field whose metric does not break it down.
                None if answer.field == "overlap_ratio_of_comp" => compared -= 1,
                None => wrong.push(format!("{label}: no numbers per rank")),
            }
        }
    }
    (compared, wrong)
}

#[test]
fn the_program_gives_the_answers_of_the_plan() {
    for job in jobs() {
        let (compared, wrong) = compare(job.name, &job.answers);
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(compared >= 80, "{}: only {compared} numbers were compared", job.name);
    }
}
