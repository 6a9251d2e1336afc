//! The columns of a page: lists by rank spread out, formats and widths from the values.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;
use unicode_width::UnicodeWidthStr;

use crate::report::sheet::{Sheet, SheetColumn};
use crate::report::xlsx::names::{self, Names};

/// Limits of the format, and of memory; smaller in tests.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Rows of a page.
    pub(super) rows: usize,
    /// Columns of a page.
    pub(super) columns: usize,
    /// Cells above which a page is written through a temporary file.
    pub(super) in_memory: usize,
}

/// Integers above this are no doubles of their own; Excel has doubles only.
const EXACT: u64 = 1 << 53;

/// The largest number that Excel takes.
const LARGEST: f64 = 9.999_999_999_999_99e307;

/// Widths of columns, in characters.
const WIDTHS: (f64, f64) = (6.0, 60.0);

/// Decimals by their number.
const DECIMALS: [&str; 10] = [
    "0",
    "0.0",
    "0.00",
    "0.000",
    "0.0000",
    "0.00000",
    "0.000000",
    "0.0000000",
    "0.00000000",
    "0.000000000",
];

/// Numbers from here on are shown by powers of ten; timestamps (19 digits of nanoseconds at most)
/// are not.
const LONGEST: f64 = 1e19;

const SCIENTIFIC: &str = "0.00000E+00";

static NULL: Value = Value::Null;

/// A value as Excel can store it.
pub(super) enum Cell<'a> {
    /// NULL. Empty text is the same to Excel.
    Empty,
    /// TRUE or FALSE.
    Bool(bool),
    /// A double.
    Number {
        /// The number.
        value: f64,
        /// Whether the number came as an integer.
        integer: bool,
    },
    /// Text; also ids that would lose digits as doubles, and the JSON of lists and structs.
    Text(Cow<'a, str>),
}

impl<'a> Cell<'a> {
    /// `quantity`: a number that has a unit stays a number, whatever its last digits.
    pub(super) fn of(value: &'a Value, quantity: bool) -> Self {
        match value {
            Value::Null => Self::Empty,
            Value::Bool(b) => Self::Bool(*b),
            Value::String(text) => Self::Text(names::cell(text)),
            Value::Array(_) | Value::Object(_) => {
                Self::Text(Cow::Owned(names::cell(&value.to_string()).into_owned()))
            }
            Value::Number(number) => {
                let text = number.to_string();
                let integer = !text.contains(['.', 'e', 'E']);
                match number.as_f64().map(|x| if x == 0.0 { 0.0 } else { x }) {
                    Some(value)
                        if value.abs() <= LARGEST
                            && (!integer
                                || quantity
                                || number.as_i64().is_some_and(|i| i.unsigned_abs() <= EXACT)) =>
                    {
                        Self::Number { value, integer }
                    }
                    _ => Self::Text(Cow::Owned(text)),
                }
            }
        }
    }
}

/// A column of the page.
#[derive(Debug, Default)]
pub(super) struct Column {
    pub(super) heading: String,
    pub(super) lower_is_better: bool,
    name: String,
    unit: Option<String>,
    doc: String,
    /// Numbers seen, and whether all are integers.
    numbers: usize,
    fractions: bool,
    /// The largest number without its sign, and whether one has a sign.
    largest: f64,
    negative: bool,
    /// Width of the widest text.
    text: usize,
}

impl Column {
    fn of(column: &SheetColumn, heading: String) -> Self {
        Self {
            heading,
            lower_is_better: column.better.as_deref() == Some("lower"),
            name: column.name.clone(),
            unit: column.unit.clone(),
            doc: column.doc.clone(),
            ..Self::default()
        }
    }

    /// Whether the column has this name in SQL, or this heading.
    pub(super) fn is_called(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name) || self.heading.eq_ignore_ascii_case(name)
    }

    /// Whether its numbers have a unit; without one they may be ids.
    pub(super) fn is_quantity(&self) -> bool {
        self.unit.is_some()
    }

    /// The note of the heading: a sentence about the column, and its unit.
    pub(super) fn note(&self) -> Option<String> {
        let mut parts = Vec::new();
        parts.extend((!self.doc.is_empty()).then(|| names::line(&self.doc)));
        parts.extend(self.unit.as_ref().map(|unit| format!("Unit: {}", names::line(unit))));
        (!parts.is_empty()).then(|| parts.join("\n"))
    }

    fn see(&mut self, cell: &Cell<'_>) {
        match cell {
            Cell::Empty => {}
            Cell::Bool(_) => self.text = self.text.max(5),
            Cell::Number { value, integer } => {
                self.numbers += 1;
                self.fractions |= !integer;
                self.largest = self.largest.max(value.abs());
                self.negative |= *value < 0.0;
            }
            Cell::Text(text) => self.text = self.text.max(text.width()),
        }
    }

    /// Decimals of the column: about six digits of its largest number, two of a percentage.
    fn decimals(&self) -> usize {
        match self.unit.as_deref() {
            _ if !self.fractions => 0,
            Some("pct") => 2,
            _ => decimals(self.largest),
        }
    }

    /// Number format of the column; none without numbers.
    pub(super) fn format(&self) -> Option<&'static str> {
        (self.numbers > 0).then(|| DECIMALS[self.decimals()])
    }

    /// Format of a number that the one of the column would show with less than three digits (a
    /// percentage: as 0), or that would be too long.
    pub(super) fn own_format(&self, value: f64) -> Option<&'static str> {
        let size = value.abs();
        if !self.fractions || size == 0.0 {
            return None;
        }
        let shown = self.decimals();
        let kept = match self.unit.as_deref() {
            Some("pct") => 0.005,
            _ => 10_f64.powf(2.0 - shown as f64),
        };
        if !(1e-4..LONGEST).contains(&size) {
            return Some(SCIENTIFIC);
        }
        (size < kept).then(|| DECIMALS[decimals(size)]).filter(|f| *f != DECIMALS[shown])
    }

    /// Width that shows every number, and text and heading up to a limit.
    pub(super) fn width(&self) -> f64 {
        let heading = self.heading.width() + 3;
        let number = match self.numbers {
            0 => 0,
            // Some cell may have its own format, with up to nine decimals.
            _ if self.fractions => {
                let whole =
                    if self.largest < LONGEST { exponent(self.largest).max(0) + 1 } else { 1 };
                let decimals = self.decimals();
                let point = usize::from(decimals > 0);
                (usize::try_from(whole).unwrap_or(1) + point + decimals).max(11)
            }
            _ => usize::try_from(exponent(self.largest).max(0) + 1).unwrap_or(1),
        } + usize::from(self.negative);
        let widest = heading.max(self.text + 1).max(number + 2);
        u16::try_from(widest).map_or(WIDTHS.1, f64::from).clamp(WIDTHS.0, WIDTHS.1)
    }
}

/// Power of ten of the first digit.
fn exponent(size: f64) -> i32 {
    // As text: no rounding of logarithms at powers of ten.
    let text = format!("{size:e}");
    text.split_once('e').and_then(|(_, e)| e.parse().ok()).unwrap_or(0)
}

/// Decimals that show six digits.
fn decimals(size: f64) -> usize {
    usize::try_from((5 - exponent(size)).clamp(0, 9)).unwrap_or(0)
}

/// The columns of the page that a column of the sheet becomes.
#[derive(Debug)]
enum Spread {
    Cell,
    /// A list of structs with a rank: a column for each rank and field, by rank.
    Ranks {
        ranks: BTreeMap<i64, usize>,
        fields: Vec<String>,
    },
}

/// The plan by which a sheet becomes a page.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    pub(super) sheet: &'a Sheet,
    pub(super) columns: Vec<Column>,
    spreads: Vec<Spread>,
    /// Columns there would be without the limit.
    wanted: usize,
    /// Cells that are too long.
    long: usize,
}

impl<'a> Plan<'a> {
    pub(super) fn of(sheet: &'a Sheet, limits: Limits) -> Self {
        let mut plan = Self { sheet, columns: Vec::new(), spreads: Vec::new(), wanted: 0, long: 0 };
        let mut headings = Names::default();
        for (i, column) in sheet.columns.iter().enumerate() {
            let spread = plan.spread(i, limits);
            let room = limits.columns - plan.columns.len();
            match &spread {
                Spread::Cell => {
                    plan.wanted += 1;
                    if room > 0 {
                        let heading = headings.heading(column.heading());
                        plan.columns.push(Column::of(column, heading));
                    }
                }
                Spread::Ranks { ranks, fields } => {
                    plan.wanted += ranks.len() * fields.len();
                    let pairs = ranks.keys().flat_map(|r| fields.iter().map(move |f| (r, f)));
                    for (rank, field) in pairs.take(room) {
                        let heading = headings.heading(&format!("rank_{rank}_{field}"));
                        plan.columns.push(Column::of(column, heading));
                    }
                }
            }
            plan.spreads.push(spread);
        }
        let mut cells = Vec::new();
        for row in &sheet.rows {
            plan.flatten(row, &mut cells);
            for (value, column) in cells.iter().zip(&mut plan.columns) {
                let cell = Cell::of(value, column.is_quantity());
                column.see(&cell);
                if let Cell::Text(text) = &cell {
                    plan.long += usize::from(names::cut(text, names::CELL).1);
                }
            }
        }
        plan
    }

    /// Ranks and fields where every cell of a column is a list of structs with a rank, no rank
    /// twice in a list.
    fn spread(&self, column: usize, limits: Limits) -> Spread {
        let mut ranks = BTreeMap::new();
        let mut fields: Vec<String> = Vec::new();
        let mut list = Vec::new();
        for row in &self.sheet.rows {
            match row.get(column).unwrap_or(&NULL) {
                Value::Null => {}
                Value::Array(elements) => {
                    list.clear();
                    for element in elements {
                        let Some((rank, object)) = ranked(element) else { return Spread::Cell };
                        list.push(rank);
                        ranks.insert(rank, 0);
                        for name in object.keys().filter(|k| *k != "rank") {
                            if !fields.contains(name) {
                                fields.push(name.clone());
                            }
                        }
                    }
                    list.sort_unstable();
                    // A page has no room for more fields than this, for a single rank.
                    if list.windows(2).any(|w| w[0] == w[1]) || fields.len() > limits.columns {
                        return Spread::Cell;
                    }
                }
                _ => return Spread::Cell,
            }
        }
        if ranks.is_empty() || fields.is_empty() {
            return Spread::Cell;
        }
        for (i, place) in ranks.values_mut().enumerate() {
            *place = i;
        }
        Spread::Ranks { ranks, fields }
    }

    /// The cells of a row in the columns of the page.
    pub(super) fn flatten<'r>(&self, row: &'r [Value], out: &mut Vec<&'r Value>) {
        out.clear();
        for (i, spread) in self.spreads.iter().enumerate() {
            let value = row.get(i).unwrap_or(&NULL);
            match spread {
                Spread::Cell => out.push(value),
                Spread::Ranks { ranks, fields } => {
                    let start = out.len();
                    let room = self.columns.len().saturating_sub(start);
                    let columns = ranks.len().saturating_mul(fields.len()).min(room);
                    out.resize(start + columns, &NULL);
                    for (rank, object) in value.as_array().into_iter().flatten().filter_map(ranked)
                    {
                        let Some(first) = ranks.get(&rank).map(|i| start + i * fields.len()) else {
                            continue;
                        };
                        for (field, slot) in fields.iter().zip(out.iter_mut().skip(first)) {
                            *slot = object.get(field).unwrap_or(&NULL);
                        }
                    }
                }
            }
        }
        out.truncate(self.columns.len());
    }

    /// Sentences about what the limits of the format cut.
    pub(super) fn remarks(&self) -> Vec<String> {
        let mut out = Vec::new();
        if self.wanted > self.columns.len() {
            out.push(format!(
                "{} of {} columns: a page of a workbook holds no more.",
                self.columns.len(),
                self.wanted
            ));
        }
        match self.long {
            0 => {}
            1 => out.push("1 cell is cut: a cell holds 32767 characters.".to_owned()),
            n => out.push(format!("{n} cells are cut: a cell holds 32767 characters.")),
        }
        out
    }
}

/// The rank of an element of a list by rank.
fn ranked(element: &Value) -> Option<(i64, &serde_json::Map<String, Value>)> {
    let object = element.as_object()?;
    let rank = object.get("rank")?.as_i64().filter(|r| *r >= 0)?;
    Some((rank, object))
}
