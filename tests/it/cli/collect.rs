//! `trace_collection/collect/sweep.sh` as a user runs it, over a command that copies an example's
//! traces in place of a training: the folders it makes, what the tables then say of the settings,
//! and what it does about runs that fail and values that look like code.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Csv, Place, Run, example, examples, files, folders, name};

/// A job: the two ranks of the example `gloo-ddp-2rank`, where the profiler of PyTorch would write
/// them. `$0` is the folder of the example.
const JOB: &str = r#"for rank in 0 1; do
    mkdir -p "$SWEEP_DIR/torch_profiler/rank$rank"
    cp "$0/kineto_trace_$rank.json" "$SWEEP_DIR/torch_profiler/rank$rank/trace.json"
done"#;

/// The three configurations where none are given.
const DEFAULT: [&str; 3] = ["32cu_512threads", "37cu_384threads", "56cu_256threads"];

/// The traces that the command copies.
fn traces() -> String {
    example("gloo-ddp-2rank").to_string_lossy().into_owned()
}

/// The script, in the folder of a place.
fn command(place: &Place, args: &[&str]) -> Command {
    let mut command = Command::new("bash");
    command.arg(examples().join("collect/sweep.sh"));
    command.args(args).current_dir(place.input()).stdin(Stdio::null());
    command
}

fn sweep(place: &Place, args: &[&str]) -> Run {
    let output = command(place, args).output().expect("bash can be started");
    Run {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).expect("a path is UTF-8"),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// The folder of the sweep, which is all that stdout says.
fn made(run: &Run) -> PathBuf {
    let path = run.stdout.strip_suffix('\n').unwrap_or_else(|| panic!("no folder: {}", run.stderr));
    assert!(Path::new(path).is_dir(), "{path}\n{}", run.stderr);
    path.into()
}

/// Names of the folders of the runs.
fn runs(folder: &Path) -> Vec<String> {
    folders(folder).iter().map(|path| name(path)).collect()
}

/// Cards of the runs of an ingested sweep, by trace.
fn cards(place: &Place, folder: &Path) -> Vec<(String, Value)> {
    place.run(&["ingest", &folder.to_string_lossy()]).done();
    let csv = place.query("SELECT trace, card FROM cards ORDER BY trace");
    let field = |row: usize, column: &str| csv.get(row, column).expect("not NULL").to_owned();
    (0..csv.rows.len())
        .map(|row| {
            let card = serde_json::from_str(&field(row, "card")).expect("a card is JSON");
            (field(row, "trace"), card)
        })
        .collect()
}

/// The settings in a card.
fn settings(card: &Value) -> &Value {
    &card["Model-executor"]["communication_library"]["env"]
}

#[test]
fn each_configuration_is_a_trace_that_knows_its_settings() {
    let place = Place::new();
    let run = sweep(&place, &["--", "sh", "-c", JOB, &traces()]);
    let folder = made(&run);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let (sweep_name, above) = (name(&folder), folder.parent().map(name));
    assert_eq!(above.as_deref(), Some("experiments"));
    let stamp = sweep_name.strip_prefix("rccl_warp_speed_").unwrap_or_default();
    assert!(stamp.len() == 15 && stamp.as_bytes()[8] == b'_', "{sweep_name}");
    assert_eq!(runs(&folder), DEFAULT);

    let cards = cards(&place, &folder);
    let named = DEFAULT.map(|run| format!("{sweep_name}.{run}"));
    assert_eq!(cards.iter().map(|(trace, _)| trace).collect::<Vec<_>>(), named.each_ref());
    for ((_, card), (cu, threads)) in
        cards.iter().zip([("32", "512"), ("37", "384"), ("56", "256")])
    {
        let expected = json!({
            "RCCL_WARP_SPEED_ENABLE": "1",
            "RCCL_UNROLL_FACTOR": "1",
            "RCCL_WARP_SPEED_CU_COUNT": cu,
            "RCCL_THREADS_PER_BLOCK": threads,
        });
        assert_eq!(settings(card), &expected);
        assert_eq!(card["collection_notes"]["sweep"], sweep_name.as_str());
    }
    let csv = place.query(
        "SELECT trace, comm_library, count(DISTINCT s.rank) AS ranks, count(*) AS steps
         FROM cards AS c INNER JOIN steps AS s USING (trace) GROUP BY ALL ORDER BY trace",
    );
    for (row, trace) in named.iter().enumerate() {
        let said = ["trace", "comm_library", "ranks", "steps"].map(|column| csv.get(row, column));
        assert_eq!(said, [Some(trace.as_str()), Some("RCCL"), Some("2"), Some("6")]);
    }
    // What it says to run next works: three runs, so workbooks for each test.
    let next =
        run.stderr.lines().find(|line| line.starts_with("ccl-sql compare ")).expect("a command");
    let words: Vec<&str> = next.split(' ').skip(1).collect();
    assert_eq!((words.len(), words[4..].to_vec()), (6, vec!["-o", "comparison/"]), "{next}");
    place.run(&words).done();
    assert_eq!(folders(&place.input().join("comparison")).len(), 2, "{next}");
}

#[test]
fn a_run_that_fails_keeps_its_log_and_the_others_run() {
    let place = Place::new();
    let job = format!(
        r#"{JOB}; test "$RCCL_WARP_SPEED_CU_COUNT" != 37 || {{ echo out of CUs; exit 7; }}"#
    );
    let run =
        sweep(&place, &["-p", "56,256 37,384", "-p", "32,512", "--", "sh", "-c", &job, &traces()]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("\n37cu_384threads: failed: exit code 7\n"), "{}", run.stderr);
    let folder = made(&run);
    assert_eq!(runs(&folder), DEFAULT);
    let log =
        |run: &str| std::fs::read_to_string(folder.join(run).join("sweep.log")).expect("a log");
    assert!(log("37cu_384threads").ends_with("\nout of CUs\n"));
    assert!(log("37cu_384threads").contains("RCCL_WARP_SPEED_CU_COUNT=37"));
    // The card is the last thing a run gets, so one that failed has none, nor a part of one.
    let yaml: Vec<PathBuf> =
        files(&folder).into_iter().filter(|path| name(path).contains("card")).collect();
    let with = |run: &str| folder.join(run).join("workload_card.yaml");
    assert_eq!(yaml, [with("32cu_512threads"), with("56cu_256threads")]);

    let run = sweep(&place, &["--stop", "--", "sh", "-c", &job, &traces()]);
    assert_eq!(run.code, 1);
    assert_eq!(runs(&made(&run)), ["37cu_384threads", "56cu_256threads"]);
    assert!(run.stderr.contains("\nnot run: 32cu_512threads\n"), "{}", run.stderr);
}

#[test]
fn a_run_that_writes_nothing_or_takes_too_long_has_failed() {
    let place = Place::new();
    let run = sweep(&place, &["-p", "1,64", "--", "true"]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("\n1cu_64threads: failed: it wrote no file"), "{}", run.stderr);
    let began = Instant::now();
    // The second `sleep` would outlive a script that ended the first alone, and hold its stderr
    // open.
    let slow = r#"touch "$SWEEP_DIR/x"; sleep 60 & sleep 60"#;
    let run = sweep(&place, &["-t", "1", "-p", "1,64", "--", "sh", "-c", slow]);
    assert!(began.elapsed() < Duration::from_secs(30));
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("\n1cu_64threads: failed: not done after 1 s\n"), "{}", run.stderr);
    assert!(!made(&run).join("1cu_64threads/workload_card.yaml").exists());
}

#[test]
fn values_are_text_whatever_they_look_like() {
    let place = Place::new();
    let hostile = "a b  \"c\" 'd' $(touch PWNED) `touch PWNED` ${HOME} # : {x} [y], *z &w !t %p @ \u{e9} \
                   \u{65e5}\t\n--- \n...\nkey: value\n  - x\r\u{7f}\u{1}\u{85}\u{2028}\u{feff}\u{1f600} ~ \\n \\";
    let job = format!(r#"{JOB}; printf %s "$NCCL_A" >"$SWEEP_DIR/seen.txt""#);
    let args = [
        "-v",
        "NCCL_A,NO",
        "-d",
        "|",
        "--one",
        &format!("{hostile}|"),
        "--one",
        "../../x|null",
        "-e",
        &format!("NCCL_B={hostile}"),
        "-n",
        "hostile",
        "-o",
        "out $(touch PWNED)",
    ];
    let run = sweep(&place, &[&args[..], &["--", "sh", "-c", &job, &traces()]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    let folder = made(&run);
    assert_eq!(folder.parent().map(name).as_deref(), Some("out $(touch PWNED)"));
    let names = runs(&folder);
    assert_eq!(names.len(), 2);
    for run in &names {
        assert!(run.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b)), "{run}");
        assert!(run.len() < 130, "{run}");
    }
    assert_eq!(names[0], "a-.._.._x_no-null");
    let seen = std::fs::read_to_string(folder.join(&names[1]).join("seen.txt")).expect("text");
    assert_eq!(seen, hostile);
    let cards = cards(&place, &folder);
    assert_eq!(settings(&cards[1].1), &json!({"NCCL_B": hostile, "NCCL_A": hostile, "NO": ""}));
    assert_eq!(
        settings(&cards[0].1),
        &json!({"NCCL_B": hostile, "NCCL_A": "../../x", "NO": "null"})
    );
    let strange: Vec<PathBuf> =
        files(&place.input()).into_iter().filter(|path| name(path) == "PWNED").collect();
    assert_eq!(strange, Vec::<PathBuf>::new());
}

#[test]
fn a_card_of_the_user_is_kept_around_the_settings() {
    let place = Place::new();
    let before = "version: 1\nworkload:\n  data: {batch_size: 16, seq_len: 2048}\nModel-executor:\n  \
                  framework:\n    env:\n      FOO: 1\n  communication_library:  # of the cluster\n    \
                  name: NCCL\n    env:\n      NCCL_DEBUG: WARN\n";
    let after = "      NCCL_IB_HCA: mlx5\n    version: 2.27\nmetric_source: {traces: [json]}\n";
    place.write("card.yaml", format!("{before}      # sweep\n{after}"));
    let args =
        ["-c", "card.yaml", "-v", "NCCL_ALGO", "-p", "Ring", "--", "sh", "-c", JOB, &traces()];
    let run = sweep(&place, &args);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let folder = made(&run);
    let card =
        std::fs::read_to_string(folder.join("algo-Ring/workload_card.yaml")).expect("a card");
    assert_eq!(card, format!("{before}      \"NCCL_ALGO\": \"Ring\"\n{after}"));
    let expected = json!({"NCCL_DEBUG": "WARN", "NCCL_ALGO": "Ring", "NCCL_IB_HCA": "mlx5"});
    assert_eq!(settings(&cards(&place, &folder)[0].1), &expected);
    let csv = place.query("SELECT batch_size, seq_len, comm_library FROM cards");
    assert_eq!(csv.get(0, "batch_size"), Some("16"));
    assert_eq!(csv.get(0, "comm_library"), Some("NCCL"));

    // What cannot be seen to be right is refused before anything runs.
    for (what, card) in [
        ("no line `# sweep`", before.to_owned()),
        ("two lines", format!("{before}      # sweep\n      # sweep\n")),
        ("sets NCCL_ALGO itself", format!("{before}      # sweep\n      'NCCL_ALGO' : Tree\n")),
        ("does not stand below", format!("{before}    # sweep\n")),
        ("does not stand below", "Model-executor:\n  framework:\n    env:\n      # sweep\n".into()),
        ("further in or out", format!("{before}      # sweep\n       A: 1\n")),
    ] {
        place.write("card.yaml", card);
        let run = sweep(&place, &args);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{what}: {}", run.stderr);
        assert!(run.stderr.contains(what), "{what}: {}", run.stderr);
    }
    assert_eq!(folders(&place.input().join("experiments")).len(), 1);
}

/// The guide to recording.
fn guide() -> String {
    let path = examples().join("README.md");
    std::fs::read_to_string(path).expect("the guide is there")
}

/// The text between two marks.
fn section<'t>(text: &'t str, from: &str, to: &str) -> &'t str {
    let rest = text.split_once(from).unwrap_or_else(|| panic!("no {from:?}")).1;
    rest.split_once(to).unwrap_or_else(|| panic!("no {to:?}")).0
}

#[test]
fn the_card_of_the_guide_can_be_swept_with() {
    let place = Place::new();
    place.write("card.yaml", section(&guide(), "```yaml\n", "```"));
    let run = sweep(&place, &["-c", "card.yaml", "-p", "56,256", "--", "sh", "-c", JOB, &traces()]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let cards = cards(&place, &made(&run));
    assert_eq!(settings(&cards[0].1)["RCCL_WARP_SPEED_CU_COUNT"], "56");
    let csv = place.query("SELECT * FROM cards");
    let known = [
        "batch_size",
        "num_params",
        "num_layers",
        "head_dim",
        "scale_up_gbit_per_s",
        "xpu_model",
        "pp_mb",
    ];
    for column in known {
        assert!(csv.get(0, column).is_some(), "{column} is not understood");
    }
}

#[test]
fn the_guide_says_of_each_metric_once_what_it_needs() {
    let place = Place::new();
    let list = place.run(&["list", "metrics", "--format", "csv"]).done();
    let mut metrics = Csv::parse(&list)
        .rows
        .iter()
        .map(|row| row[0].clone().expect("a metric has a name"))
        .collect::<Vec<_>>();
    metrics.sort();
    let guide = guide();
    let table = section(&guide, "## What each metric needs\n", "\n## ");
    let mut said: Vec<String> = table
        .lines()
        .filter(|line| line.starts_with("| "))
        .filter_map(|line| line.rsplit(" | ").next())
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .filter(|name| !["pp", "pp_mb"].contains(name))
        .map(str::to_owned)
        .collect();
    said.sort();
    assert_eq!(said, metrics, "trace_collection/README.md, \"What each metric needs\"");
}

#[test]
fn nothing_is_overwritten() {
    let place = Place::new();
    let job = format!(r#"{JOB}; echo mine >"$SWEEP_DIR/workload_card.yaml""#);
    // Equal names, and sweeps that begin in one second.
    let args =
        ["-v", "NCCL_ALGO", "-p", "a/b a:b a/b A:B", "-n", "x", "--", "sh", "-c", &job, &traces()];
    let sweeps: Vec<PathBuf> = (0..2).map(|_| made(&sweep(&place, &args))).collect();
    assert_ne!(sweeps[0], sweeps[1]);
    for folder in sweeps {
        assert_eq!(runs(&folder), ["algo-A_B_4", "algo-a_b", "algo-a_b_2", "algo-a_b_3"]);
        let text = |file: &str| std::fs::read_to_string(folder.join(file)).expect("a card");
        assert_eq!(text("algo-a_b/workload_card.yaml"), "mine\n");
        assert!(text("algo-a_b_2/workload_card.sweep.yaml").contains("\"NCCL_ALGO\": \"a:b\"\n"));
    }
}

#[test]
fn a_dry_run_says_what_would_run_and_makes_nothing() {
    let place = Place::new();
    let args =
        ["--dry-run", "-o", "/o", "-I", "{}", "--pairs=56,256", "--", "sh", "-c", "a b", "{}/x"];
    let run = sweep(&place, &args);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let (before, after) =
        run.stdout.split_once("/56cu_256threads ").expect("the folder of the run");
    let folder = before.strip_prefix("env SWEEP_DIR=").expect("the environment first");
    let expected = format!(
        "RCCL_WARP_SPEED_ENABLE=1 RCCL_UNROLL_FACTOR=1 RCCL_WARP_SPEED_CU_COUNT=56 \
         RCCL_THREADS_PER_BLOCK=256 sh -c a\\ b {folder}/56cu_256threads/x\n"
    );
    assert_eq!(after, expected);
    assert_eq!(files(&place.input()), Vec::<PathBuf>::new());
}

#[test]
fn a_wrong_command_line_runs_nothing() {
    let place = Place::new();
    for (what, args) in [
        ("no COMMAND", &["-p", "1,64"][..]),
        ("no such command", &["--", "no-such-command"]),
        ("give A by -e", &["--", "A=1", "true"]),
        ("1 value(s) for 2 variable(s)", &["-p", "56", "--", "true"]),
        ("3 value(s) for 2 variable(s)", &["-p", "56,256,1", "--", "true"]),
        ("no count", &["-p", "56,many", "--", "true"]),
        ("no configuration", &["-p", " ", "--", "true"]),
        ("-v needs configurations", &["-v", "A", "--", "true"]),
        ("no name of a variable", &["-v", "A B", "-p", "1", "--", "true"]),
        ("A is given twice", &["-v", "A", "-p", "1", "-e", "A=2", "--", "true"]),
        ("no KEY=VALUE", &["-e", "A", "--", "true"]),
        ("SWEEP_DIR is where", &["-e", "SWEEP_DIR=/", "--", "true"]),
        ("a name is of letters", &["-n", "../x", "--", "true"]),
        ("no number of seconds", &["-t", "soon", "--", "true"]),
        ("unknown option", &["--frob", "--", "true"]),
        ("-o needs a value", &["-o"]),
    ] {
        let run = sweep(&place, args);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{what}: {}", run.stderr);
        assert!(run.stderr.contains(what), "{what}: {}", run.stderr);
    }
    assert_eq!(folders(&place.input()), Vec::<PathBuf>::new());
    let help = sweep(&place, &["-h"]);
    assert!(help.code == 0 && help.stdout.starts_with("Usage: sweep.sh"), "{}", help.stderr);
}

#[test]
fn a_sweep_that_is_stopped_ends_its_run_and_writes_no_card() {
    let place = Place::new();
    let job = r#"touch "$SWEEP_DIR/x"; sleep 60; touch "$SWEEP_DIR/late""#;
    let mut child = command(&place, &["-n", "stop", "--", "sh", "-c", job])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("bash can be started");
    let began = Instant::now();
    while !files(&place.input()).iter().any(|path| name(path) == "x") {
        assert!(began.elapsed() < Duration::from_secs(30), "the run never began");
        std::thread::sleep(Duration::from_millis(20));
    }
    let kill = Command::new("sh").args(["-c", &format!("kill -TERM {}", child.id())]).status();
    assert!(kill.expect("sh can be started").success());
    assert_eq!(child.wait().expect("the script ends").code(), Some(143));
    assert!(began.elapsed() < Duration::from_secs(30));
    let mut left: Vec<String> = files(&place.input()).iter().map(|path| name(path)).collect();
    left.sort();
    assert_eq!(left, ["sweep.log", "x"]);
}

/// `verify_library.sh` over made files: nothing of them is run.
#[test]
fn the_library_that_would_be_loaded_is_told_before_a_run() {
    let place = Place::new();
    place.write("rccl/lib/librccl.so.1", b"\x7fELF\0RCCL version 2.27.7+hip7.0\0");
    place.write("other/libnccl.so.2", b"\x7fELF\0NCCL version 2.21.5+cuda12.4\0");
    place.write("bare/libnccl.so", b"\x7fELF\0");
    let check = |path: &str, args: &[&str]| {
        let mut command = Command::new("bash");
        command.arg(examples().join("collect/verify_library.sh")).args(args);
        command.current_dir(place.input()).env("LD_LIBRARY_PATH", path).env_remove("LD_PRELOAD");
        let output = command.output().expect("bash can be started");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), text.lines().map(|l| l[..8].trim().to_owned()).collect::<Vec<_>>())
    };
    let said = |code: i32, lines: &[&str]| {
        (Some(code), lines.iter().map(|l| (*l).to_owned()).collect::<Vec<_>>())
    };
    assert_eq!(check("rccl/lib:other", &["rccl/lib", "2.27"]), said(0, &["ok", "ok", "ok"]));
    assert_eq!(check("other:rccl/lib", &["rccl/lib"]), said(1, &["ok", "FAILED", "ok"]));
    assert_eq!(check("", &["rccl/lib", "2.2"]), said(1, &["ok", "FAILED", "FAILED"]));
    assert_eq!(check("bare", &["bare"]), said(0, &["ok", "ok", "ok"]));
    assert_eq!(check("bare", &["bare", "2.21"]), said(1, &["ok", "ok", "FAILED"]));
    let branch = ["-b", "no-such-branch", ".", "other", "2.21.5"];
    assert_eq!(check("other", &branch), said(1, &["ok", "ok", "ok", "FAILED"]));
    assert_eq!(check("", &["nowhere"]), said(1, &["FAILED"]));
    assert_eq!(check("", &[]).0, Some(2));
}
