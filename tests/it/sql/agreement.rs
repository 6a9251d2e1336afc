//! The functions in Rust against the same thing said in plain SQL: for intervals a quadratic search
//! over every instant, which is slow and plainly right; for fits the regression that DuckDB has.

use duckdb::Connection;
use proptest::prelude::*;

use crate::support::property::check;

/// An element: NULL, or start and end, each perhaps NULL, the end perhaps before the start.
type Element = Option<(Option<i64>, Option<i64>)>;
/// A list, perhaps NULL.
type List = Option<Vec<Element>>;

/// Instants that the search goes through; every interval lies within.
const FROM: i64 = -12;
const TO: i64 = 40;

fn list() -> impl Strategy<Value = List> {
    let element = proptest::option::weighted(
        0.95,
        (proptest::option::weighted(0.97, -10_i64..30), -2_i64..9).prop_map(|(start, length)| {
            // A length of -2 stands for an unknown end, -1 for an end before the start.
            let end = start.filter(|_| length > -2).map(|s| s + length);
            (start, end)
        }),
    );
    proptest::option::weighted(0.9, proptest::collection::vec(element, 0..7))
}

fn literal(list: &List) -> String {
    let number = |n: Option<i64>| n.map_or("NULL".to_owned(), |n| n.to_string());
    let element = |e: &Element| match e {
        None => "NULL".to_owned(),
        Some((start, end)) => {
            format!("{{start_ns: {}, end_ns: {}}}", number(*start), number(*end))
        }
    };
    let text = match list {
        None => "NULL".to_owned(),
        Some(elements) => {
            format!("[{}]", elements.iter().map(element).collect::<Vec<_>>().join(", "))
        }
    };
    format!("CAST({text} AS STRUCT(start_ns BIGINT, end_ns BIGINT)[])")
}

/// One row per place where the functions and the search differ. A set of instants is a list of
/// maximal runs: the run of an instant is its place minus how many of the set come before it.
fn differences(connection: &Connection, pairs: &[(List, List)]) -> Vec<String> {
    let rows: Vec<String> = pairs
        .iter()
        .enumerate()
        .map(|(i, (a, b))| format!("({i}, {}, {})", literal(a), literal(b)))
        .collect();
    let sql = format!(
        "WITH
            pairs AS (SELECT * FROM (VALUES {}) AS t(id, a, b)),
            instants AS (
                SELECT p.id, r.x,
                    EXISTS (SELECT 1 FROM (SELECT unnest(p.a) AS e)
                            WHERE e.start_ns <= r.x AND r.x < e.end_ns) AS in_a,
                    EXISTS (SELECT 1 FROM (SELECT unnest(p.b) AS e)
                            WHERE e.start_ns <= r.x AND r.x < e.end_ns) AS in_b
                FROM pairs AS p CROSS JOIN range({FROM}, {TO}) AS r(x)
            ),
            members AS (
                SELECT id, 'union' AS operation, x FROM instants WHERE in_a
                UNION ALL SELECT id, 'intersect', x FROM instants WHERE in_a AND in_b
                UNION ALL SELECT id, 'subtract', x FROM instants WHERE in_a AND NOT in_b
            ),
            runs AS (
                SELECT id, operation, x,
                    x - row_number() OVER (PARTITION BY id, operation ORDER BY x) AS run
                FROM members
            ),
            spans AS (
                SELECT id, operation, min(x) AS start_ns, max(x) + 1 AS end_ns
                FROM runs GROUP BY id, operation, run
            ),
            searched AS (
                SELECT id, operation,
                    list({{start_ns: start_ns, end_ns: end_ns}} ORDER BY start_ns) AS spans,
                    CAST(sum(end_ns - start_ns) AS BIGINT) AS length_ns
                FROM spans GROUP BY id, operation
            ),
            said AS (
                SELECT id, 'union' AS operation, a IS NULL AS is_null,
                    interval_union(a) AS spans, interval_union_ns(a) AS length_ns
                FROM pairs
                UNION ALL
                SELECT id, 'intersect', a IS NULL OR b IS NULL,
                    interval_intersect(a, b), interval_overlap_ns(a, b)
                FROM pairs
                UNION ALL
                SELECT id, 'subtract', a IS NULL OR b IS NULL,
                    interval_subtract(a, b), interval_subtract_ns(a, b)
                FROM pairs
            )
        SELECT s.operation || ' of pair ' || s.id || ': searched ' ||
            coalesce(CAST(f.spans AS VARCHAR), '[]') || ', said ' ||
            coalesce(CAST(s.spans AS VARCHAR), 'NULL') || ' with length ' ||
            coalesce(CAST(s.length_ns AS VARCHAR), 'NULL')
        FROM said AS s
        LEFT JOIN searched AS f ON f.id = s.id AND f.operation = s.operation
        WHERE CASE WHEN s.is_null THEN s.spans IS NOT NULL OR s.length_ns IS NOT NULL
            ELSE coalesce(f.spans, []) IS DISTINCT FROM s.spans
                OR coalesce(f.length_ns, 0) IS DISTINCT FROM s.length_ns END
        ORDER BY ALL",
        rows.join(", ")
    );
    let mut statement = connection.prepare(&sql).expect("the query is right");
    let rows = statement.query_map([], |row| row.get(0)).expect("the query runs");
    rows.map(|row| row.expect("a text")).collect()
}

fn connection() -> Connection {
    let connection = Connection::open_in_memory().expect("DuckDB starts");
    ccl_sql::functions::register(&connection).expect("the functions are registered");
    connection
}

#[test]
fn intervals_agree_with_a_search_over_every_instant() {
    let connection = connection();
    // Many pairs a query: rows must not run into each other either.
    let strategy = proptest::collection::vec((list(), list()), 1..40);
    check(24, &strategy, |pairs| {
        let found = differences(&connection, &pairs);
        prop_assert!(found.is_empty(), "{}", found.join("\n"));
        Ok(())
    });
}

#[test]
fn null_and_empty_lists_have_their_own_answers() {
    let pairs = [
        (None, Some(vec![])),
        (Some(vec![]), None),
        (Some(vec![]), Some(vec![])),
        (Some(vec![None, Some((Some(1), None)), Some((Some(5), Some(5)))]), Some(vec![])),
    ];
    assert_eq!(differences(&connection(), &pairs), Vec::<String>::new());
    let one = "SELECT interval_union_ns(NULL) IS NULL AND interval_union_ns([]) = 0
            AND interval_overlap_ns([], NULL) IS NULL
            AND interval_subtract_ns([{start_ns: 1, end_ns: 4}], []) = 3
            AND len(interval_union([])) = 0 AND interval_union(NULL) IS NULL";
    let holds: bool = connection().query_row(one, [], |row| row.get(0)).expect("the query runs");
    assert!(holds);
}

#[test]
fn a_search_finds_a_wrong_answer() {
    // The check above can fail: here the data of one side is another.
    let connection = connection();
    connection
        .execute_batch(
            "CREATE MACRO interval_union_ns(l) AS 1; CREATE MACRO interval_union(l) AS []",
        )
        .expect("macros hide functions");
    let pairs = [(Some(vec![Some((Some(0), Some(5)))]), Some(vec![]))];
    assert_eq!(differences(&connection, &pairs).len(), 1);
}

/// Samples as a list in SQL: sizes in kilobytes, times in microseconds.
fn fit_literal(samples: &[(u32, u32)]) -> String {
    let sample = |(x, y): &(u32, u32)| format!("{{bytes: {x}000, seconds: {y} / 1e6}}");
    format!("[{}]", samples.iter().map(sample).collect::<Vec<_>>().join(", "))
}

/// One row per list whose fit is not what the regression over the medians says.
fn fit_differences(connection: &Connection, lists: &[Vec<(u32, u32)>]) -> Vec<String> {
    let rows: Vec<String> =
        lists.iter().enumerate().map(|(i, l)| format!("({i}, {})", fit_literal(l))).collect();
    let sql = format!(
        "WITH
            lists AS (SELECT * FROM (VALUES {}) AS t(id, l)),
            forms AS (
                SELECT id, 1 AS ranks, l, 1.0::DOUBLE AS parts, 1.0::DOUBLE AS steps, hockney_fit(l) AS fit
                FROM lists
                UNION ALL
                SELECT id, 5, l, 5.0, 8.0, hockney_fit_ring(l, 5)
                FROM lists
            ),
            samples AS (
                SELECT id, ranks, parts, steps, fit, unnest(l) AS s
                FROM forms
            ),
            points AS (
                SELECT id, ranks, fit, s.bytes / parts AS x, median(s.seconds / steps) AS y, count(*) AS n
                FROM samples GROUP BY id, ranks, fit, x
            ),
            lines AS (
                SELECT id, ranks, fit, regr_slope(y, x) AS slope, regr_intercept(y, x) AS intercept,
                    regr_r2(y, x) AS r2, avg(y) AS mean, sum(x * y) / sum(x * x) AS through_origin,
                    sum(n) AS samples, count(*) AS sizes
                FROM points GROUP BY id, ranks, fit
            ),
            said AS (
                SELECT id, ranks, fit, r2, samples, sizes, mean,
                    CASE WHEN sizes < 2 THEN NULL WHEN slope <= 0 THEN mean WHEN intercept < 0 THEN 0
                        ELSE intercept END AS alpha,
                    CASE WHEN sizes < 2 THEN NULL WHEN slope <= 0 THEN 0 WHEN intercept < 0
                        THEN through_origin ELSE slope END AS beta,
                    slope > 0 AND intercept >= 0 AS plain
                FROM lines
            )
        SELECT 'list ' || id || ' over ' || ranks || ': ' || CAST(fit AS VARCHAR) || ' against alpha ' ||
            coalesce(CAST(alpha AS VARCHAR), 'NULL') || ', beta ' || coalesce(CAST(beta AS VARCHAR), 'NULL')
            || ', r2 ' || coalesce(CAST(r2 AS VARCHAR), 'NULL')
        FROM said
        WHERE fit.samples <> samples OR fit.sizes <> sizes
            OR (fit.alpha_s IS NULL) <> (alpha IS NULL) OR (fit.beta_s_per_byte IS NULL) <> (beta IS NULL)
            OR abs(fit.alpha_s - alpha) > 1e-9 * mean
            OR abs(fit.beta_s_per_byte - beta) > 1e-9 * greatest(beta, mean / 1e4)
            OR plain AND (fit.r2 IS NULL OR abs(fit.r2 - r2) > 1e-9)
        ORDER BY ALL",
        rows.join(", ")
    );
    let mut statement = connection.prepare(&sql).expect("the query is right");
    let rows = statement.query_map([], |row| row.get(0)).expect("the query runs");
    rows.map(|row| row.expect("a text")).collect()
}

#[test]
fn fits_agree_with_the_regression_over_medians() {
    let connection = connection();
    let list = proptest::collection::vec((1_u32..7, 1_u32..900), 1..14);
    let strategy = proptest::collection::vec(list, 1..40);
    check(24, &strategy, |lists| {
        let found = fit_differences(&connection, &lists);
        prop_assert!(found.is_empty(), "{}", found.join("\n"));
        Ok(())
    });
    // A plain line, one through the origin, a constant, and no fit.
    let known = [vec![(1, 2), (2, 3)], vec![(1, 1), (2, 9)], vec![(1, 9), (2, 1)], vec![(1, 9)]];
    assert_eq!(fit_differences(&connection, &known), Vec::<String>::new());
    connection.execute_batch("CREATE MACRO median(x) AS max(x)").expect("macros hide functions");
    let uneven = [vec![(1, 2), (1, 4), (2, 9)]];
    assert_eq!(fit_differences(&connection, &uneven).len(), 2, "the search finds a wrong answer");
}

#[test]
fn samples_are_cast_and_named_and_null_has_its_own_answers() {
    let one = "SELECT hockney_fit(NULL) IS NULL AND hockney_fit_ring(NULL, 4) IS NULL
            AND hockney_fit_ring([], NULL) IS NULL
            AND hockney_fit([]).flag = 'no_samples' AND hockney_fit([]).samples = 0
            AND hockney_fit([]).beta_s_per_byte IS NULL
            AND hockney_fit([NULL, {bytes: 8, seconds: NULL}, {bytes: 8, seconds: 1}]).flag
                = 'few_calls, one_size'
            -- Whole numbers, and fields in either order.
            AND hockney_fit([{bytes: 1, seconds: 3}, {bytes: 2, seconds: 5}]).beta_s_per_byte = 2
            AND hockney_fit([{seconds: 3.0, bytes: 1::BIGINT}, {seconds: 5.0, bytes: 2::BIGINT}]).alpha_s = 1
            AND hockney_fit_ring([{bytes: 4, seconds: 12}, {bytes: 8, seconds: 18}], 4::INTEGER).alpha_s = 1
            AND hockney_fit_ring([{bytes: 4, seconds: 12}, {bytes: 8, seconds: 18}], 1).flag
                = 'group_too_small'";
    let holds: bool = connection().query_row(one, [], |row| row.get(0)).expect("the query runs");
    assert!(holds);
    // Rings are apart, by their size; a sample without a ring is of none.
    let rings = "SELECT hockney_fit_rings(NULL) IS NULL AND hockney_fit_rings([]) = []
            AND hockney_fit_rings([NULL, {group_size: NULL, bytes: 1, seconds: 2}]) = []
            AND hockney_fit_rings([
                {group_size: 8, bytes: 4, seconds: 12}, {group_size: 2, bytes: 4, seconds: 3},
                {group_size: 8, bytes: 8, seconds: 18}, {group_size: 1, bytes: NULL, seconds: 1}
            ]) IS NOT DISTINCT FROM [
                {group_size: 1, fit: hockney_fit_ring([], 1)},
                {group_size: 2, fit: hockney_fit_ring([{bytes: 4, seconds: 3}], 2)},
                {group_size: 8,
                    fit: hockney_fit_ring([{bytes: 4, seconds: 12}, {bytes: 8, seconds: 18}], 8)}
            ]";
    let holds: bool = connection().query_row(rings, [], |row| row.get(0)).expect("the query runs");
    assert!(holds);
    // Rows do not run into each other, and a row without a list leaves its neighbours alone.
    let rows = "SELECT array_agg(CAST(hockney_fit(CASE WHEN i % 3 > 0 THEN
                [{bytes: i, seconds: 10 * i}, {bytes: 2 * i, seconds: 10 * i + i}] END).beta_s_per_byte
                AS BIGINT) ORDER BY i)::VARCHAR FROM range(1, 8) AS t(i)";
    let betas: String = connection().query_row(rows, [], |row| row.get(0)).expect("the query runs");
    assert_eq!(betas, "[1, 1, NULL, 1, 1, NULL, 1]");
}
