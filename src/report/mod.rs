//! Documents and tables as bytes: what a report, a comparison and a board hold, and a folder for
//! each form. The layers, from the outermost: `html`, `text` and `xlsx`; the documents; `grid`.

pub mod baseline;
pub mod board;
pub mod card;
pub mod comparison;
pub mod diagnosis;
pub mod document;
pub mod grid;
mod headline;
pub mod history;
pub mod html;
pub mod metric;
mod nested;
pub mod people;
pub mod sheet;
pub mod sheets;
pub mod staged;
pub mod text;
pub mod xlsx;

pub use self::grid::Grid;
pub use self::grid::format::Format;
pub use self::grid::table::{Entry, entries};
pub use self::grid::value::pretty;
pub use crate::registry::units;
