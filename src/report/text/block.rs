//! The parts of a report for people, before they are text or Markdown.

/// A heading with the blocks below it.
#[derive(Debug, Clone)]
pub struct Section {
    /// Heading.
    pub title: String,
    /// Blocks below the heading.
    pub blocks: Vec<Block>,
}

/// A part of a section.
#[derive(Debug, Clone)]
pub enum Block {
    /// Names with values, and a remark on each.
    Facts(Vec<[String; 3]>),
    /// A table.
    Table {
        /// A sentence about the table.
        caption: String,
        /// Headings.
        headings: Vec<String>,
        /// Whether a column is aligned to the right.
        numbers: Vec<bool>,
        /// Cells.
        rows: Vec<Vec<String>>,
    },
    /// A sentence.
    Note(String),
}
