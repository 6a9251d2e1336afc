//! Rows of a table while they are collected, column by column.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Float64Builder, Int64Builder, ListBuilder, RecordBatch, StringBuilder,
};
use arrow::datatypes::{Schema, SchemaRef};

use crate::error::Result;
use crate::schema::{Table, Type};

enum Values {
    Text(StringBuilder),
    Int(Int64Builder),
    Double(Float64Builder),
    IntList(ListBuilder<Int64Builder>),
}

struct Column {
    values: Values,
    /// NULLs at the end that are not in `values` yet: most columns of most rows are NULL, and a
    /// count costs nothing.
    nulls: usize,
}

impl Column {
    fn settle(&mut self) {
        let nulls = std::mem::take(&mut self.nulls);
        if nulls > 0 {
            match &mut self.values {
                Values::Text(b) => (0..nulls).for_each(|_| b.append_null()),
                Values::Int(b) => b.append_nulls(nulls),
                Values::Double(b) => b.append_nulls(nulls),
                Values::IntList(b) => (0..nulls).for_each(|_| b.append_null()),
            }
        }
    }
}

/// The schema of a table's files without some columns.
pub fn schema_without(table: &Table, without: &[&str]) -> SchemaRef {
    let full = table.arrow();
    let fields: Vec<_> =
        full.fields().iter().filter(|f| !without.contains(&f.name().as_str())).cloned().collect();
    Arc::new(Schema::new(fields))
}

/// Rows under construction: the columns of a row are given one after the other, in the order of
/// the table.
pub struct Rows {
    schema: SchemaRef,
    columns: Vec<Column>,
    at: usize,
    rows: usize,
    /// Integers in the lists of the rows in hand.
    listed: usize,
}

impl Rows {
    /// For the columns of `table` without those named in `without`.
    pub fn new(table: &'static Table, without: &[&str]) -> Self {
        Self::with_room(table, without, 0)
    }

    /// [`Rows::new`] with room for about so many rows.
    pub fn with_room(table: &'static Table, without: &[&str], rows: usize) -> Self {
        let columns = table
            .columns
            .iter()
            .filter(|c| !without.contains(&c.name))
            .map(|c| Column {
                values: match c.ty {
                    Type::Text => {
                        let bytes = if c.name == "args" { 80 } else { 20 };
                        Values::Text(StringBuilder::with_capacity(rows, rows * bytes))
                    }
                    Type::Int => Values::Int(Int64Builder::with_capacity(rows)),
                    Type::Double => Values::Double(Float64Builder::with_capacity(rows)),
                    Type::IntList => Values::IntList(ListBuilder::new(Int64Builder::new())),
                },
                nulls: 0,
            })
            .collect();
        Self { schema: schema_without(table, without), columns, at: 0, rows: 0, listed: 0 }
    }

    /// The schema of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Complete rows in hand.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether no complete row is in hand.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    fn wrong(&self, what: &str) -> ! {
        panic!("column {} got {what}", self.schema.field(self.at).name())
    }

    /// The next column of the row, text.
    ///
    /// # Panics
    /// When the next column is of another type: the callers list columns in the order of the
    /// schema.
    pub fn text(&mut self, value: Option<&str>) -> &mut Self {
        let column = &mut self.columns[self.at];
        match (value, &mut column.values) {
            (None, Values::Text(_)) => column.nulls += 1,
            (Some(value), Values::Text(b)) => {
                for _ in 0..std::mem::take(&mut column.nulls) {
                    b.append_null();
                }
                b.append_value(value);
            }
            _ => self.wrong("text"),
        }
        self.at += 1;
        self
    }

    /// The next column of the row, an integer.
    ///
    /// # Panics
    /// As [`Rows::text`].
    pub fn int(&mut self, value: Option<i64>) -> &mut Self {
        let column = &mut self.columns[self.at];
        match (value, &mut column.values) {
            (None, Values::Int(_)) => column.nulls += 1,
            (Some(value), Values::Int(b)) => {
                if column.nulls > 0 {
                    b.append_nulls(std::mem::take(&mut column.nulls));
                }
                b.append_value(value);
            }
            _ => self.wrong("an integer"),
        }
        self.at += 1;
        self
    }

    /// The next column of the row, a double.
    ///
    /// # Panics
    /// As [`Rows::text`].
    pub fn double(&mut self, value: Option<f64>) -> &mut Self {
        let column = &mut self.columns[self.at];
        match (value, &mut column.values) {
            (None, Values::Double(_)) => column.nulls += 1,
            (Some(value), Values::Double(b)) => {
                if column.nulls > 0 {
                    b.append_nulls(std::mem::take(&mut column.nulls));
                }
                b.append_value(value);
            }
            _ => self.wrong("a double"),
        }
        self.at += 1;
        self
    }

    /// The next column of the row, a list of integers.
    ///
    /// # Panics
    /// As [`Rows::text`].
    pub fn ints(&mut self, value: Option<&[i64]>) -> &mut Self {
        let column = &mut self.columns[self.at];
        match (value, &mut column.values) {
            (None, Values::IntList(_)) => column.nulls += 1,
            (Some(value), Values::IntList(b)) => {
                for _ in 0..std::mem::take(&mut column.nulls) {
                    b.append_null();
                }
                b.values().append_slice(value);
                b.append(true);
                self.listed += value.len();
            }
            _ => self.wrong("a list of integers"),
        }
        self.at += 1;
        self
    }

    /// Integers in the lists of the rows in hand: a row may hold many.
    pub fn listed(&self) -> usize {
        self.listed
    }

    /// The next `count` columns of the row: NULL, whatever their types.
    pub fn nulls(&mut self, count: usize) -> &mut Self {
        for column in &mut self.columns[self.at..self.at + count] {
            column.nulls += 1;
        }
        self.at += count;
        self
    }

    /// Ends the row.
    ///
    /// # Panics
    /// When the row has fewer values than columns.
    pub fn end_row(&mut self) {
        assert_eq!(self.at, self.columns.len(), "a row is short");
        self.at = 0;
        self.rows += 1;
    }

    /// The rows in hand as a batch; none are left.
    ///
    /// # Errors
    /// `io` when Arrow refuses them (a text column past 2 GiB).
    pub fn take(&mut self) -> Result<RecordBatch> {
        self.rows = 0;
        self.listed = 0;
        let arrays: Vec<ArrayRef> = self
            .columns
            .iter_mut()
            .map(|c| {
                c.settle();
                match &mut c.values {
                    Values::Text(b) => Arc::new(b.finish()) as ArrayRef,
                    Values::Int(b) => Arc::new(b.finish()),
                    Values::Double(b) => Arc::new(b.finish()),
                    Values::IntList(b) => Arc::new(b.finish()),
                }
            })
            .collect();
        Ok(RecordBatch::try_new(self.schema.clone(), arrays)?)
    }
}
