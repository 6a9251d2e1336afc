//! CSV as the program writes it: an empty field is NULL, `""` is empty text. Comparing is exact,
//! but for doubles, also those inside JSON cells.

use serde_json::Value;

/// Relative difference that two doubles may have: sums depend on the order of their terms.
const TOLERANCE: f64 = 1e-9;

/// A field; None is NULL.
pub type Cell = Option<String>;

/// A header and rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Csv {
    /// Names.
    pub columns: Vec<String>,
    /// Fields, as many as there are names.
    pub rows: Vec<Vec<Cell>>,
}

impl Csv {
    /// Reads a text.
    ///
    /// # Panics
    /// When a quote stays open, or a row is longer or shorter than the header.
    pub fn parse(text: &str) -> Self {
        let mut records: Vec<Vec<Cell>> = Vec::new();
        let (mut record, mut field) = (Vec::new(), String::new());
        let (mut quoted, mut inside) = (false, false);
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '"' if inside && chars.peek() == Some(&'"') => {
                    chars.next();
                    field.push('"');
                }
                '"' => (quoted, inside) = (true, !inside),
                ',' | '\n' if !inside => {
                    let text = std::mem::take(&mut field);
                    record.push((quoted || !text.is_empty()).then_some(text));
                    quoted = false;
                    if c == '\n' {
                        records.push(std::mem::take(&mut record));
                    }
                }
                '\r' if !inside => {}
                c => field.push(c),
            }
        }
        assert!(!inside, "a quote stays open in {text:?}");
        assert!(record.is_empty() && field.is_empty(), "the last line has no end: {text:?}");
        let mut records = records.into_iter();
        let columns: Vec<String> =
            records.next().unwrap_or_default().into_iter().map(Option::unwrap_or_default).collect();
        let rows: Vec<_> = records.collect();
        for row in &rows {
            assert_eq!(row.len(), columns.len(), "{row:?} against {columns:?}");
        }
        Self { columns, rows }
    }

    /// The index of a column.
    pub fn index(&self, column: &str) -> Option<usize> {
        self.columns.iter().position(|c| c == column)
    }

    /// The field of a column.
    ///
    /// # Panics
    /// When there is no such column or row.
    pub fn get(&self, row: usize, column: &str) -> Option<&str> {
        let index = self.index(column).unwrap_or_else(|| panic!("no column {column}"));
        self.rows[row][index].as_deref()
    }
}

/// Differences between the rows of an expected file and those that came, in words.
pub fn rows_differ(expected: &str, actual: &str) -> Vec<String> {
    if expected.is_empty() {
        return vec!["the file is empty: write the rows, or bless".to_owned()];
    }
    differences(&Csv::parse(expected), &Csv::parse(actual))
}

/// Differences between two tables, in words; empty when there are none.
fn differences(expected: &Csv, actual: &Csv) -> Vec<String> {
    if expected.columns != actual.columns {
        return vec![format!(
            "columns: expected {}, got {}",
            expected.columns.join(","),
            actual.columns.join(",")
        )];
    }
    let mut out = Vec::new();
    if expected.rows.len() != actual.rows.len() {
        out.push(format!("rows: expected {}, got {}", expected.rows.len(), actual.rows.len()));
    }
    for (i, (e, a)) in expected.rows.iter().zip(&actual.rows).enumerate() {
        for (column, (e, a)) in expected.columns.iter().zip(e.iter().zip(a)) {
            if !same(e, a) {
                out.push(format!("row {}, {column}: expected {}, got {}", i + 1, show(e), show(a)));
            }
        }
    }
    out
}

fn show(cell: &Cell) -> String {
    cell.as_ref().map_or_else(|| "NULL".to_owned(), |text| format!("{text:?}"))
}

fn same(expected: &Cell, actual: &Cell) -> bool {
    let (Some(expected), Some(actual)) = (expected, actual) else { return expected == actual };
    if expected == actual {
        return true;
    }
    let json = |text: &str| serde_json::from_str::<Value>(text).ok();
    match (json(expected), json(actual)) {
        (Some(expected), Some(actual)) => near(&expected, &actual),
        _ => false,
    }
}

/// Equal values; doubles within the tolerance, and a double never equals an integer.
pub fn near(expected: &Value, actual: &Value) -> bool {
    match (expected, actual) {
        (Value::Number(e), Value::Number(a)) => {
            let (e, a) = (e.to_string(), a.to_string());
            let double = |text: &str| text.contains(['.', 'e', 'E']);
            if !double(&e) || !double(&a) {
                return e == a;
            }
            match (e.parse::<f64>(), a.parse::<f64>()) {
                (Ok(e), Ok(a)) => (e - a).abs() <= TOLERANCE * e.abs().max(a.abs()),
                _ => false,
            }
        }
        (Value::Array(e), Value::Array(a)) => {
            e.len() == a.len() && e.iter().zip(a).all(|(e, a)| near(e, a))
        }
        (Value::Object(e), Value::Object(a)) => {
            e.len() == a.len() && e.iter().zip(a).all(|(e, a)| e.0 == a.0 && near(e.1, a.1))
        }
        _ => expected == actual,
    }
}

#[test]
fn null_and_empty_text_differ() {
    let csv = Csv::parse("a,b\n,\"\"\n1,\"x \"\"y\"\", z\"\n");
    assert_eq!(csv.rows[0], [None, Some(String::new())]);
    assert_eq!(csv.get(1, "b"), Some("x \"y\", z"));
    let other = Csv::parse("a,b\n\"\",\"\"\n1,\"x \"\"y\"\", z\"\n");
    assert_eq!(differences(&csv, &other), ["row 1, a: expected NULL, got \"\""]);
}

#[test]
fn only_doubles_have_a_tolerance() {
    let cell = |text: &str| Some(text.to_owned());
    assert!(same(&cell("0.3"), &cell("0.30000000000000004")));
    assert!(same(&cell("{\"0\":0.3}"), &cell("{\"0\":0.30000000000000004}")));
    assert!(!same(&cell("0.3"), &cell("0.3000001")));
    assert!(!same(&cell("1000000000000"), &cell("1000000000001")));
    assert!(!same(&cell("2"), &cell("2.0")), "the type of a column changed");
    assert!(!same(&cell("{\"0\":1}"), &cell("{\"1\":1}")));
    assert!(!same(&cell("0"), &None));
}
