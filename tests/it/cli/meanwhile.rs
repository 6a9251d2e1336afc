//! What becomes of a trace while one process works and another changes something.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::cli::faults::left;
use crate::cli::own_tree::{change, tree};
use crate::cli::shown::ingested;
use crate::support::runs::step_of_rank;
use crate::support::{Place, Run, files, program};

/// Has a process wait, or go on.
fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    let sent = Command::new("kill").args(["-s", name, &pid]).status().expect("there is `kill`");
    assert!(sent.success(), "{name}");
}

/// Does something while an ingest reads a large file of a job, and waits for its end; what the
/// ingest said.
///
/// # Panics
/// Where the file was read to its end before anybody looked, many times.
#[cfg(target_os = "linux")]
fn while_it_is_read(place: &Place, mut ready: impl FnMut(), mut meanwhile: impl FnMut()) -> Run {
    let file = place.input().join("large/rank0.json");
    for _ in 0..20 {
        ready();
        let mut command = Command::new(program());
        command.args(["--data", "../data", "ingest", "large", "--force"]);
        command.current_dir(place.input()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program can be started");
        let open = PathBuf::from(format!("/proc/{}/fd", child.id()));
        let is_open = || {
            let all = std::fs::read_dir(&open).into_iter().flatten().flatten();
            all.filter_map(|fd| std::fs::read_link(fd.path()).ok()).any(|path| path == file)
        };
        let mut is_over = || child.try_wait().expect("it is our child").is_some();
        while !is_open() && !is_over() {
            std::thread::sleep(Duration::from_millis(1));
        }
        // The look at its beginning takes less.
        std::thread::sleep(Duration::from_millis(20));
        if is_over() {
            continue;
        }
        signal(&child, "STOP");
        let is_read = is_open();
        meanwhile();
        signal(&child, "CONT");
        let output = child.wait_with_output().expect("it ends");
        if is_read {
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            let code = output.status.code().unwrap_or(-1);
            return Run { code, stdout: String::new(), stderr };
        }
    }
    panic!("it was never seen to be read");
}

/// A large file: so many events of a rank.
#[cfg(target_os = "linux")]
fn large(events: usize) -> String {
    let event = r#"{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":1,"dur":2},"#;
    let all = event.repeat(events);
    let begin = r#"{"distributedInfo":{"rank":0,"world_size":1},"traceEvents":["#;
    format!("{begin}{}]}}", all.trim_end_matches(','))
}

/// Of a file that somebody still writes, what was read is not the whole.
#[cfg(target_os = "linux")]
#[test]
fn a_file_that_grows_while_it_is_read_is_an_error() {
    let place = Place::new();
    let whole = large(1_000_000);
    let file = place.input().join("large/rank0.json");
    let grows = || {
        let mut grown = std::fs::File::options().append(true).open(&file).expect("it is there");
        std::io::Write::write_all(&mut grown, b"\n").expect("it can be written");
    };
    let write = || _ = place.write("large/rank0.json", &*whole);
    // Where it was only looked at, what it is now is read.
    let mut all = std::iter::repeat_with(|| while_it_is_read(&place, write, grows)).take(10);
    let run = all.find(|run| run.code != 0).expect("it changed while it was read");
    assert_eq!((run.code, run.errors()), (1, vec!["file-changed"]), "{}", run.stderr);
    let sizes = format!("{} bytes before, {} after", whole.len(), whole.len() + 1);
    assert!(run.stderr.contains(&sizes), "{}", run.stderr);
    assert!(run.stderr.contains("--> large/rank0.json"), "{}", run.stderr);
    place.run(&["ingest", "large"]).done();
}

#[cfg(target_os = "linux")]
#[test]
fn a_trace_that_is_renamed_while_it_is_ingested_keeps_its_new_name() {
    let place = Place::new();
    let ready = || {
        place.write("large/rank0.json", large(3));
        std::fs::remove_dir_all(place.data()).unwrap_or_default();
        place.run(&["ingest", "large", "-q"]).done();
        place.write("large/rank0.json", large(1_000_000));
    };
    let rename = || _ = place.run(&["rename", "large", "other"]).done();
    let run = while_it_is_read(&place, ready, rename);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let rows = "SELECT trace, count(*) FROM host_events GROUP BY trace";
    assert_eq!(place.lines(rows), ["other 1000000"]);
}

#[test]
fn tables_that_are_derived_again_are_of_the_trace_that_is_there() {
    let place = ingested();
    let tree = tree(&place);
    let most = "SELECT count(*) FROM range(60000) a, range(60000) b WHERE a.range < b.range";
    change(&place, "derived/_comm_words.sql", |query| {
        format!("SELECT * FROM ({query}) WHERE ({most}) > 0")
    });
    let asked = ["metric", "straggler_lag", "--format", "csv", "--no-cache"];
    let answer = Command::new(program())
        .current_dir(place.input())
        .env("CCL_SQL_TREE", tree)
        .args(["--data", "../data"])
        .args(asked)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program can be started");
    let is_copied = || {
        let all = std::fs::read_dir(place.data()).expect("it is there").flatten();
        let work = all.filter(|e| e.file_name().to_string_lossy().starts_with(".tmp-"));
        work.map(|e| e.path().join("trace=job/manifest.json")).any(|copy| copy.exists())
    };
    let began = Instant::now();
    while !is_copied() {
        assert!(began.elapsed() < Duration::from_secs(60), "nothing is derived again");
        std::thread::sleep(Duration::from_millis(1));
    }
    // Meanwhile there is another trace of that name.
    signal(&answer, "STOP");
    place.write("job/rank1.json", step_of_rank(1, 2, 400, 1290));
    place.run(&["ingest", "job", "-q"]).done();
    signal(&answer, "CONT");
    let answer = answer.wait_with_output().expect("it ends");
    assert!(answer.status.success());
    let answer = String::from_utf8(answer.stdout).expect("it is UTF-8");
    assert_eq!(answer, place.run(&asked).done());
    assert!(answer.contains("90.0"), "{answer}");
    let left = files(&place.data());
    assert!(!left.iter().any(|file| file.to_string_lossy().contains("/.tmp-")), "{left:?}");
}

/// A run of two ranks, and one of three with other steps: each query must see one of them.
#[test]
fn a_trace_that_is_replaced_meanwhile_is_read_as_one_of_the_two() {
    let place = Place::new();
    let events = |ranks: u64, count: u64| {
        for rank in 0..3 {
            let file = place.input().join(format!("job/rank{rank}.json"));
            if rank >= ranks {
                let _ = std::fs::remove_file(file);
                continue;
            }
            let event = |n: u64| {
                let ts = 10 * n;
                format!(
                    r#"{{"ph":"X","cat":"kernel","name":"k{n}","pid":0,"tid":7,"ts":{ts},"dur":{count},"args":{{"device":0,"stream":7}}}},
                    {{"ph":"X","cat":"cpu_op","name":"aten::op{n}","pid":1,"tid":1,"ts":{ts},"dur":{count},"args":{{}}}}"#
                )
            };
            let all: Vec<String> = (0..count).map(event).collect();
            let text = format!(
                r#"{{"distributedInfo":{{"rank":{rank},"world_size":{ranks}}},"traceEvents":[{}]}}"#,
                all.join(",")
            );
            place.write(&format!("job/rank{rank}.json"), text);
        }
        place.run(&["ingest", "job", "--name", "job"]).done();
    };
    let sql = "SELECT (SELECT count(*) FROM host_events) AS hosts, count(*) AS devices, \
               sum(dur_ns) AS ns, count(DISTINCT rank) AS ranks FROM device_events";
    let asks: [&[&str]; 3] = [
        &["sql", sql, "--format", "csv"],
        &["metric", "total_kernel_time", "kernel", "--no-cache", "--format", "csv"],
        &["report", "--no-cache", "--format", "json"],
    ];
    let answers = || asks.map(|words| place.run(words).done());
    events(3, 7);
    let one = answers();
    events(2, 11);
    let two = answers();
    assert!(one.iter().zip(&two).all(|(one, two)| one != two));
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (i, words) in asks.iter().enumerate() {
            let (place, done, allowed) = (&place, &done, [&one[i], &two[i]]);
            scope.spawn(move || {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    let run = place.run(words);
                    assert_eq!(run.code, 0, "{words:?}: {}", run.stderr);
                    assert!(allowed.contains(&&run.stdout), "{words:?} mixed:\n{}", run.stdout);
                }
            });
        }
        for _ in 0..3 {
            events(3, 7);
            events(2, 11);
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert_eq!(left(&place.data()), Vec::<String>::new());
}
