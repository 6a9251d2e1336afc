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
