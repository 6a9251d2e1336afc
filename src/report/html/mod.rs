//! Reports and comparisons as HTML: one file that holds its data, its script and its style, works
//! from disk and asks nothing of a network.
//!
//! A page is the JSON document ([`crate::report::document`]), a library that draws (Apache ECharts,
//! in `vendor/echarts`), and the scripts of this folder, which make plots and tables of the
//! document. The scripts compute no figure: they sort, stack and scale the values of the document.
//!
//! Names in a document come from traces of strangers. Three things keep them from being run: in
//! the data every `<`, `>` and `&` is an escape of JSON; the scripts put text into the page as text
//! nodes, never as markup; and a content security policy lets nothing run, or be loaded, but the
//! scripts whose hashes it states.

pub mod board;
mod pack;

use std::fmt::Write as _;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::schema::units::{Spelling, UNITS, Unit};

const ECHARTS: &str = include_str!("vendor/echarts/echarts.min.js");
const STYLE: &str = include_str!("style.css");
const COMMON: [&str; 4] = [
    include_str!("units.js"),
    include_str!("dom.js"),
    include_str!("plots.js"),
    include_str!("common.js"),
];
const REPORT: &str = include_str!("report.js");
const TIMELINE: &str = include_str!("timeline.js");
const STACKS: &str = include_str!("stacks.js");
const COMPARE: &str = include_str!("compare.js");
const HISTORY: &str = include_str!("history.js");

/// The page of a report of one trace (`ccl-sql report --format json` has the document).
pub fn report_page(document: &Value) -> String {
    let name = document["label"].as_str().or_else(|| document["trace"].as_str());
    page(document, &format!("{} · report", name.unwrap_or("trace")), &[TIMELINE, STACKS, REPORT])
}

/// The page of a comparison of runs (`ccl-sql compare --format json` has the document).
pub fn compare_page(document: &Value) -> String {
    let labels: Vec<&str> = document["runs"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|run| run["label"].as_str())
        .take(3)
        .collect();
    page(document, &format!("{} · comparison", labels.join(" / ")), &[COMPARE])
}

/// The page of histories (`ccl-sql history --format json` has the document).
pub fn history_page(document: &Value) -> String {
    let names = document["series"].as_array().into_iter().flatten();
    let names: Vec<&str> = names.filter_map(|s| s["series"].as_str()).take(3).collect();
    page(document, &format!("{} · history", names.join(" / ")), &[HISTORY])
}

/// The hash by which the content security policy of a page names an inline script or style.
pub fn csp_hash(text: &str) -> String {
    format!("'sha256-{}'", base64(&Sha256::digest(text.as_bytes())))
}

/// The table of units, for the script of a page.
fn spellings() -> Value {
    let unit = |unit: &Unit| {
        let Spelling { digits, steps, power, after, cut } = unit.spelling;
        json!({"name": unit.name, "digits": digits, "steps": steps, "power": power,
               "after": after, "cut": cut})
    };
    UNITS.iter().map(unit).collect()
}

fn page(document: &Value, title: &str, scripts: &[&str]) -> String {
    let mut script = format!("(() => {{\n\"use strict\";\nconst UNITS = {};\n", spellings());
    for part in COMMON.iter().chain(scripts) {
        script.push_str(part);
    }
    script.push_str("})();\n");
    let data = escaped_json(&pack::packed(document));
    let mut out = String::with_capacity(ECHARTS.len() + script.len() + data.len() + 65_536);
    // Writing to a String does not fail.
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         script-src {} {}; style-src {}; img-src data:; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"generator\" content=\"ccl-sql {}\">\n\
         <title>{}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <noscript>This page draws its plots and tables with its own script: allow it to run.\
         </noscript>\n<main id=\"page\"></main>\n\
         <script type=\"application/json\" id=\"data\">{data}</script>\n\
         <script>{ECHARTS}</script>\n<script>{script}</script>\n</body>\n</html>\n",
        csp_hash(ECHARTS),
        csp_hash(&script),
        csp_hash(STYLE),
        env!("CARGO_PKG_VERSION"),
        escaped_text(title),
    );
    out
}

/// JSON that cannot end the element that holds it, whatever its texts are.
fn escaped_json(value: &Value) -> String {
    let text = value.to_string();
    let mut out = String::with_capacity(text.len() + text.len() / 64);
    for c in text.chars() {
        match c {
            // Outside the strings of JSON there are none of these.
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

/// Text for the title: no markup, nothing that steers.
fn escaped_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let all =
            chunk.iter().fold(0u32, |all, b| all << 8 | u32::from(*b)) << (8 * (3 - chunk.len()));
        for i in 0..4 {
            if i <= chunk.len() {
                out.push(char::from(DIGITS[(all >> (18 - 6 * i)) as usize & 63]));
            } else {
                out.push('=');
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ECHARTS_SHA256: &str = "b66b25aeb4df84e33199dc21694014d336d222cbd9deb0e5a7c14bd6aa0d0fd0";

    #[test]
    fn a_page_has_its_scripts_in_their_order() {
        let text = page(&json!({}), "t", &["const OWN = 1;\n", "const NEXT = 2;\n"]);
        let parts = COMMON.iter().chain(&["const OWN = 1;\n", "const NEXT = 2;\n"]);
        let places: Vec<Option<usize>> = parts.map(|part| text.find(part)).collect();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}");
    }

    #[test]
    fn the_library_is_the_one_that_its_readme_states() {
        assert_eq!(crate::hash::sha256_text(ECHARTS), ECHARTS_SHA256);
        assert!(include_str!("vendor/echarts/README.md").contains(ECHARTS_SHA256));
        assert!(include_str!("vendor/echarts/README.md").contains("6.1.0"));
        assert!(ECHARTS.contains("t.version=\"6.1.0\""), "another version");
    }

    #[test]
    fn no_script_or_style_ends_its_element() {
        let ours = [STYLE, REPORT, COMPARE, HISTORY, TIMELINE, STACKS].into_iter().chain(COMMON);
        for text in ours.chain([ECHARTS]) {
            let text = text.to_lowercase();
            for end in ["</script", "</style", "<!--"] {
                assert!(!text.contains(end), "{end}");
            }
            // The parser of HTML would change these, and with them the hash of the policy.
            assert!(!text.contains(['\r', '\0']));
        }
    }

    #[test]
    fn text_of_a_document_is_no_markup() {
        let hostile = "</script><img src=x onerror=alert(1)>&\"'\u{2028}\u{202e}";
        let document = json!({"report": 1, "trace": hostile, "sheets": [
            {"name": "kernel_summary", "columns": [{"name": "name"}], "rows": [[hostile]]},
        ]});
        let page = report_page(&document);
        assert_eq!(page.matches("</script").count(), 3, "data, library, our script");
        let ours = page.replace(ECHARTS, "");
        assert!(!ours.contains("<img") && !ours.contains('\u{2028}'));
        assert!(page.contains("<title>&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;&amp;"));
        let start = page.find("id=\"data\">").expect("data") + "id=\"data\">".len();
        let end = start + page[start..].find("</script").expect("an end");
        let data: Value = serde_json::from_str(&page[start..end]).expect("JSON");
        assert_eq!(data["trace"], hostile);
    }

    #[test]
    fn base64_is_that_of_rfc_4648() {
        for (text, want) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(text.as_bytes()), want);
        }
        // CSP Level 3, section 8.3.
        assert_eq!(
            csp_hash("alert('Hello, world.');"),
            "'sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng='"
        );
    }
}
