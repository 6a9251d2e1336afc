//! The forms of a result.

/// The forms of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Aligned columns for people.
    Table,
    /// JSON.
    Json,
    /// Comma-separated values with a header line.
    Csv,
    /// Parquet.
    Parquet,
    /// The bare value, one per line.
    Value,
    /// A report for people.
    Text,
    /// Markdown.
    Markdown,
    /// A page that needs nothing beside it.
    Html,
    /// A workbook.
    Xlsx,
    /// A timeline in Perfetto's protocol buffers.
    Perfetto,
    /// A timeline in the JSON of Chrome's trace events.
    Chrome,
}
