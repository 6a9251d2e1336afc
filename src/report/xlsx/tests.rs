use std::io::{Cursor, Read};

use serde_json::{Value, json};

use super::*;
use crate::report::sheet::SheetColumn;

fn sheet(columns: &[&str], rows: Vec<Vec<Value>>) -> Sheet {
    let columns =
        columns.iter().map(|c| SheetColumn { name: (*c).to_owned(), ..SheetColumn::default() });
    Sheet { name: "sheet".to_owned(), columns: columns.collect(), rows, ..Sheet::default() }
}

fn part(book: &[u8], name: &str) -> String {
    let mut archive = zip::ZipArchive::new(Cursor::new(book)).expect("a zip archive");
    let mut text = String::new();
    archive
        .by_name(name)
        .unwrap_or_else(|e| panic!("{name}: {e}"))
        .read_to_string(&mut text)
        .expect("text");
    text
}

fn parts(book: &[u8]) -> Vec<String> {
    let archive = zip::ZipArchive::new(Cursor::new(book)).expect("a zip archive");
    archive.file_names().map(|name| name.expect("a name").into_owned()).collect()
}

fn book(pages: &[Page<'_>]) -> Vec<u8> {
    write(pages, &Properties::default()).expect("a workbook")
}

fn one(sheet: &Sheet) -> Vec<u8> {
    book(&[Page::new("page", sheet)])
}

/// Texts of the workbook, in the order of their first cell.
fn texts(book: &[u8]) -> Vec<String> {
    let xml = part(book, "xl/sharedStrings.xml");
    let text = |item: &str| {
        let start = item.find('>').map_or(0, |i| i + 1);
        item[start..].split("</t>").next().unwrap_or("").to_owned()
    };
    xml.split("<t").skip(1).filter(|t| t.starts_with(['>', ' '])).map(text).collect()
}

const PAGE: &str = "xl/worksheets/sheet1.xml";

#[test]
fn text_stays_text() {
    let labels = [
        "=cmd()",
        "+1",
        "-2",
        "@x",
        "http://a.b/",
        "12",
        "<a>&\"",
        "漢字 ünï",
        "_x0041_",
        "a\u{1b}b",
    ];
    let rows = labels.iter().map(|l| vec![json!(l)]).chain([vec![json!("é".repeat(200))]]);
    let sheet = sheet(&["label"], rows.collect());
    for in_memory in [usize::MAX, 0] {
        let limits = Limits { in_memory, ..LIMITS };
        let book = write_within(&[Page::new("page", &sheet)], &Properties::default(), limits)
            .expect("a workbook");
        let page = part(&book, PAGE);
        assert!(!page.contains("<f>") && !page.contains("hyperlink"), "{page}");
        assert_eq!(page.matches(r#"t="s""#).count(), 1 + labels.len() + 1, "{page}");
        let long = "é".repeat(200);
        let want = [
            "label",
            "=cmd()",
            "+1",
            "-2",
            "@x",
            "http://a.b/",
            "12",
            "&lt;a&gt;&amp;\"",
            "漢字 ünï",
            "_x005F_x0041_",
            "a\\u{1b}b",
            long.as_str(),
        ];
        assert_eq!(texts(&book), want);
    }
    assert!(part(&one(&sheet), "xl/styles.xml").contains("quotePrefix=\"1\""));
}

#[test]
fn values_are_stored_in_full_and_null_is_no_cell() {
    let mut sheet = sheet(
        &["id", "x_ms", "b", "j"],
        vec![
            vec![json!(12), json!(1_234.567_890_123), json!(true), json!({"k": [1, null]})],
            vec![Value::Null, json!(0.000_25), Value::Null, json!([1, 2])],
            vec![json!(9_007_199_254_740_993_i64), json!(-1e-9), json!(false), Value::Null],
        ],
    );
    sheet.columns[1].unit = Some("ms".to_owned());
    let book = one(&sheet);
    let page = part(&book, PAGE);
    for cell in [
        r#"<c r="A2" s="1"><v>12</v></c>"#,
        "<v>1234.567890123</v>",
        "<v>0.00025</v>",
        "<v>-0.000000001</v>",
        r#"t="b"><v>1</v>"#,
    ] {
        assert!(page.contains(cell), "{cell} in {page}");
    }
    assert!(!page.contains(r#"r="A3""#) && !page.contains(r#"r="D4""#), "{page}");
    // An id that no double holds keeps its digits, as text; what can be summed stays a number.
    let texts = texts(&book);
    assert!(texts.contains(&"9007199254740993".to_owned()), "{texts:?}");
    let mut flops = self::sheet(&["flops"], vec![vec![json!(9_007_199_254_740_993_i64)]]);
    flops.columns[0].unit = Some("flops".to_owned());
    assert!(part(&one(&flops), PAGE).contains("<v>9007199254740992</v>"));
    assert!(texts.contains(&r#"{"k":[1,null]}"#.to_owned()), "{texts:?}");
    let styles = part(&book, "xl/styles.xml");
    // The column, its small number, its tiny one.
    for format in ["0.00\"", "0.000000000", "0.00000E+00"] {
        assert!(styles.contains(format), "{format} in {styles}");
    }
    let times = self::sheet(&["ts"], vec![vec![json!(1_700_000_000_123_456.5)]]);
    assert!(!part(&one(&times), "xl/styles.xml").contains("E+00"));
}

#[test]
fn a_page_is_a_table_with_a_frozen_header() {
    let mut sheet =
        sheet(&["rank", "Rank", "time_ms"], vec![vec![json!(0), json!(1), json!(2.5)]; 4]);
    sheet.columns[2].heading = Some("time ms".to_owned());
    sheet.columns[2].doc = "Time of <it>.".to_owned();
    let book = one(&sheet);
    let table = part(&book, "xl/tables/table1.xml");
    assert!(table.contains(r#"displayName="table_page" ref="A1:C5""#), "{table}");
    assert!(table.contains(r#"<autoFilter ref="A1:C5"/>"#), "{table}");
    assert!(table.contains("TableStyleMedium2"), "{table}");
    for name in [r#"name="rank""#, r#"name="Rank_2""#, r#"name="time ms""#] {
        assert!(table.contains(name), "{name} in {table}");
    }
    let page = part(&book, PAGE);
    assert!(page.contains(r#"ySplit="1""#) && page.contains(r#"state="frozen""#), "{page}");
    assert!(part(&book, "xl/comments1.xml").contains("Time of &lt;it&gt;."));
    let page = Page { notes: false, ..Page::new("page", &sheet) };
    let book = write(&[page], &Properties::default()).expect("a workbook");
    assert!(!parts(&book).iter().any(|p| p.contains("comments")));
}

#[test]
fn tabs_and_tables_keep_the_rules_of_excel() {
    let sheet = sheet(&["a"], vec![vec![json!(1)]]);
    let names = [
        "a[b]:c*d?e/f\\g",
        "gpu_timeline_by_rank of 37cu_384threads",
        "GPU_timeline_by_rank of 37cu_384threads and more",
        "History",
        "'quoted'",
        "",
        "漢😀漢😀漢😀漢😀漢😀漢😀漢😀漢😀漢😀漢😀漢😀",
    ];
    let pages: Vec<Page<'_>> = names.iter().map(|n| Page::new(n, &sheet)).collect();
    let book = book(&pages);
    let xml = part(&book, "xl/workbook.xml");
    let tabs: Vec<&str> =
        xml.split("<sheet name=\"").skip(1).map(|t| t.split('"').next().unwrap_or("")).collect();
    assert_eq!(
        tabs,
        [
            "a_b__c_d_e_f_g",
            "gpu_timeline_by_rank of 37cu_3…",
            "GPU_timeline_by_rank of 37cu…_2",
            "history_",
            "quoted",
            "page",
            "漢😀漢😀漢😀漢😀漢😀漢😀漢😀漢😀漢😀漢😀…",
        ]
    );
    assert!(tabs.iter().all(|t| t.encode_utf16().count() <= 31));
    let mut tables: Vec<String> = (1..=names.len())
        .map(|i| part(&book, &format!("xl/tables/table{i}.xml")))
        .filter_map(|t| Some(t.split("displayName=\"").nth(1)?.split('"').next()?.to_lowercase()))
        .collect();
    tables.sort();
    tables.dedup();
    assert_eq!(tables.len(), names.len(), "{tables:?}");
    // A reader sees what the tab could not hold.
    assert!(texts(&book).contains(&format!("Page {}", names[1])));
}

#[test]
fn a_column_is_as_wide_as_its_numbers() {
    let width = |value: Value| -> f64 {
        let xml = part(&one(&sheet(&["a"], vec![vec![value]])), PAGE);
        let text = xml.split_once(" width=\"").expect("a width").1;
        text.split('"').next().expect("an end").parse().expect("a number")
    };
    // Fractions may get their own format, with up to nine decimals.
    assert!(width(json!(0.5)) > width(json!(5)));
    assert!(width(json!(0.5)) >= 11.0);
    assert!(width(json!(123_456_789_012_i64)) > width(json!(5)) + 5.0);
}

#[test]
fn hidden_pages_are_hidden_but_never_all() {
    let sheet = sheet(&["a"], vec![vec![json!(1)]]);
    let page = |name, hidden| Page { hidden, ..Page::new(name, &sheet) };
    let xml = part(&book(&[page("raw", true), page("shown", false)]), "xl/workbook.xml");
    assert!(xml.contains(r#"name="raw" sheetId="1" state="hidden""#), "{xml}");
    assert!(xml.contains(r#"name="shown" sheetId="2" r:id"#), "{xml}");
    assert!(xml.contains(r#"activeTab="1""#), "{xml}");
    let xml = part(&book(&[page("a", true), page("b", true)]), "xl/workbook.xml");
    assert!(xml.contains(r#"name="a" sheetId="1" r:id"#), "{xml}");
}

#[test]
fn an_empty_sheet_says_why() {
    let mut empty = sheet(&["a"], vec![]);
    empty.reason = Some("the trace has no\ncollective".to_owned());
    let book = one(&empty);
    assert_eq!(texts(&book), ["the trace has no collective"]);
    assert!(!parts(&book).iter().any(|p| p.contains("table")));
    assert_eq!(texts(&one(&sheet(&[], vec![]))), ["No rows."]);

    let mut some = sheet(&["a"], vec![vec![json!("x")]]);
    some.reason = Some("one rank of two".to_owned());
    let book = one(&some);
    assert_eq!(texts(&book), ["one rank of two", "a", "x"]);
    assert!(part(&book, "xl/tables/table1.xml").contains(r#"ref="A3:A4""#));
}

#[test]
fn lists_by_rank_become_columns() {
    let rows = vec![
        vec![json!(0), json!([{"rank": 10, "ts": 5, "dur": 1.5}, {"rank": 2, "ts": 3}])],
        vec![json!(1), Value::Null],
        vec![json!(2), json!([{"rank": 2, "dur": 7, "wait_time": null}])],
    ];
    let book = one(&sheet(&["id", "by_rank"], rows));
    let headings = [
        "id",
        "rank_2_ts",
        "rank_2_dur",
        "rank_2_wait_time",
        "rank_10_ts",
        "rank_10_dur",
        "rank_10_wait_time",
    ];
    assert_eq!(texts(&book), headings);
    let page = part(&book, PAGE);
    for (cell, value) in [("B2", "3"), ("E2", "5"), ("F2", "1.5"), ("C4", "7")] {
        let (_, rest) = page.split_once(&format!(r#"<c r="{cell}""#)).expect(cell);
        assert!(rest.split_once("<v>").expect(cell).1.starts_with(&format!("{value}<")), "{cell}");
    }
    assert_eq!(page.matches("<v>").count(), headings.len() + 3 + 4, "{page}");

    for other in
        [json!([1, 2]), json!([{"rank": 1, "x": 1}, {"rank": 1, "x": 2}]), json!([{"a": 1}])]
    {
        let text = other.to_string();
        assert_eq!(texts(&one(&sheet(&["l"], vec![vec![other]]))), ["l", text.as_str()]);
    }
}

/// What Excel would take for an escape in a heading is none there: table and page say the same.
#[test]
fn a_heading_holds_no_escape() {
    let names = ["a_x0041_b", "_x00", "_x0041", "_xyz__x00e9__x0"];
    let table = part(&one(&sheet(&names, vec![vec![json!(1); 4]])), "xl/tables/table1.xml");
    for name in ["a_X0041_b", "_x00", "_x0041", "_xyz__X00e9__x0"] {
        assert!(table.contains(&format!(r#"name="{name}""#)), "{name}: {table}");
    }
}

#[test]
fn one_long_cell_is_said_in_the_singular() {
    let rows = vec![vec![json!("a")], vec![json!("b".repeat(40_000))]];
    let texts = texts(&one(&sheet(&["a"], rows)));
    assert_eq!(texts[0], "1 cell is cut: a cell holds 32767 characters.");
}

#[test]
fn what_the_format_cannot_hold_is_said() {
    let limits = Limits { rows: 6, columns: 3, in_memory: usize::MAX };
    let ranks: Vec<Value> = (0..4).map(|r| json!({"rank": r, "x": r})).collect();
    let rows = vec![vec![json!("é".repeat(40_000)), json!(ranks), json!("after")]; 9];
    let book = write_within(
        &[Page::new("page", &sheet(&["a", "by_rank", "b"], rows))],
        &Properties::default(),
        limits,
    )
    .expect("a workbook");
    let texts = texts(&book);
    assert_eq!(
        texts[..6],
        [
            "3 of 6 columns: a page of a workbook holds no more.",
            "9 cells are cut: a cell holds 32767 characters.",
            "1 of 9 rows: a page of a workbook holds no more.",
            "a",
            "rank_0_x",
            "rank_1_x",
        ]
    );
    assert_eq!(texts[6].encode_utf16().count(), 32_767);
    assert!(texts[6].ends_with('…') && texts.len() == 7);
    assert!(part(&book, "xl/tables/table1.xml").contains(r#"ref="A5:C6""#));
    let heading = "h".repeat(300);
    let table =
        part(&one(&sheet(&[&heading, &heading], vec![vec![json!(1)]])), "xl/tables/table1.xml");
    assert!(table.contains(&format!(r#"name="{}…""#, "h".repeat(254))), "{table}");
    assert!(table.contains(&format!(r#"name="{}…_2""#, "h".repeat(252))), "{table}");
}

#[test]
fn colours_do_not_depend_on_the_values() {
    let mut sheet =
        sheet(&["up", "down", "status"], vec![vec![json!(1.5), json!(2), json!("Better")]]);
    sheet.columns[1].better = Some("lower".to_owned());
    let page = Page { scales: &["up", "down"], ..Page::new("page", &sheet) };
    let xml = part(&book(&[page]), PAGE);
    let scale = |low: &str, high: &str| {
        format!(
            "<colorScale><cfvo type=\"num\" val=\"-20\"/><cfvo type=\"num\" val=\"0\"/>\
             <cfvo type=\"num\" val=\"20\"/><color rgb=\"{low}\"/><color rgb=\"FFFFFFFF\"/>\
             <color rgb=\"{high}\"/></colorScale>"
        )
    };
    let (red, green) = ("FFF8696B", "FF63BE7B");
    assert!(xml.contains(&scale(red, green)) && xml.contains(&scale(green, red)), "{xml}");
    for word in ["Better", "Worse", "Similar"] {
        assert!(xml.contains(&format!("<formula>\"{word}\"</formula>")), "{word} in {xml}");
    }
}

#[test]
fn the_same_pages_give_the_same_bytes() {
    let rows = (0..300).map(|i| vec![json!(format!("k{i}")), json!(f64::from(i) / 7.0), json!(i)]);
    let sheet = sheet(&["name", "x_pct", "status"], rows.collect());
    let page = |name| Page { scales: &["x_pct"], ..Page::new(name, &sheet) };
    let pages = [page("a"), page("b"), page("c")];
    let write = |in_memory| {
        write_within(&pages, &Properties::default(), Limits { in_memory, ..LIMITS }).expect("bytes")
    };
    let first = write(usize::MAX);
    assert!(first == write(usize::MAX));
    // Through the temporary file it is the same page, less how its memory is laid out.
    let low = write(0);
    assert!(low == write(0));
    assert_eq!(part(&first, "xl/sharedStrings.xml"), part(&low, "xl/sharedStrings.xml"));
    for name in parts(&first) {
        let mut archive = zip::ZipArchive::new(Cursor::new(&first)).expect("a zip archive");
        let time = archive.by_name(&name).expect("its entry").last_modified().expect("a time");
        assert_eq!((time.year(), time.month(), time.day(), time.hour()), (1980, 1, 1, 0), "{name}");
    }
    assert!(part(&first, "docProps/core.xml").contains("1980-01-01T00:00:00Z"));
}

#[test]
#[ignore = "seconds"]
fn slow_a_large_page_needs_less_memory_than_its_rows() {
    let rows: u32 = 100_000;
    let names: Vec<String> = (0..20).map(|i| format!("column_{i}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let cells = |r: u32| {
        (0..20_u32)
            .map(|c| match c % 4 {
                0 => json!(r),
                1 => json!(format!("kernel_{}", (r * 31 + c) % 1000)),
                _ => json!(f64::from(r * 20 + c) / 7.0),
            })
            .collect()
    };
    let memory = |key: &str| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|l| l.strip_prefix(key)).unwrap_or("");
        line.trim_matches([':', '\t', ' ', 'k', 'B']).parse::<u64>().unwrap_or(0)
    };
    let start = memory("VmRSS");
    let sheet = sheet(&names, (0..rows).map(cells).collect());
    let with_rows = memory("VmRSS");
    let book = one(&sheet);
    let peak = memory("VmHWM");
    assert_eq!(part(&book, PAGE).matches("<row ").count(), 100_001);
    assert!(part(&book, "xl/tables/table1.xml").contains(r#"ref="A1:T100001""#));
    let facts = format!("start {start} kB, with rows {with_rows} kB, peak {peak} kB");
    assert!(peak - with_rows <= with_rows - start, "{facts}");
}
