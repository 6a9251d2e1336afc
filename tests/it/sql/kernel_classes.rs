//! The class of kernels by their names: `kernel_names.csv` through the SQL itself; and the peaks of
//! devices by theirs.
//!
//! A row is a kernel with its launching operator and HLO category, and the class that it must get.
//! `recorded_on` says the device of the real trace that the name comes from (cut at 180
//! characters), or `no trace`: names that the libraries give, or that only look like something.

use std::collections::BTreeMap;

use ccl_sql::readers::comm_kernels::is_comm_kernel;
use ccl_sql::registry::Registry;
use ccl_sql::sql_text::sql_string;
use duckdb::Connection;

use crate::support::real::traces;
use crate::support::{Cell, Csv, Place, project};

fn names() -> Csv {
    let file = project().join("tests/it/sql/kernel_names.csv");
    Csv::parse(&std::fs::read_to_string(file).expect("the names can be read"))
}

/// The tables that the view reads, of one trace for each row: rows do not meet.
fn tables(connection: &Connection, csv: &Csv) {
    let cell = |c: &Cell| c.as_ref().map_or("NULL".to_owned(), |text| sql_string(text));
    let rows: Vec<String> = csv
        .rows
        .iter()
        .enumerate()
        .map(|(i, row)| format!("('{i}', {})", row.iter().map(cell).collect::<Vec<_>>().join(", ")))
        .collect();
    connection
        .execute_batch(&format!(
            "CREATE TABLE kernel_names AS SELECT * FROM (VALUES {}) AS t(trace, {});
             CREATE VIEW kernel_times AS
                 SELECT trace, source, class, name, op_name, 1 AS dur_ns FROM kernel_names;
             CREATE VIEW _category_sums AS
                 SELECT trace, class, name, hlo_category FROM kernel_names WHERE source = 'xla';",
            rows.join(", "),
            csv.columns.join(", ")
        ))
        .expect("the tables can be made");
}

/// Views of the project over the names.
fn connection() -> Connection {
    let connection = Connection::open_in_memory().expect("DuckDB starts");
    tables(&connection, &names());
    views(&connection);
    connection
}

/// Views of the project over these tables.
fn views(connection: &Connection) {
    let registry = Registry::load(None).expect("the registry loads");
    for view in ["kernel_patterns", "kernel_classes"] {
        let text = &registry.view(view).expect("a view").text;
        connection
            .execute_batch(&format!("CREATE VIEW {view} AS\n{text}"))
            .unwrap_or_else(|e| panic!("{view}: {e}"));
    }
}

fn lines(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(sql).expect("a query");
    let rows = statement.query_map([], |row| row.get::<_, String>(0)).expect("a query");
    rows.map(|row| row.expect("text")).collect()
}

#[test]
fn names_get_their_classes() {
    let csv = names();
    assert!(csv.rows.len() > 400, "the list of names has shrunk to {}", csv.rows.len());
    let wrong = lines(
        &connection(),
        "SELECT concat_ws(' | ', n.recorded_on, n.name, n.op_name, n.hlo_category,
             'expected ' || n.kernel_class || ' ' || n.is_moe,
             'got ' || coalesce(c.kernel_class, 'no row') || ' ' || coalesce(c.is_moe::VARCHAR, ''))
         FROM kernel_names AS n
         LEFT JOIN kernel_classes AS c ON c.trace = n.trace
         WHERE c.kernel_class IS DISTINCT FROM n.kernel_class
             OR c.is_moe::VARCHAR IS DISTINCT FROM n.is_moe
         ORDER BY ALL",
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_class_has_names_of_real_traces() {
    let without = lines(
        &connection(),
        "SELECT DISTINCT p.class FROM kernel_patterns AS p
         WHERE NOT EXISTS (
             SELECT 1 FROM kernel_names AS n
             INNER JOIN kernel_classes AS c ON c.trace = n.trace
             WHERE p.class IN (n.kernel_class, 'moe_' || c.moe_part) AND n.recorded_on <> 'no trace'
         )",
    );
    assert!(without.is_empty(), "{without:?}");
}

/// A pattern in upper case never matches; a pattern twice, or a priority of two classes, leaves the
/// class to chance.
#[test]
fn patterns_are_lower_case_and_settle_a_class() {
    let connection = connection();
    let upper =
        lines(&connection, "SELECT pattern FROM kernel_patterns WHERE pattern <> lower(pattern)");
    assert!(upper.is_empty(), "{upper:?}");
    let twice = lines(
        &connection,
        "SELECT pattern FROM kernel_patterns GROUP BY purpose, pattern HAVING count(*) > 1",
    );
    assert!(twice.is_empty(), "{twice:?}");
    let mixed = lines(
        &connection,
        "SELECT purpose || ' ' || priority FROM kernel_patterns
         GROUP BY purpose, priority HAVING count(DISTINCT class) > 1",
    );
    assert!(mixed.is_empty(), "a priority is one class: {mixed:?}");
}

#[test]
fn names_of_devices_get_their_peaks() {
    let registry = Registry::load(None).expect("the registry loads");
    let text = &registry.view("device_peaks").expect("a view").text;
    let connection = Connection::open_in_memory().expect("DuckDB starts");
    connection.execute_batch(&format!("CREATE VIEW device_peaks AS\n{text}")).expect("a view");
    let names = [
        ("NVIDIA B300 SXM6 AC", "8000.0"),
        ("NVIDIA GB200", "8000.0"),
        ("NVIDIA H200", "4800.0"),
        ("NVIDIA GH200 480GB", "4000.0"),
        ("NVIDIA GH200 144G HBM3e", "4900.0"),
        ("NVIDIA H100 80GB HBM3", "3350.0"),
        ("NVIDIA H100 PCIe", "2000.0"),
        ("NVIDIA H100 NVL", "3900.0"),
        ("NVIDIA A100-SXM4-80GB", "2039.0"),
        ("NVIDIA A100-SXM4-40GB", "1555.0"),
        ("NVIDIA A100 80GB PCIe", "1935.0"),
        ("Tesla V100-SXM2-32GB", "900.0"),
        ("AMD Instinct MI300X VF", "5300.0"),
        ("AMD Instinct MI350X", "8000.0"),
        ("TPU v5 lite", "819.0"),
        ("TPU v5", "2765.0"),
        ("TPU v6 lite", "1640.0"),
        ("tpu_v6e", "1640.0"),
        ("AMD Radeon Graphics", "none"),
    ];
    for (name, expected) in names {
        let found = lines(
            &connection,
            &format!(
                "SELECT hbm_gb_per_s::VARCHAR FROM device_peaks WHERE lower({}) LIKE pattern
                 ORDER BY priority, length(pattern) DESC, pattern LIMIT 1",
                sql_string(name)
            ),
        );
        assert_eq!(found.first().map_or("none", String::as_str), expected, "{name}");
    }
}

/// Ingest tells communication by a list of its own: both say the same of every name, and of every
/// pattern.
#[test]
fn ingest_and_patterns_agree_on_communication() {
    let connection = connection();
    let words = |filter: &str| {
        lines(
            &connection,
            &format!(
                "SELECT DISTINCT n.name FROM kernel_names AS n
                 WHERE n.name IS NOT NULL AND n.source <> 'xla' AND n.name NOT LIKE 'triton%'
                     AND {filter} EXISTS (
                     SELECT 1 FROM kernel_patterns AS p
                     WHERE p.purpose = 'kernel' AND p.class = 'communication'
                         AND lower(n.name) LIKE p.pattern
                         AND (p.unless IS NULL OR lower(n.name) NOT LIKE p.unless)
                 )"
            ),
        )
    };
    let (comm, not) = (words(""), words("NOT"));
    assert!(comm.len() > 20 && not.len() > 400, "{} and {} names", comm.len(), not.len());
    let wrong: Vec<&String> = comm
        .iter()
        .filter(|name| !is_comm_kernel(name))
        .chain(not.iter().filter(|name| is_comm_kernel(name)))
        .collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    let patterns = lines(
        &connection,
        "SELECT replace(pattern, '%', 'x') FROM kernel_patterns
         WHERE purpose = 'kernel' AND class = 'communication'",
    );
    let unknown: Vec<&String> = patterns.iter().filter(|name| !is_comm_kernel(name)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

/// The operators that launch kernels of a name which says nothing vote with the time of these.
#[test]
fn a_name_has_one_class() {
    let connection = Connection::open_in_memory().expect("DuckDB starts");
    connection
        .execute_batch(
            "CREATE TABLE kernel_times AS SELECT * FROM (VALUES
                 ('t', 'kineto', 'compute', 'opaque', 'aten::add', 60),
                 ('t', 'kineto', 'compute', 'opaque', 'aten::mm', 40),
                 ('t', 'kineto', 'compute', 'opaque', 'aten::bmm', 30),
                 ('t', 'kineto', 'compute', 'opaque', 'my::operator', 500),
                 ('t', 'kineto', 'compute', 'opaque', NULL, 500),
                 ('t', 'kineto', 'compute', 'silent', NULL, 5),
                 ('u', 'kineto', 'compute', 'opaque', 'aten::add', 1)
             ) AS k(trace, source, class, name, op_name, dur_ns);
             CREATE TABLE _category_sums AS SELECT trace, class, name, NULL AS hlo_category
                 FROM kernel_times WHERE source = 'xla';",
        )
        .expect("the tables can be made");
    views(&connection);
    let found = lines(
        &connection,
        "SELECT concat_ws(' ', trace, name, kernel_class, coalesce(judged_by, '-'), count(*))
         FROM kernel_classes GROUP BY trace, name, kernel_class, judged_by ORDER BY ALL",
    );
    assert_eq!(
        found,
        ["t opaque gemm operator 5", "t silent other - 1", "u opaque elementwise operator 1"]
    );
}

/// Kernels whose names say nothing on purpose: MTIA names whole graphs (`merge`), an example of the
/// Kineto documentation one called `Kernel`, and a spin kernel only waits.
const OPAQUE: &str = "trace LIKE '%mtia%' OR name = 'Kernel' OR name LIKE '%::spin_kernel(long)'";

/// Trace, and shares of classes in percent that others counted (formats_kineto, section 10).
const SHARES: [(&str, &[(&str, f64)]); 7] = [
    (
        "semantic_purity_qwen3_30b_a3b.B300",
        &[
            ("gemm", 73.5),
            ("attention", 7.2),
            ("normalization", 7.6),
            ("embedding", 0.2),
            ("moe", 7.6),
            ("copy", 3.1),
            ("elementwise", 0.5),
            ("reduction", 0.2),
        ],
    ),
    (
        "MI300",
        &[
            ("gemm", 15.1),
            ("attention", 9.8),
            ("normalization", 7.8),
            ("embedding", 0.1),
            ("moe", 57.7),
            // Of it 0.1 % that others count as elementwise: copies of PyTorch that change the type.
            ("copy", 8.7),
            ("elementwise", 0.2),
            ("reduction", 0.5),
        ],
    ),
    (
        "nccl_parser_config",
        &[
            ("communication", 28.8),
            ("gemm", 25.4),
            ("normalization", 19.3),
            ("copy", 9.3),
            ("elementwise", 17.1),
            ("reduction", 0.1),
        ],
    ),
    (
        "resnet_act_checkpoint",
        &[
            ("communication", 73.5),
            ("gemm", 6.4),
            ("normalization", 8.8),
            ("copy", 7.6),
            ("elementwise", 3.6),
        ],
    ),
    (
        "timeline_analysis",
        &[
            ("communication", 65.3),
            ("gemm", 11.2),
            ("normalization", 0.2),
            ("embedding", 17.8),
            ("copy", 2.1),
            ("elementwise", 1.8),
            ("reduction", 1.6),
        ],
    ),
    (
        "dlrm_8rank",
        &[
            ("communication", 84.6),
            ("gemm", 2.8),
            ("embedding", 2.1),
            ("copy", 1.5),
            ("elementwise", 6.4),
            ("reduction", 2.6),
        ],
    ),
    ("resnet_kineto", &[("gemm", 67.4), ("normalization", 15.9), ("elementwise", 16.6)]),
];

#[test]
fn kernels_of_real_traces_have_known_classes() {
    let Some(traces) = traces("kernels_of_real_traces_have_known_classes") else {
        return;
    };
    let roots = ["kineto", "nsys", "xla"].map(|r| traces.join(r).to_string_lossy().into_owned());
    let mut args = vec!["ingest", "-q"];
    args.extend(roots.iter().map(String::as_str));
    let place = Place::new();
    place.run(&args).done();
    let tables = place.tables();
    let kernels = "SELECT t.trace, t.name, t.dur_ns, c.kernel_class
        FROM kernel_times AS t
        INNER JOIN kernel_classes AS c ON c.trace = t.trace AND c.source = t.source
            AND c.class = t.class AND c.name = t.name AND c.op_name IS NOT DISTINCT FROM t.op_name";
    let lost = format!("SELECT count(*) - (SELECT count(*) FROM ({kernels})) FROM kernel_times");
    assert_eq!(tables.int(&lost), 0, "every kernel has one class");
    let other = tables.query(&format!(
        "SELECT trace, 100.0 * coalesce(sum(dur_ns) FILTER (
             WHERE kernel_class = 'other' AND NOT ({OPAQUE})), 0) / sum(dur_ns) AS pct
         FROM ({kernels}) GROUP BY trace ORDER BY trace"
    ));
    assert!(other.rows.len() > 50, "{} traces with kernels", other.rows.len());
    for row in 0..other.rows.len() {
        let pct: f64 = other.get(row, "pct").unwrap_or("100").parse().expect("a number");
        assert!(pct < 10.0, "{:?} has {pct} % in other", other.get(row, "trace"));
    }
    let found = tables.query(&format!(
        "SELECT trace || ' ' || kernel_class AS key,
             100.0 * sum(dur_ns) / sum(sum(dur_ns)) OVER (PARTITION BY trace) AS pct
         FROM ({kernels}) GROUP BY trace, kernel_class"
    ));
    let found: BTreeMap<&str, f64> = (0..found.rows.len())
        .map(|row| {
            let pct = found.get(row, "pct").and_then(|pct| pct.parse().ok());
            (found.get(row, "key").expect("a key"), pct.expect("a number"))
        })
        .collect();
    for (trace, shares) in SHARES {
        for (class, expected) in shares {
            let pct = found.get(format!("{trace} {class}").as_str()).copied().unwrap_or(0.0);
            assert!(
                (pct - expected).abs() <= 0.051,
                "{trace} {class}: {pct}, should be {expected}"
            );
        }
    }
}
