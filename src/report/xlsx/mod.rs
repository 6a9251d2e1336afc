//! Workbooks (xlsx): a page per table, as Excel tables with filters, from [`Sheet`]s.
//!
//! Values are stored in full; number formats only say how much of them is shown. Text stays text:
//! nothing becomes a formula or a link, and control characters are shown as such. The limits of
//! the format are kept, and what they cut is said in a line above the table (`names` has those of
//! names, `plan` the columns). The same pages give the same bytes.
//!
//! Large pages go through a temporary file row by row. A sheet's own rows stay in memory.

pub mod books;
mod names;
mod plan;
#[cfg(test)]
mod tests;

use rust_xlsxwriter::{
    Chart, ChartType, Color, ConditionalFormat3ColorScale, ConditionalFormatCell,
    ConditionalFormatCellRule, ConditionalFormatType, DocProperties, ExcelDateTime, Format, Note,
    Table, TableColumn, TableStyle, Workbook, Worksheet, XlsxError,
};

use self::names::Names;
use self::plan::{Cell, Limits, Plan};
use crate::error::{Error, Result};
use crate::report::sheet::Sheet;

/// The red, white and green of a colour scale.
const SCALE: [Color; 3] =
    [Color::RGB(0x00F8_696B), Color::RGB(0x00FF_FFFF), Color::RGB(0x0063_BE7B)];

/// Words of a status column, their fill and their letters.
const STATUS: [(&str, Color, Color); 3] = [
    ("Better", Color::RGB(0x00C6_EFCE), Color::RGB(0x0000_6100)),
    ("Worse", Color::RGB(0x00FF_C7CE), Color::RGB(0x009C_0006)),
    ("Similar", Color::RGB(0x00E7_E6E6), Color::RGB(0x0059_5959)),
];

/// Headings with more columns than this have no notes: they would outweigh the table.
const MOST_NOTES: usize = 256;

/// Columns up to which a printed page is as wide as the paper.
const MOST_PRINTED: usize = 24;

/// Room in the temporary file for a cell, generously.
const BYTES_PER_CELL: u64 = 64;

/// A page of a workbook.
#[derive(Debug, Clone, Copy)]
pub struct Page<'a> {
    /// Tab of the page; made fit for Excel where it is not.
    pub name: &'a str,
    /// Table of the page. A column called `status` has its words coloured.
    pub sheet: &'a Sheet,
    /// Hidden, until a reader unhides it. The first page is shown where all are hidden.
    pub hidden: bool,
    /// Columns, by name in SQL or heading, that have colours from red over white at 0 to green.
    /// Green is at the upper end, unless less is better in this column.
    pub scales: &'a [&'a str],
    /// Whether each heading has a note about its column.
    pub notes: bool,
    /// Bars beside the table.
    pub bars: Option<Bars<'a>>,
}

/// Bars of some columns of a page, a place for each of its first rows.
#[derive(Debug, Clone, Copy)]
pub struct Bars<'a> {
    /// Title with the unit.
    pub title: &'a str,
    /// Column whose cells name the places.
    pub places: &'a str,
    /// Columns whose cells are drawn; their headings name them.
    pub values: &'a [&'a str],
    /// First rows that are drawn.
    pub rows: usize,
}

impl<'a> Page<'a> {
    /// A page that is shown, without colours, with notes.
    pub fn new(name: &'a str, sheet: &'a Sheet) -> Self {
        Self { name, sheet, hidden: false, scales: &[], notes: true, bars: None }
    }
}

/// Properties of a workbook as a whole.
#[derive(Debug, Clone, Copy)]
pub struct Properties<'a> {
    /// Title of the document.
    pub title: &'a str,
    /// Comment of the document: its sources, and the version of the program.
    pub comment: &'a str,
    /// The change at which the colour scales reach full red and full green, in the unit of their
    /// columns; the same on both sides of 0.
    pub scale: f64,
}

impl Default for Properties<'_> {
    fn default() -> Self {
        Self { title: "", comment: "", scale: 20.0 }
    }
}

const LIMITS: Limits = Limits { rows: 1_048_576, columns: 16_384, in_memory: 200_000 };

/// The bytes of a workbook with these pages, in this order.
///
/// # Errors
/// `io` when the workbook cannot be built, or there is no room for its temporary files.
pub fn write(pages: &[Page<'_>], properties: &Properties<'_>) -> Result<Vec<u8>> {
    write_within(pages, properties, LIMITS)
}

fn write_within(
    pages: &[Page<'_>],
    properties: &Properties<'_>,
    limits: Limits,
) -> Result<Vec<u8>> {
    let plans: Vec<Plan<'_>> = pages.iter().map(|p| Plan::of(p.sheet, limits)).collect();
    let cells = |plan: &Plan<'_>| plan.columns.len().saturating_mul(plan.sheet.rows.len());
    let on_disk = plans.iter().map(cells).filter(|n| *n > limits.in_memory).sum();
    room_for(on_disk)?;
    let mut workbook = Workbook::new();
    workbook.set_properties(
        &DocProperties::new()
            .set_title(names::line(properties.title))
            .set_comment(names::line(properties.comment))
            .set_author("ccl-sql")
            // The date of the entries in the archive: the same input gives the same bytes.
            .set_creation_datetime(&ExcelDateTime::from_ymd(1980, 1, 1).map_err(failed)?),
    );
    let shown = pages.iter().position(|p| !p.hidden).unwrap_or(0);
    let mut tabs = Names::default();
    for (i, (page, plan)) in pages.iter().zip(plans).enumerate() {
        let worksheet = if cells(&plan) > limits.in_memory {
            workbook.add_worksheet_with_low_memory().map_err(failed)?
        } else {
            workbook.add_worksheet()
        };
        let tab = tabs.tab(page.name);
        worksheet.set_name(&tab).map_err(failed)?;
        worksheet.set_hidden(page.hidden && i != shown);
        worksheet.set_active(i == shown);
        let remarks = (tab != page.name).then(|| format!("Page {}", names::line(page.name)));
        Writer { worksheet, page, plan: &plan, properties, limits, tab: &tab }
            .write(remarks.into_iter().collect(), &tabs.table(&tab))
            .map_err(failed)?;
    }
    workbook.save_to_buffer().map_err(failed)
}

fn failed(error: XlsxError) -> Error {
    Error::new("io", format!("cannot build the workbook: {error}"))
}

/// The writer of the rows panics where its temporary file cannot grow: better not to begin.
fn room_for(cells: usize) -> Result<()> {
    let needed = BYTES_PER_CELL.saturating_mul(cells as u64);
    let folder = std::env::temp_dir();
    match rustix::fs::statvfs(&folder) {
        Ok(disk) if disk.f_bavail.saturating_mul(disk.f_frsize) < needed => {
            Err(Error::new("io", "no room for the temporary files of the workbook")
                .at(folder.display().to_string())
                .facts(format!("needed: about {} MB", needed.div_ceil(1_000_000)))
                .hint("free some space, or name another folder in TMPDIR"))
        }
        _ => Ok(()),
    }
}

/// Writes one page.
struct Writer<'a> {
    worksheet: &'a mut Worksheet,
    page: &'a Page<'a>,
    plan: &'a Plan<'a>,
    properties: &'a Properties<'a>,
    limits: Limits,
    tab: &'a str,
}

impl Writer<'_> {
    fn write(mut self, mut remarks: Vec<String>, table: &str) -> Result<(), XlsxError> {
        let (page, plan) = (self.page, self.plan);
        let rows = plan.sheet.rows.len();
        remarks.extend(plan.sheet.reason.as_deref().map(names::line));
        if rows == 0 || plan.columns.is_empty() {
            if plan.sheet.reason.is_none() {
                remarks.push("No rows.".to_owned());
            }
            return self.lines(&remarks);
        }
        remarks.extend(plan.remarks());
        // Lines above a table have an empty row below them.
        let top = |lines: usize| if lines == 0 { 0 } else { lines + 1 };
        let mut count = rows;
        if top(remarks.len()) + 1 + rows > self.limits.rows {
            count = self.limits.rows - 1 - top(remarks.len() + 1);
            remarks.push(format!("{count} of {rows} rows: a page of a workbook holds no more."));
        }
        self.lines(&remarks)?;
        let top = top(remarks.len());
        self.columns(top, count, table)?;
        let (header, first) = (row(top), row(top + 1));
        let last = row(top + count);
        self.worksheet.set_freeze_panes(first, 0)?;
        self.worksheet.set_landscape().set_repeat_rows(header, header)?;
        if plan.columns.len() <= MOST_PRINTED {
            self.worksheet.set_print_fit_to_pages(1, 0);
        }
        self.rows(top + 1, count)?;
        if let Some(bars) = &page.bars {
            self.bars(bars, top, count)?;
        }
        for (i, column) in plan.columns.iter().enumerate() {
            let i = place(i);
            if page.scales.iter().any(|s| column.is_called(s)) && self.properties.scale > 0.0 {
                let scale = scale(self.properties.scale, column.lower_is_better);
                self.worksheet.add_conditional_format(first, i, last, i, &scale)?;
            }
            if column.is_called("status") {
                for (word, fill, letters) in STATUS {
                    let format = Format::new().set_background_color(fill).set_font_color(letters);
                    let rule = ConditionalFormatCell::new()
                        .set_rule(ConditionalFormatCellRule::EqualTo(word))
                        .set_format(format);
                    self.worksheet.add_conditional_format(first, i, last, i, &rule)?;
                }
            }
        }
        Ok(())
    }

    /// A native chart to the right of the table; it reads the cells of the table.
    fn bars(&mut self, bars: &Bars<'_>, top: usize, count: usize) -> Result<(), XlsxError> {
        let column = |name: &str| self.plan.columns.iter().position(|c| c.is_called(name));
        let count = bars.rows.min(count);
        let (Some(names), 1..) = (column(bars.places), count) else { return Ok(()) };
        let (first, last) = (row(top + 1), row(top + count));
        let mut chart = Chart::new(ChartType::Bar);
        chart.title().set_name(bars.title);
        chart.set_alt_text(bars.title);
        // The first row on top, as in the table: places of lying bars are on the axis that stands.
        chart.y_axis().set_reverse();
        for values in bars.values.iter().filter_map(|name| column(name)) {
            chart
                .add_series()
                .set_name((self.tab, row(top), place(values)))
                .set_categories((self.tab, first, place(names), last, place(names)))
                .set_values((self.tab, first, place(values), last, place(values)));
        }
        chart.set_width(640).set_height(u32::try_from(120 + 44 * count).unwrap_or(480));
        self.worksheet.insert_chart(row(top), place(self.plan.columns.len() + 1), &chart)?;
        Ok(())
    }

    fn lines(&mut self, lines: &[String]) -> Result<(), XlsxError> {
        let italic = Format::new().set_italic().set_quote_prefix();
        for (i, line) in lines.iter().enumerate() {
            let (line, _) = names::cut(line, names::CELL);
            self.worksheet.write_string_with_format(row(i), 0, line, &italic)?;
        }
        Ok(())
    }

    /// The table without its rows: headings, notes, formats and widths.
    fn columns(&mut self, top: usize, count: usize, name: &str) -> Result<(), XlsxError> {
        let plan = self.plan;
        for (i, column) in plan.columns.iter().enumerate() {
            self.worksheet.set_column_width(place(i), column.width())?;
            if let Some(format) = column.format() {
                self.worksheet
                    .set_column_format(place(i), &Format::new().set_num_format(format))?;
            }
        }
        let headings: Vec<TableColumn> = plan
            .columns
            .iter()
            .map(|c| TableColumn::new().set_header(c.heading.as_str()))
            .collect();
        let table =
            Table::new().set_name(name).set_style(TableStyle::Medium2).set_columns(&headings);
        let last = place(plan.columns.len() - 1);
        self.worksheet.add_table(row(top), 0, row(top + count), last, &table)?;
        if self.page.notes && plan.columns.len() <= MOST_NOTES {
            for (i, column) in plan.columns.iter().enumerate() {
                if let Some(text) = column.note() {
                    let note = Note::new(text).set_author("ccl-sql").add_author_prefix(false);
                    self.worksheet.insert_note(row(top), place(i), &note)?;
                }
            }
        }
        Ok(())
    }

    fn rows(&mut self, top: usize, count: usize) -> Result<(), XlsxError> {
        let quoted = Format::new().set_quote_prefix();
        let mut cells = Vec::new();
        for (i, values) in self.plan.sheet.rows.iter().take(count).enumerate() {
            let at = row(top + i);
            self.plan.flatten(values, &mut cells);
            for (i, (value, column)) in cells.iter().zip(&self.plan.columns).enumerate() {
                match Cell::of(value, column.is_quantity()) {
                    Cell::Empty => {}
                    Cell::Bool(b) => {
                        self.worksheet.write_boolean(at, place(i), b)?;
                    }
                    Cell::Number { value, .. } => match column.own_format(value) {
                        None => {
                            self.worksheet.write_number(at, place(i), value)?;
                        }
                        Some(format) => {
                            let format = Format::new().set_num_format(format);
                            self.worksheet.write_number_with_format(
                                at,
                                place(i),
                                value,
                                &format,
                            )?;
                        }
                    },
                    Cell::Text(text) => {
                        let (text, _) = names::cut(&text, names::CELL);
                        // Edited by hand, such a cell would become a formula without the prefix.
                        if text.starts_with(['=', '+', '-', '@']) {
                            self.worksheet.write_string_with_format(at, place(i), text, &quoted)?;
                        } else {
                            self.worksheet.write_string(at, place(i), text)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// Red, white at 0, green; symmetric, so that a small change has little colour.
fn scale(limit: f64, lower_is_better: bool) -> ConditionalFormat3ColorScale {
    let [mut low, middle, mut high] = SCALE;
    if lower_is_better {
        (low, high) = (high, low);
    }
    ConditionalFormat3ColorScale::new()
        .set_minimum(ConditionalFormatType::Number, -limit)
        .set_midpoint(ConditionalFormatType::Number, 0)
        .set_maximum(ConditionalFormatType::Number, limit)
        .set_minimum_color(low)
        .set_midpoint_color(middle)
        .set_maximum_color(high)
}

/// A row within the limits of the format.
fn row(i: usize) -> u32 {
    u32::try_from(i).unwrap_or(u32::MAX)
}

/// A column within the limits of the format.
fn place(i: usize) -> u16 {
    u16::try_from(i).unwrap_or(u16::MAX)
}
