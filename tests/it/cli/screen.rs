//! What a terminal alone is shown: progress, width, colours, and answers to Ctrl-C and Tab.

use crate::cli::shown::ingested;
use crate::support::Place;
use crate::support::runs::{many_kernels, step_of_rank};
use crate::support::terminal::{Ended, Terminal};

const SIZE: (u16, u16) = (24, 80);

/// What a command shows on a terminal of 80 columns; None where there is none.
fn shown(place: &Place, words: &str) -> Option<Ended> {
    Some(Terminal::start(place, SIZE, words, &[])?.end())
}

/// The lines of a screen.
fn lines(ended: &Ended) -> Vec<&str> {
    ended.screen.lines().map(str::trim_end).collect()
}

#[test]
fn an_ingest_draws_a_line_and_wipes_it() {
    let place = Place::new();
    place.write("j\u{1b}b/rank0.json", step_of_rank(0, 2, 400, 1200));
    let Some(ended) = shown(&place, "ingest j*b --name job") else { return };
    assert_eq!(ended.code, Some(0), "{}", ended.written);
    let drawn: Vec<&str> = ended.written.split(['\r', '\n']).collect();
    // The folder's name steers no terminal.
    let bar = format!("j_b [{}] 0 B/538 B ", " ".repeat(30));
    assert!(drawn.iter().any(|line| line.contains(&bar)), "{drawn:?}");
    assert!(drawn.iter().any(|line| line.contains("j_b: joining ranks ")), "{drawn:?}");
    // Nothing of it stays.
    assert_eq!(lines(&ended).len(), 1, "{}", ended.screen);
    assert!(
        ended.screen.starts_with("job: kineto, 1 rank, 3 events, 538 B in "),
        "{}",
        ended.screen
    );
    let Some(quiet) = shown(&place, "ingest j*b --name again -q") else { return };
    assert_eq!((quiet.code, quiet.written.as_str()), (Some(0), ""));
}

#[test]
fn an_ingest_that_is_interrupted_says_what_is_kept() {
    let place = Place::new();
    place.write("big/rank0.json", many_kernels(0, 1, 700_000));
    let Some(mut terminal) = Terminal::start(&place, SIZE, "ingest big", &[]) else { return };
    // It moves.
    terminal.see("big [=").type_in("\u{3}");
    let ended = terminal.end();
    // As a shell says of a program that the signal ended.
    assert_eq!(ended.code, Some(130), "{}", ended.written);
    let screen = lines(&ended);
    let said = screen.iter().position(|l| l.starts_with("interrupted: files that were read whole"));
    assert!(said.is_some_and(|at| screen[at..].iter().all(|l| !l.contains('['))), "{screen:?}");
    assert!(place.run(&["list", "traces", "--format", "csv"]).stdout.lines().count() <= 1);
}

#[test]
fn metrics_count_on_a_line_and_wipe_it() {
    let place = ingested();
    let Some(ended) = shown(&place, "metric --all --trace job -o all.json") else { return };
    assert_eq!(ended.code, Some(0), "{}", ended.written);
    // Not every step is drawn.
    let drawn: Vec<&str> = ended.written.split(['\r', '\n']).collect();
    let counts =
        |line: &&&str, n: usize| line.contains("job [") && line.contains(&format!("] {n}/"));
    let counted = |n: usize| drawn.iter().any(|line| counts(&line, n));
    assert!((1..10).any(counted) && (60..=120).any(counted), "{drawn:?}");
    // What each counts is the number of metrics.
    let metrics = place.run(&["list", "metrics", "--format", "csv"]).done().lines().count() - 1;
    assert!(ended.written.contains(&format!("/{metrics} ")), "{metrics}: {}", ended.written);
    let screen = lines(&ended);
    assert!(screen.iter().any(|l| l.starts_with("wrote all.json")), "{}", ended.screen);
    assert!(!ended.screen.contains("job ["), "{}", ended.screen);
    // Few are done at once.
    let Some(few) = shown(&place, "metric coll_call_num iter_time -o few.json") else { return };
    assert!(!few.written.contains('['), "{}", few.written);
    let Some(quiet) = shown(&place, "metric --all -q -o quiet.json") else { return };
    assert_eq!((quiet.code, quiet.written.as_str()), (Some(0), ""));
}

#[test]
fn a_long_query_says_that_it_runs() {
    let place = ingested();
    let query =
        "sql \"SELECT sum(a.range * b.range % 7) FROM range(10000000) a, range(10000000) b\"";
    let Some(mut terminal) = Terminal::start(&place, SIZE, query, &[]) else { return };
    terminal.see("the query runs: 2 s").see("the query runs: 3 s").type_in("\u{3}");
    let ended = terminal.end();
    assert_eq!(ended.code, Some(130), "{}", ended.written);
    assert!(ended.written.contains("(Ctrl-C stops it)"), "{}", ended.written);
    // In a shell the query ends, and the shell does not.
    let Some(mut terminal) = Terminal::start(&place, SIZE, "shell", &[]) else { return };
    terminal.see("ccl-sql> ");
    terminal.type_in(&format!("{};\n", query.trim_start_matches("sql ").trim_matches('"')));
    terminal.see("the query runs: 2 s").type_in("\u{3}").see("interrupt");
    terminal.type_in("SELECT 40 + 2 AS n;\n").see(" 42 ").type_in(".quit\n");
    let ended = terminal.end();
    assert_eq!(ended.code, Some(0), "{}", ended.written);
    assert!(!ended.screen.contains("the query runs"), "{}", ended.screen);
}

#[test]
fn tables_fit_the_terminal() {
    let place = ingested();
    let wide = "sql \"SELECT 'a long text of many words' AS first, repeat('x', 90) AS second\"";
    let Some(ended) = shown(&place, wide) else { return };
    assert!(ended.screen.contains("…") && ended.screen.contains("1 row, 2 columns"));
    let Some(many) = shown(&place, "sql \"FROM range(1001) t(n)\"") else { return };
    assert!(many.screen.contains("the first 1,000 rows, 1 column\n-o FILE.csv writes all"));
    assert!(many.screen.contains("│    999 │") && !many.screen.contains("1000 │"));
    let Some(all) = shown(&place, "sql \"FROM range(1000) t(n)\"") else { return };
    assert!(all.screen.contains("1,000 rows, 1 column"), "{}", all.screen);
    assert!(all.screen.contains("│    999 │") && !all.screen.contains("writes all"));
    let Some(none) = shown(&place, "sql \"SELECT 1 AS n WHERE false\"") else { return };
    assert!(none.screen.contains("│ n") && none.screen.contains("0 rows"), "{}", none.screen);
    for words in ["list metrics", "list tables", "list traces", "metric straggler_lag"] {
        let Some(ended) = shown(&place, words) else { return };
        let written = ended.written.replace('\r', "");
        let longest = written.lines().map(|l| l.chars().count()).max();
        assert!(longest.is_some_and(|l| l <= 80), "{words}: {longest:?} in {written}");
    }
}

#[test]
fn a_terminal_gets_no_bytes_and_no_escapes() {
    let place = ingested();
    let words = "sql --format csv \"SELECT 'a' || chr(27) || '[31mred' || chr(9) || 'b' AS name\"";
    let Some(ended) = shown(&place, words) else { return };
    assert_eq!(ended.written, "name\r\na\u{fffd}[31mred\tb\r\n");
    for (words, what) in [
        ("report --format xlsx", "a workbook"),
        ("sql 'SELECT 1' --format parquet", "Parquet"),
        ("export --format perfetto", "a timeline"),
    ] {
        let Some(ended) = shown(&place, words) else { return };
        assert_ne!(ended.code, Some(0), "{words}: {}", ended.written);
        let said = format!("{what} is not for a terminal");
        assert!(ended.screen.contains(&said), "{words}: {}", ended.screen);
        assert!(ended.screen.contains("-o FILE."), "{words}: {}", ended.screen);
    }
}

#[test]
fn messages_have_colours_and_are_broken_at_spaces() {
    let place = ingested();
    let words = "metric coll_cal_num";
    let Some(ended) = shown(&place, words) else { return };
    assert!(ended.written.contains("\u{1b}[1;31merror\u{1b}[0m["), "{:?}", ended.written);
    let plain = Terminal::start(&place, SIZE, words, &[("NO_COLOR", "1")]).map(|mut t| t.end());
    let plain = plain.map(|ended| ended.written).unwrap_or_default();
    assert!(plain.starts_with("error[metric-unknown]"), "{plain:?}");
    let narrow = Terminal::start(&place, (24, 44), "metric iter_time --strict", &[]);
    let Some(narrow) = narrow.map(|mut t| t.end()) else { return };
    let longest = narrow.written.replace('\r', "").lines().map(|l| l.chars().count()).max();
    assert!(longest.is_some_and(|l| l <= 44), "{}", narrow.written);
}

#[test]
fn tab_completes_and_what_was_typed_comes_back() {
    let place = ingested();
    let start = || Terminal::start(&place, SIZE, "shell", &[]);
    let Some(mut terminal) = start() else { return };
    terminal.see("ccl-sql> ");
    terminal.type_in("SELECT count(*) AS n FROM collective_cal\t").see("collective_calls");
    terminal.type_in(";\n").see("1 row, 1 column");
    // What a statement makes is offered by the next.
    terminal.type_in("CREATE TABLE mine_alone AS SELECT 7 AS seven;\n");
    terminal.type_in("SELECT seven FROM mine_al\t").see("mine_alone").type_in(";\n").see(" 7 ");
    terminal.type_in("SELECT regexp_extract_a\t").see("regexp_extract_all").type_in("\u{15}");
    // A word is coloured as soon as it is one.
    terminal.type_in("SELECT").see("\u{1b}[1;34mSELECT\u{1b}[0m").type_in("\u{15}");
    place.write("words.sql", "SELECT 'read' || 'y' AS w;\n");
    terminal.type_in(".read wor\t").see("words.sql").type_in("\n").see("ready");
    terminal.type_in(".quit\n");
    let ended = terminal.end();
    assert_eq!(ended.code, Some(0), "{}", ended.written);
    let Some(mut terminal) = start() else { return };
    terminal
        .see("ccl-sql> ")
        .type_in("\u{1b}[A\u{1b}[A")
        .see("words.sql")
        .type_in("\n")
        .see("ready");
    terminal.type_in(".quit\n");
    assert_eq!(terminal.end().code, Some(0));
    let history =
        std::fs::metadata(place.input().join("ccl-sql")).expect("the folder of the history");
    let mode = std::os::unix::fs::PermissionsExt::mode(&history.permissions());
    assert_eq!(mode & 0o777, 0o700);
    // Without any trace it says how to come by one.
    let Some(mut terminal) = Terminal::start(&Place::new(), SIZE, "shell", &[]) else { return };
    terminal.see("there are no traces yet: ccl-sql ingest PATH").type_in(".quit\n");
    assert_eq!(terminal.end().code, Some(0));
}

#[test]
fn an_agents_server_says_that_it_is_one() {
    let place = Place::new();
    let Some(mut terminal) = Terminal::start(&place, SIZE, "mcp", &[]) else { return };
    terminal.see("an agent starts this command").type_in("\u{3}");
    assert_eq!(terminal.end().code, Some(130));
}
