//! `ccl-sql diagnose`: its text, and its JSON.

use insta::assert_snapshot;
use serde_json::Value;

use crate::cli::shown::{ingested, rank_file, shown};
use crate::support::{Place, example};

#[test]
fn bounds_of_a_step_are_a_table() {
    let place = Place::of(&example("llama-tiny-fsdp2-tp2-4"));
    let run = place.run(&["diagnose", "--what-if"]);
    let text = shown(&run, &place);
    let (_, bounds) = text.split_once("WHAT IF").expect("they are asked for");
    assert_snapshot!(bounds, @"
    -------

      What a step would take at least; each line by itself.
        what if                    step at least  gain at most    of it  definition
        -------------------------  -------------  ------------  -------  ----------------------------
        links_twice_as_fast             3.097 ms      117.4 us   3.65 %  half of the exposed transfe…
        slowest_rank_like_others        2.931 ms      282.9 us   8.80 %  the most that a rank waits,…
        communication_hidden            2.747 ms      466.8 us   14.5 %  all exposed communication, …
        launches_free                   3.193 ms      21.18 us  0.659 %  idle time in which launches…
        without the first finding       3.019 ms      195.2 us   6.07 %  rank 2 computes 10.1 % long…
    ");
}

#[test]
fn bounds_have_a_heading_of_their_own() {
    let place = Place::of(&example("llama-tiny-fsdp2-tp2-4"));
    let text = place.run(&["diagnose", "--what-if", "--format", "md"]).done();
    let headings: Vec<&str> = text.lines().filter(|line| line.starts_with('#')).collect();
    assert_eq!(headings, ["# job", "## WHAT IF"]);
}

#[test]
fn several_traces_are_a_list() {
    let place = ingested();
    place.write("other/rank0.json", rank_file(0, 1, 0));
    place.run(&["ingest", "other"]).done();
    let json = |args: &[&str]| -> Value {
        let text = place.run(&[&["diagnose", "--format", "json"], args].concat()).done();
        serde_json::from_str(&text).expect("it is JSON")
    };
    let both = json(&["job", "other"]);
    let traces: Vec<_> = both.as_array().expect("a list").iter().map(|d| &d["trace"]).collect();
    assert_eq!(traces, ["job", "other"]);
    // Each is what it is alone.
    assert_eq!((&both[0], &both[1]), (&json(&["job"]), &json(&["other"])));
}

/// A rank of steps of 1 ms, each of so many kernels of the same length that have names of their
/// own; the last of a step ends some us early, and a copy takes its place.
fn steps_of(kernels: i64, copy_us: i64) -> String {
    let mut events = Vec::new();
    let mut event = |category: &str, name: &str, [ts, dur, tid, correlation]: [i64; 4]| {
        let pid = i64::from(category != "kernel" && category != "gpu_memcpy");
        events.push(format!(
            r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":{pid},"tid":{tid},"ts":{ts},"dur":{dur},"args":{{"device":0,"stream":7,"correlation":{correlation}}}}}"#
        ));
    };
    for step in 0..4 {
        let (begin, each) = (1000 * step, 1000 / kernels);
        event("user_annotation", &format!("ProfilerStep#{step}"), [begin, 1000, 1, 0]);
        for n in 0..=kernels {
            let (at, number) = (begin + each * n, 100 * step + n + 1);
            let launch = [begin - 500 + n, 1, 1, number];
            event("cuda_runtime", "cudaLaunchKernel", launch);
            if n < kernels {
                let early = if n + 1 == kernels { copy_us } else { 0 };
                event("kernel", &format!("kernel_{n}_of_its_own"), [at, each - early, 7, number]);
            } else if copy_us > 0 {
                let copy = [at - copy_us, copy_us, 7, number];
                event("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", copy);
            }
        }
    }
    let about = r#"{"rank":0,"world_size":1}"#;
    format!(r#"{{"distributedInfo":{about},"traceEvents":[{}]}}"#, events.join(","))
}

#[test]
fn the_first_line_counts_what_was_found() {
    let place = Place::new();
    let host = r#"{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":1,"dur":9}"#;
    for (name, text, said) in [
        ("none", steps_of(40, 0), "a step takes 1.000 ms; nothing was found that is wrong\n"),
        (
            "small",
            steps_of(40, 5),
            "a step takes 1.000 ms; nothing was found that gains 1 % of it\n",
        ),
        ("one", steps_of(1, 0), "a step takes 1.000 ms; one thing was found that is wrong\n"),
        (
            "several",
            steps_of(1, 200),
            "a step takes 1.000 ms; 2 things were found that are wrong, ",
        ),
        (
            "host",
            format!(r#"{{"traceEvents":[{host}]}}"#),
            "where the time goes is not known: no rank with steps has a device\n",
        ),
    ] {
        place.write(&format!("{name}/rank0.json"), text);
        place.run(&["ingest", name, "-q"]).done();
        let told = place.run(&["diagnose", name, "--what-if"]).done();
        assert!(told.contains(said), "{name}: {told}");
        if ["none", "host"].contains(&name) {
            let words: Vec<&str> = told.split_whitespace().collect();
            let reason = "WHAT IF ------- nothing of a step is communication or idle time that \
                          launches cause; or no rank with steps has a device";
            assert!(words.join(" ").contains(reason), "{name}: {told}");
        }
    }
}
