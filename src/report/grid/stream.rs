//! A result in pieces: the rows of a large query are written as they come, and never held whole as
//! text. A table needs all rows before the first line, so it is not here.

use crate::error::{Error, Result};
use crate::report::grid::format::Format;
use crate::report::grid::value::pretty;
use crate::report::grid::{Grid, csv, markdown};

/// Writes one result of many rows.
#[derive(Debug)]
pub struct Stream {
    format: Format,
    begun: bool,
}

impl Stream {
    /// The format of a single result: CSV, JSON, Markdown or the bare value.
    pub fn new(format: Format) -> Self {
        Self { format, begun: false }
    }

    /// The next rows; the first piece may have none, and says which columns there are.
    ///
    /// # Errors
    /// `usage` for a format that does not come in pieces.
    pub fn rows(&mut self, grid: &Grid) -> Result<Vec<u8>> {
        let first = !std::mem::replace(&mut self.begun, true);
        Ok(match self.format {
            Format::Csv => csv::write(&grid.columns, &grid.rows, first).into_bytes(),
            Format::Value => grid.values(),
            Format::Markdown => markdown::table(&grid.columns, &grid.rows, first).into_bytes(),
            Format::Json => {
                let mut out = if first { b"[".to_vec() } else { Vec::new() };
                if grid.rows.is_empty() {
                    self.begun = !first;
                    return Ok(if first { Vec::new() } else { out });
                }
                if !first {
                    out.push(b',');
                }
                // An array of these rows, without its brackets.
                let whole = pretty(&grid.objects());
                out.extend(&whole[1..whole.len() - 3]);
                out
            }
            _ => return Err(Error::new("usage", "this form does not come in pieces")),
        })
    }

    /// The text after the last row.
    pub fn end(self) -> Vec<u8> {
        match (self.format, self.begun) {
            (Format::Json, true) => b"\n]\n".to_vec(),
            (Format::Json, false) => b"[]\n".to_vec(),
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn grid(rows: std::ops::Range<i64>) -> Grid {
        Grid::of_rows(&["n", "name"], rows.map(|n| vec![n.into(), Value::from("a,b")]).collect())
    }

    #[test]
    fn pieces_make_the_whole() {
        for format in [Format::Csv, Format::Json, Format::Markdown, Format::Value] {
            let cuts: [&[(i64, i64)]; 4] =
                [&[(0, 0)], &[(0, 5)], &[(0, 0), (0, 2), (2, 2), (2, 5)], &[(0, 4), (4, 5)]];
            for cuts in cuts {
                let mut stream = Stream::new(format);
                let mut out = Vec::new();
                for (from, to) in cuts {
                    out.extend(stream.rows(&grid(*from..*to)).expect("rows"));
                }
                out.extend(stream.end());
                let last = cuts.last().map_or(0, |(_, to)| *to);
                let whole = grid(0..last).bytes(format, 80).expect("whole");
                assert_eq!(String::from_utf8(out), String::from_utf8(whole), "{format:?} {cuts:?}");
            }
        }
    }
}
