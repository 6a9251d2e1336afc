//! Metrics and views of a user (`--sql-dir`): what they add, and what they cannot do.

use insta::assert_snapshot;

use crate::cli::own_tree::{of_tree, tree};
use crate::cli::shown::{ingested, shown};
use crate::support::{Place, Run, command, files, folders, name, project, run};

/// A metric of the user's own, whose one number is an SQL expression.
pub fn own_metric(place: &Place, name: &str, expression: &str) {
    let text = format!(
        "-- @metric   {name}\n-- @version  1\n-- @area     own\n-- @summary  A metric of a user.\n\
         -- @grain    trace\n-- @requires ranks\n-- @value    number\n\
         -- @column   trace VARCHAR dim - | The ingested trace.\n\
         -- @column   number BIGINT value count | A number.\n\
         -- @source   a test\n\
         SELECT trace, CAST({expression} AS BIGINT) AS number\nFROM ranks\nGROUP BY trace\n\
         ORDER BY trace\n"
    );
    place.write(&format!("own/{name}.v1.sql"), text);
}

/// A file of the user's own: the header of `own_metric`, then this text in place of its query.
fn own_text(place: &Place, name: &str, query: &str) {
    own_metric(place, name, "1");
    let path = place.input().join(format!("own/{name}.v1.sql"));
    let text = std::fs::read_to_string(&path).expect("just written");
    let (header, _) = text.split_once("SELECT").expect("it has a query");
    std::fs::write(&path, format!("{header}{query}\n")).expect("it can be written");
}

#[test]
fn a_folder_of_sql_adds_metrics() {
    let place = ingested();
    own_metric(&place, "ranks_here", "count(*)");
    let run = place.run(&["metric", "ranks_here", "--sql-dir", "own", "--format", "csv"]);
    assert_snapshot!(shown(&run, &place), @r"
    exit code 0
    --- stdout
    trace,number
    job,2
    ");
    let run = place.run(&["metric", "ranks_here"]);
    assert_eq!((run.code, run.errors()), (1, vec!["metric-unknown"]), "only with --sql-dir");
    place.write("own/wrong.v1.sql", "-- @metric wrong\nSELECT 1\n");
    let run = place.run(&["metric", "ranks_here", "--sql-dir", "own"]);
    assert_eq!((run.code, run.errors()), (1, vec!["metric-header"]), "{}", run.stderr);
}

#[test]
fn check_does_not_pass_over_a_file_of_the_project() {
    let place = Place::new();
    place.write("Cargo.toml", "name = \"ccl-sql\"\n");
    place.write("sql/metrics/speed/mine.v1.sql", "-- @metric mine\nSELECT 1\n");
    for args in [&["check"][..], &["check", "--write"]] {
        let run = place.run(args);
        assert_eq!((run.code, run.errors()), (1, vec!["check-failed"]), "{}", run.stderr);
        assert!(run.stderr.contains("CCL_SQL_TREE=sql"), "{}", run.stderr);
        assert!(!place.input().join("sql/metrics.lock").exists(), "nothing is written");
    }
}

/// The SQL of the project keeps to the rules, and the files that are made of it are those of now.
/// What is generated of the project's own files is none of the user's.
#[test]
fn check_of_a_users_files_looks_at_these() {
    let place = Place::new();
    own_metric(&place, "mine", "1");
    let own = place.input().join("own").display().to_string();
    let found = run(project(), &["check", "--sql-dir", &own]);
    assert!(!found.stderr.contains("check --write"), "{}", found.stderr);
    assert!(found.stderr.contains("own/mine.v1.sql") || found.code == 0, "{}", found.stderr);
}

#[test]
fn check_finds_nothing_wrong_in_the_project() {
    let found = run(project(), &["check"]);
    assert_eq!((found.code, found.errors()), (0, vec![]), "{}", found.stderr);
}

/// Files of a user, each changed in one place, and what is said of it.
#[test]
fn check_says_what_is_wrong_with_a_file() {
    let place = Place::new();
    let column = "BIGINT value count | A number.";
    let select = "SELECT trace, CAST(count(*) AS BIGINT) AS rank_count\nFROM ranks\nGROUP BY trace\n\
                  ORDER BY trace\n";
    let made = "WITH t AS (SELECT trace, count(*) AS rank_count FROM ranks GROUP BY trace)";
    let first = "WITH t AS (SELECT trace, count(*) AS rank_count FROM ranks GROUP BY trace \
                 ORDER BY ALL LIMIT 1)";
    let all = "SELECT trace, rank_count FROM t\n";
    let cases = [
        ("ORDER BY", "ORDERED BY", "the file is not one SELECT: "),
        ("ORDER BY trace\n", "ORDER BY trace; SELECT 1\n", "holds more than one statement"),
        ("count(*)", "count(nothing)", "the query does not run on empty tables: "),
        ("@metric   ", "@metric   un", "the file should be called un"),
        ("@requires ranks", "@requires traces", "the query reads `ranks`, which the header does"),
        ("@requires ranks", "@requires ranks steps", "the header lists `steps`, which the query"),
        ("@requires ranks", "@requires ranks _calls", "`_calls` is no table or view that this"),
        (
            "-- @column   trace",
            "-- @param    x BIGINT 1 | X.\n-- @column   trace",
            "parameter `x` is not used",
        ),
        ("count(*)", "$x", "`$x` has no @param"),
        (
            column,
            "BIGINT value count | A number.\n-- @column   b_count BIGINT value count | B.",
            "header and query disagree: 3 columns in the header, 2 in the query",
        ),
        (
            column,
            "DOUBLE value count | A number.",
            "disagree on column 2: header `rank_count DOUBLE`, query `rank_count BIGINT`",
        ),
        (column, "BIGINT value parsecs | A number.", "has the unknown unit `parsecs`"),
        (column, "BIGINT value us | A number.", "has the unit `us`, which its name does not say"),
        ("@grain    trace", "@grain    trace rank", "the grain of a metric is one row per trace"),
        (
            column,
            "BIGINT value count | A number.\n-- @warn     rank_count > 3 | {rank_count} of {none}",
            "the message of @warn names `none`, which is no column",
        ),
        (
            "-- @column   trace",
            "-- @param    x DATE NULL | X.\n-- @column   trace",
            "parameter `x` has the type DATE",
        ),
        (select, &format!("{made} {all}"), "the closing SELECT only repeats the columns of `t`"),
        // These are right: what is cut off has an order of its own.
        (select, select, ""),
        (select, &format!("{made} {all} WHERE rank_count > 0"), ""),
        (select, &format!("{first} {all}"), ""),
    ];
    for (at, (from, to, _)) in cases.iter().enumerate() {
        let name = format!("odd_{at}");
        own_metric(&place, &name, "count(*)");
        let file = place.input().join(format!("own/{name}.v1.sql"));
        let text = std::fs::read_to_string(&file).expect("just written");
        let text = text.replace(" number", " rank_count").replace("A rank_count.", "A number.");
        assert!(text.contains(from), "{from}");
        std::fs::write(&file, text.replacen(from, to, 1)).expect("it can be written");
    }
    let run = place.run(&["check", "--sql-dir", "own"]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    let said_of = |file: &str| -> Vec<&str> {
        let of = format!("--> own/{file}");
        let faults = run.stderr.split("error[check-failed]: ");
        faults.filter(|fault| fault.contains(&of)).collect()
    };
    for (at, (_, to, said)) in cases.iter().enumerate() {
        let faults = said_of(&format!("odd_{at}.v1.sql"));
        let is_said = faults.iter().any(|fault| fault.contains(said));
        assert_eq!(is_said, !said.is_empty(), "{to}: {faults:?} in {}", run.stderr);
    }
}

/// A view that cannot be made is told by itself: what reads it fails for no reason of its own.
#[test]
fn check_says_which_view_is_wrong() {
    let place = Place::new();
    let view = |name: &str, query: &str| {
        let text = format!("-- @view {name}\n-- @summary Own.\n{query}\n");
        place.write(&format!("own/{name}.sql"), text);
    };
    let check = || place.run(&["check", "--sql-dir", "own"]);
    let said = |wanted: &[(&str, &str)]| {
        let run = check();
        assert_eq!(run.errors(), vec!["check-failed"; wanted.len()], "{}", run.stderr);
        for (fault, (message, file)) in run.stderr.split("error[").skip(1).zip(wanted) {
            assert!(fault.contains(message) && fault.contains(file), "{fault}");
        }
    };
    own_metric(&place, "odd", "(SELECT count(*) FROM _reader)");
    view("_reader", "SELECT r.rank FROM ranks AS r CROSS JOIN _below");
    view("_below", "SELECT $least AS least");
    said(&[("only metrics, diagnoses and comparisons take parameters", "own/_below.sql")]);
    view("_below", "SELECT nothing FROM ranks");
    said(&[("the query does not run on empty tables: ", "own/_below.sql")]);
    view("_below", "SELECT rank FROM _reader");
    let message = "the query does not run on empty tables: ";
    said(&[(message, "own/_below.sql"), (message, "own/_reader.sql")]);
    view("_below", "SELECT 1 AS least");
    let unlisted = "which the header does not list";
    said(&[
        (unlisted, "own/odd.v1.sql"),
        ("which its name does not say", "own/odd.v1.sql"),
        (unlisted, "own/_reader.sql"),
        (unlisted, "own/_reader.sql"),
    ]);
    std::fs::remove_file(place.input().join("own/odd.v1.sql")).expect("it is there");
    std::fs::remove_file(place.input().join("own/_reader.sql")).expect("it is there");
    let run = check();
    assert_eq!((run.code, &*run.stderr), (0, "1 SQL file is right\n"));
}

/// The columns of a finding.
pub const FINDING: &str = "trace, 'found' AS finding, {rank: min(rank)} AS \"where\",
    CAST(NULL AS DOUBLE) AS time_per_step_ms, CAST(1 AS DOUBLE) AS gain_ms,
    CAST([] AS VARCHAR[]) AS limits, 'do' AS advice, 'SELECT 1' AS evidence";

/// A diagnosis of the user's own, of these columns.
pub fn own_diagnosis(place: &Place, name: &str, columns: &str, shown: &str) {
    let text = format!(
        "-- @diagnosis {name}\n-- @version  1\n-- @summary  A diagnosis of a user.\n\
         -- @profilers kineto nsys xla\n-- @requires ranks\n-- @gain     a millisecond\n\
         -- @shown    {shown}\n-- @source   a test\n\
         SELECT {columns}\nFROM ranks\nGROUP BY trace\nORDER BY trace\n"
    );
    place.write(&format!("own/{name}.v1.sql"), text);
}

#[test]
fn a_metric_of_a_table_that_is_not_there_says_what_is() {
    let place = ingested();
    own_text(&place, "far", "SELECT count(*) AS number FROM zqzqzqzq");
    own_text(&place, "near", "SELECT count(*) AS number FROM collectivs");
    for (name, hint) in
        [("far", "`ccl-sql list tables` shows"), ("near", "did you mean `collectives`")]
    {
        let run = place.run(&["metric", name, "--sql-dir", "own"]);
        assert_eq!((run.code, run.errors()), (1, vec!["sql"]), "{}", run.stderr);
        assert!(run.stderr.contains("and there is no such table or view"), "{}", run.stderr);
        assert!(run.stderr.contains(hint), "{}", run.stderr);
    }
}

#[test]
fn an_area_of_ones_own_is_a_heading() {
    let place = ingested();
    own_metric(&place, "mine", "1");
    let listed = place.run(&["list", "metrics", "--sql-dir", "own"]).done();
    let (_, of_own) = listed.split_once("\nown\n").expect("a heading");
    assert!(of_own.trim_start().starts_with("mine "), "{of_own}");
}

/// Fields of one name, in two structs of a list, are told apart.
#[test]
fn a_card_names_a_field_by_what_it_is_in() {
    let place = ingested();
    own_metric(&place, "mine", "1");
    let path = place.input().join("own/mine.v1.sql");
    let text = std::fs::read_to_string(&path).expect("just written");
    let lists = "-- @column   lists LIST value - | Lists.\n-- @source";
    let text = text.replace("-- @source", lists).replace(
        " AS number\n",
        " AS number,\n    [{'one': {'a': 1, 'b': 2}, 'two': {'a': 3}}] AS lists\n",
    );
    std::fs::write(&path, text).expect("it can be written");
    let card = place.run(&["metric", "mine", "--sql-dir", "own"]).done();
    let (_, lists) = card.split_once("\nlists\n").expect("the list");
    let heading: Vec<&str> = lists.lines().next().unwrap_or_default().split_whitespace().collect();
    assert_eq!(heading, ["one.a", "b", "two.a"], "{card}");
}

#[test]
fn a_parameter_is_a_number_that_there_is() {
    let place = ingested();
    // One that is what it is without it is no slip.
    let run = place.run(&["metric", "straggler", "-p", "slowdown_pct=10"]);
    assert!(run.code == 0 && !run.stderr.contains("changes nothing"), "{}", run.stderr);
    for text in ["much", "inf", "nan", "1e999", ""] {
        let given = format!("long_factor={text}");
        let run = place.run(&["metric", "hang_suspects", "-p", &given]);
        assert_eq!((run.code, run.errors()), (1, vec!["param-invalid"]), "{}", run.stderr);
        assert!(run.stderr.contains("which is no DOUBLE"), "{}", run.stderr);
        assert!(run.stderr.contains("hint: write a number"), "{}", run.stderr);
    }
}

/// A metric has one row of a trace, and a finding has its texts.
#[test]
fn answers_of_another_shape_are_refused() {
    let place = ingested();
    let number = "SELECT trace, CAST(rank AS BIGINT) AS number FROM ranks ORDER BY trace";
    own_text(&place, "of_each_rank", number);
    let run = place.run(&["metric", "of_each_rank", "--sql-dir", "own"]);
    assert_snapshot!(shown(&run, &place), @r"
    exit code 1
    --- stderr
    error[check-failed]: the metric gives 2 rows for one trace
      --> own/of_each_rank.v1.sql
    hint: its grain is one row per trace: aggregate, or use LIST and MAP columns
    ");
    let columns = FINDING.replace("'do'", "CAST(NULL AS VARCHAR)");
    own_diagnosis(&place, "says_nothing", &columns, "kernels");
    let run = place.run(&["diagnose", "job", "--sql-dir", "own"]);
    assert_eq!((run.code, run.errors()), (1, vec!["check-failed"]), "{}", run.stderr);
    assert!(run.stderr.contains("a finding has no advice"), "{}", run.stderr);
    assert!(run.stderr.contains("own/says_nothing.v1.sql"), "{}", run.stderr);
}

/// A metric that fails on several runs is one error, and the others are answered.
#[test]
fn a_metric_that_fails_is_said_once_beside_those_that_answer() {
    let place = ingested();
    place.run(&["ingest", "job", "--name", "twin"]).done();
    own_metric(&place, "fails", "CASE WHEN count(*) > 0 THEN error('by hand') END");
    let words = ["history", "fails", "coll_call_num", "--series", "*", "--sql-dir", "own"];
    let run = place.run(&words);
    let errors = ["sql", "metric-not-applicable"];
    assert_eq!((run.code, run.errors()), (1, errors.to_vec()), "{}", run.stderr);
    let said = "error[sql]: Invalid Input Error: by hand\n  --> own/fails.v1.sql\n";
    assert!(run.stderr.contains(said), "{}", run.stderr);
    assert!(run.stdout.contains("no run has a value"), "{}", run.stdout);
    assert!(run.stdout.contains("coll_call_num of *"), "{}", run.stdout);
}

/// A diagnosis gives the columns of a finding, and names what shows it.
#[test]
fn check_says_what_is_wrong_with_a_diagnosis() {
    let place = ingested();
    let right = FINDING;
    let write =
        |name: &str, columns: &str, shown: &str| own_diagnosis(&place, name, columns, shown);
    write("own_right", right, "kernels");
    let run = place.run(&["check", "--sql-dir", "own"]);
    let said = |name: &str, run: &Run| {
        let of = format!("--> own/{name}.v1.sql");
        let mut faults = run.stderr.split("error[check-failed]: ");
        faults.find(|fault| fault.contains(&of)).map(str::to_owned)
    };
    assert_eq!(said("own_right", &run), None, "{}", run.stderr);
    write("own_few", "trace, count(*) AS rank_count", "kernels");
    write("own_types", &right.replace("CAST(1 AS DOUBLE)", "CAST(1 AS BIGINT)"), "kernels");
    write("own_shown", right, "kernals");
    let run = place.run(&["check", "--sql-dir", "own"]);
    for (name, part) in [
        ("own_few", "the columns are trace VARCHAR, rank_count BIGINT\n"),
        ("own_types", "gain_ms BIGINT, limits VARCHAR[]"),
        ("own_shown", "@shown names `kernals`, which is no metric or view"),
    ] {
        let fault = said(name, &run).unwrap_or_default();
        assert!(run.code == 1 && fault.contains(part), "{name}: {fault} in {}", run.stderr);
    }
    assert_eq!(said("own_right", &run), None, "{}", run.stderr);
}

/// In the folder of the project `--write` makes what is generated, and wraps headers.
#[test]
fn check_writes_what_is_generated() {
    let place = Place::new();
    place.write("Cargo.toml", "name = \"ccl-sql\"\n");
    for file in files(&project().join("sql")) {
        let name = file.strip_prefix(project()).expect("it lies below").to_string_lossy();
        place.write(&name, std::fs::read(&file).expect("it can be read"));
    }
    for kind in ["", "diagnoses/"] {
        for folder in folders(&project().join("tests/golden").join(kind)) {
            place.write(&format!("tests/golden/{kind}{}/case.csv", name(&folder)), "");
        }
    }
    let check = |words: &[&str]| {
        let mut command = command(&place.input());
        Run::of(command.env("CCL_SQL_TREE", "sql").arg("check").args(words))
    };
    let header = place.input().join("sql/metrics/traffic/coll_call_num.v1.sql");
    let text = std::fs::read_to_string(&header).expect("it can be read");
    let long =
        text.replacen("-- @source   ", &format!("-- @source   {}", "a word, ".repeat(15)), 1);
    std::fs::write(&header, &long).expect("it can be written");
    std::fs::remove_file(place.input().join("sql/metrics.lock")).expect("removed");
    let run = check(&[]);
    for said in ["header is longer than 100", "sql/metrics.lock is stale", "docs/views.md is stale"]
    {
        assert!(run.code == 1 && run.stderr.contains(said), "{said}: {}", run.stderr);
    }
    let run = check(&["--write"]);
    assert_eq!((run.code, run.errors()), (0, vec![]), "{}", run.stderr);
    let wrapped = std::fs::read_to_string(&header).expect("it can be read");
    let is_long = |text: &str| text.lines().any(|l| l.starts_with("--") && l.len() > 100);
    assert!(is_long(&long) && !is_long(&wrapped), "{wrapped}");
    let run = check(&[]);
    assert_eq!((run.code, run.errors()), (0, vec![]), "{}", run.stderr);
    let lock = std::fs::read_to_string(place.input().join("sql/metrics.lock")).expect("a lock");
    assert!(lock.lines().count() > 300);
    // What changed is named, and what no case shows.
    let others: Vec<&str> = lock.lines().filter(|l| !l.contains(" coll_call_num ")).collect();
    assert_eq!(others.len() + 1, lock.lines().count());
    place.write("sql/metrics.lock", others.join("\n") + "\n");
    std::fs::remove_dir_all(place.input().join("tests/golden/iter_time")).expect("removed");
    let run = check(&[]);
    assert_eq!((run.code, run.errors().len()), (1, 2), "{}", run.stderr);
    for said in ["changed: coll_call_num\n", "metric `iter_time` has no golden case\n"] {
        assert!(run.stderr.contains(said), "{said}: {}", run.stderr);
    }
}

#[test]
fn a_metric_reaches_no_file_and_no_setting() {
    let place = ingested();
    place.write("secret.csv", "a\n42\n");
    let secret = place.input().join("secret.csv");
    let expressions = [
        (
            "read_passwd",
            "(SELECT count(*) FROM read_csv('/etc/passwd', header = false))".to_owned(),
        ),
        ("read_secret", format!("(SELECT max(a) FROM '{}')", secret.display())),
        ("read_text", format!("(SELECT count(*) FROM read_text('{}'))", secret.display())),
        ("list_files", "(SELECT count(*) FROM glob('/etc/*'))".to_owned()),
        ("read_env", "length(getenv('HOME'))".to_owned()),
    ];
    for (name, expression) in &expressions {
        own_metric(&place, name, expression);
        let run = place.run(&["metric", name, "--sql-dir", "own", "--format", "csv"]);
        assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{name}: {}", run.stderr);
        assert_eq!(run.errors(), ["sql"], "{name}: {}", run.stderr);
    }
}

#[test]
fn statements_of_a_metric_change_nothing_outside() {
    let place = ingested();
    let leak = place.input().join("leak.csv");
    let copy = format!("COPY (SELECT 1) TO '{}'", leak.display());
    let then_copy = format!("SELECT 'job' AS trace, CAST(1 AS BIGINT) AS number; {copy}");
    for (name, query) in [
        ("copies", copy.as_str()),
        ("also_copies", then_copy.as_str()),
        ("attaches", "ATTACH 'other.db'"),
        ("unlocks", "SET enable_external_access = true"),
        ("installs", "INSTALL httpfs"),
        ("loads", "LOAD '/tmp/x.duckdb_extension'"),
    ] {
        own_text(&place, name, query);
        let run = place.run(&["metric", name, "--sql-dir", "own", "--format", "csv"]);
        assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{name}: {}", run.stderr);
        assert!(!leak.exists(), "{name} wrote a file");
    }
}

#[test]
fn a_metric_is_one_select() {
    let place = ingested();
    for (name, query) in [
        ("two", "SELECT 'job' AS trace, 1 AS number; SELECT 'job' AS trace, 2::BIGINT AS number"),
        ("creates", "CREATE TABLE t AS SELECT 1; SELECT 'job' AS trace, 2::BIGINT AS number"),
    ] {
        own_text(&place, name, query);
        let run = place.run(&["metric", name, "--sql-dir", "own", "--format", "csv"]);
        assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{name}: {}", run.stderr);
    }
}

#[test]
fn a_metric_cannot_write_into_its_trace() {
    let place = ingested();
    let folder = std::fs::canonicalize(place.data()).expect("it is there");
    let leak = folder.join("trace=job/leak.csv");
    own_text(&place, "writes", &format!("COPY (SELECT 1) TO '{}'", leak.display()));
    place.run(&["metric", "writes", "--sql-dir", "own"]);
    assert!(!leak.exists(), "a metric wrote {}", leak.display());
}

#[test]
fn a_view_is_one_select() {
    let place = ingested();
    let leak = place.input().join("leak.csv");
    let view =
        "-- @view     mine\n-- @summary  A view of a user.\n-- @requires ranks\nSELECT 1 AS a";
    place.write("own/mine.sql", format!("{view}; COPY (SELECT 1) TO '{}'\n", leak.display()));
    own_metric(&place, "reads_mine", "(SELECT max(a) FROM mine)");
    let path = place.input().join("own/reads_mine.v1.sql");
    let text = std::fs::read_to_string(&path).expect("just written");
    std::fs::write(&path, text.replace("-- @value", "-- @reads    mine\n-- @value"))
        .expect("written");
    place.run(&["metric", "reads_mine", "--sql-dir", "own"]);
    assert!(!leak.exists(), "a view wrote {}", leak.display());
}

#[test]
fn a_query_has_limits_of_time_memory_and_disk() {
    let place = ingested();
    let endless = "count(*) FROM range(1000000) AS a, range(1000000) AS b WHERE a.range <> b.range";
    own_metric(&place, "forever", &format!("(SELECT {endless})"));
    own_metric(&place, "ranks_here", "count(*)");
    let words = ["metric", "forever", "ranks_here", "--sql-dir", "own", "--timeout", "1"];
    let run = place.run(&words);
    assert!(run.stdout.starts_with("ranks_here of job: 2"), "the others answer: {}", run.stdout);
    assert_snapshot!(run.stderr, @r"
    error[limit]: the query took longer than it may
      --> own/forever.v1.sql
      limit: 1 s
    hint: ask for less, or give it more time: --timeout SECONDS
    ");
    assert_eq!((run.code, run.errors()), (1, vec!["limit"]));
    let sql = |query: &str, words: &[&str]| {
        let run = place.run(&[&["sql", query][..], words].concat());
        assert_eq!((run.code, run.errors()), (1, vec!["limit"]), "{}", run.stderr);
        run.stderr
    };
    assert_snapshot!(sql(&format!("SELECT {endless}"), &["--timeout", "1"]), @r"
    error[limit]: the query took longer than it may
      limit: 1 s
    hint: ask for less, or give it more time: --timeout SECONDS
    ");
    let most = "SELECT count(DISTINCT (i, i * 7, i || 'abc')) FROM range(9000000) AS t (i)";
    let disk = sql(most, &["--memory-limit", "50MB", "--spill-limit", "2MB"]);
    assert!(disk.contains("--spill-limit SIZE"), "{disk}");
    let list = "SELECT len(list(i)) FROM range(90000000) AS t (i)";
    let memory = sql(list, &["--memory-limit", "50MB", "--sandbox"]);
    assert!(memory.contains("--memory-limit SIZE"), "{memory}");
    let left = std::fs::read_dir(place.data()).expect("the data directory");
    let left = left.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    assert!(!left.into_iter().any(|name| name.contains("spill")), "nothing is left behind");
    for words in [["--spill-limit", "much"], ["--memory-limit", "much"]] {
        let run = place.run(&["sql", "SELECT 1", words[0], words[1]]);
        assert_eq!((run.code, run.errors()), (2, vec!["usage"]), "{}", run.stderr);
    }
}

/// A metric of the program's own gets more than its first two gigabytes, unless the user gave a
/// limit.
#[test]
fn a_metric_that_needs_more_memory_gets_it() {
    let place = ingested();
    own_metric(&place, "hungry", "(SELECT len(list(i)) FROM range(150000000) AS t (i))");
    let hungry = tree(&place).join("metrics/speed/hungry.v1.sql");
    std::fs::rename(place.input().join("own/hungry.v1.sql"), hungry).expect("moved");
    let run = |words: &[&str]| {
        let words = [&["metric", "hungry", "--format", "value"], words].concat();
        of_tree(&place, &words).output().expect("the program can be started")
    };
    // On more than four cores the first limit is higher.
    let most = ["--memory-limit", "2GB"];
    let refused = String::from_utf8_lossy(&run(&most).stderr).into_owned();
    assert!(refused.starts_with("error[limit]"), "{refused}");
    let answered = run(&["--jobs", "2"]);
    let said = String::from_utf8_lossy(&answered.stderr);
    assert_eq!(String::from_utf8_lossy(&answered.stdout), "150000000\n", "{said}");
}

/// DuckDB counts what it sorts and joins, and not the values that a function makes.
#[cfg(target_os = "linux")]
#[test]
fn one_value_of_a_stranger_does_not_take_the_machine() {
    let place = ingested();
    own_metric(&place, "huge", "any_value(len(list_sort(range(2000000000))))");
    for words in [
        &["metric", "huge", "--sql-dir", "own"][..],
        &["sql", "SELECT len(list_sort(range(2000000000)))", "--sandbox"],
    ] {
        let run = place.run(words);
        assert_eq!((run.code, run.errors()), (1, vec!["limit"]), "{}", run.stderr);
    }
    // It is planned, which computes what has no column in it.
    let run = place.run(&["check", "--sql-dir", "own"]);
    assert_eq!(run.errors(), vec!["check-failed"], "only its unit is wrong: {}", run.stderr);
}
