//! The pages of a leaderboard beside the reports: its index, and the definitions of the metrics.

use serde_json::Value;

use crate::registry::{Registry, SqlFile, docs};
use crate::report::html::{STYLE, csp_hash, escaped_text, page};

const BOARD: &str = include_str!("board.js");

/// The index of a leaderboard (`board.json` beside it is the document).
pub fn board_page(document: &Value) -> String {
    page(document, "Leaderboard", &[BOARD])
}

/// The definitions of metrics on one page, each at `#NAME`: the text of `ccl-sql show`, and the
/// SQL. The page has no script.
pub fn definitions_page(registry: &Registry, files: &[&SqlFile]) -> String {
    let mut body = String::new();
    for file in files {
        let header = &file.header;
        body.push_str(&format!(
            "<section class=\"card\" id=\"{0}\">\n\
             <h2>{0} <span class=\"kind\">version {1}</span></h2>\n\
             <pre>{2}</pre>\n<details><summary>SQL</summary><pre>{3}</pre></details>\n</section>\n",
            escaped_text(&header.name),
            header.version,
            escaped_lines(&docs::file(file, &registry.versions(&header.name))),
            escaped_lines(&file.text),
        ));
    }
    let style = format!("{STYLE}\n{DEFINITIONS_STYLE}");
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src {}; \
         base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>Definitions of the metrics</title>\n<style>{style}</style>\n</head>\n<body>\n\
         <main><header class=\"head\"><h1>Definitions of the metrics</h1>\
         <p class=\"line\"><a href=\"index.html\">Leaderboard</a></p></header>\n{body}</main>\n\
         </body>\n</html>\n",
        csp_hash(&style),
    )
}

/// Without a script the dark theme is the one that the reader's system asks for.
const DEFINITIONS_STYLE: &str = "\
     pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: 12.5px; margin: 6px 0; }\n\
     @media (prefers-color-scheme: dark) { :root { --bg: #12151a; --panel: #1a1e25; \
     --text: #e4e8ee; --dim: #9aa4b2; --line: #313843; --accent: #5cb3e8; color-scheme: dark; } }";

/// Text of several lines without markup.
fn escaped_lines(text: &str) -> String {
    text.lines().map(escaped_text).collect::<Vec<_>>().join("\n")
}
