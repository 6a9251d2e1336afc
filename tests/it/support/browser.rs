//! A page in a real browser.
//!
//! A page gets a script of the test at its end, which its content security policy is made to name.
//! Chromium runs the page from disk without a window and prints what became of it. Without
//! Chromium (`CHROMIUM=PATH` names one) these tests say so and check nothing.

use std::path::PathBuf;
use std::process::Command;

use ccl_sql::report::html::csp_hash;
use serde_json::Value;

fn chromium() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("CHROMIUM") {
        return Some(path.into());
    }
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|file| file.is_file())
}

/// The outcome of a page: the value of the script of the test, and the lines of the console.
pub struct Probe {
    /// The value of the script.
    pub value: Value,
    /// The lines of the console.
    pub console: Vec<String>,
}

/// Runs a page with a script that sets `result`; None without a browser.
#[expect(clippy::print_stderr, reason = "who runs the tests is to know that this one did nothing")]
pub fn probe(page: &str, script: &str) -> Option<Probe> {
    let Some(chromium) = chromium() else {
        eprintln!("skipped: there is no chromium here; CHROMIUM=PATH names one");
        return None;
    };
    let script = format!(
        "const out = document.createElement('pre');\nout.id = 'probe';\nlet result;\n\
         const at = (id) => echarts.getInstanceByDom(document.getElementById(id)).getOption();\n\
         const cells = (table, column) => [...document.querySelectorAll(`#${{table}} tbody tr`)]\
         .map((row) => row.children[column].textContent);\n\
         try {{\n{script}\n}} catch (e) {{ result = {{error: String(e.stack)}}; }}\n\
         out.textContent = encodeURIComponent(JSON.stringify(result));\n\
         document.body.append(out);\n"
    );
    let policy = format!("script-src {} ", csp_hash(&script));
    let page = with_script(&page.replacen("script-src ", &policy, 1), &script);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("page.html");
    std::fs::write(&file, page).expect("the page can be written");
    let output = Command::new(chromium)
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"])
        .args(["--virtual-time-budget=5000", "--window-size=1300,900", "--dump-dom"])
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .arg(format!("file://{}", file.display()))
        .output()
        .expect("chromium runs");
    let dom = String::from_utf8_lossy(&output.stdout);
    let console = String::from_utf8_lossy(&output.stderr)
        .lines()
        .filter(|line| line.contains(":CONSOLE"))
        .map(str::to_owned)
        .collect();
    let start = dom.find("<pre id=\"probe\">").map(|i| i + "<pre id=\"probe\">".len());
    let Some(start) = start else { panic!("the page has no result: {console:?}") };
    let end = start + dom[start..].find("</pre>").expect("the result ends");
    let value: Value = serde_json::from_str(&decoded(&dom[start..end])).expect("JSON");
    assert!(value["error"].is_null(), "{value}");
    Some(Probe { value, console })
}

/// A page with a script at its end; the library has the text of that end too.
pub fn with_script(page: &str, script: &str) -> String {
    let end = page.rfind("</body>").expect("the page ends");
    format!("{}<script>{script}</script>\n{}", &page[..end], &page[end..])
}

/// The inverse of `encodeURIComponent`.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        if *first == b'%' {
            let digits = std::str::from_utf8(&tail[..2]).expect("digits");
            bytes.push(u8::from_str_radix(digits, 16).expect("hexadecimal"));
            rest = &tail[2..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).expect("UTF-8")
}
