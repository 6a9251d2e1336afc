//! Options that earlier tools had: `--metric NAME`, `--list-metrics`, `--output-json`. They work,
//! and a line says the form of today.

use std::ffi::{OsStr, OsString};

/// The arguments in the form of today, and what to say where they were not.
pub fn rewritten(args: impl Iterator<Item = OsString>) -> (Vec<OsString>, Option<String>) {
    let mut args = args;
    let program = args.next();
    let args: Vec<OsString> = args.collect();
    // What follows `--` is no option.
    let end = args.iter().position(|arg| arg == "--").unwrap_or(args.len());
    let (options, rest) = args.split_at(end);
    let (mut metrics, mut others) = (Vec::new(), Vec::new());
    let (mut lists, mut is_json) = (false, false);
    let mut left = options.iter();
    while let Some(arg) = left.next() {
        let joined = arg.to_str().and_then(|arg| arg.strip_prefix("--metric="));
        match joined {
            Some(name) => metrics.push(OsString::from(name)),
            None if arg == "--metric" => metrics.extend(left.next().cloned()),
            None if arg == "--list-metrics" => lists = true,
            None if arg == "--output-json" => is_json = true,
            None => others.push(arg.clone()),
        }
    }
    if metrics.is_empty() && !lists && !is_json {
        return (program.into_iter().chain(args).collect(), None);
    }
    let mut out: Vec<OsString> = Vec::new();
    let has = |word: &str| others.iter().any(|arg| arg == word);
    match () {
        () if lists && !has("list") => out.extend(["list".into(), "metrics".into()]),
        () if !metrics.is_empty() && !has("metric") => out.push("metric".into()),
        () => {}
    }
    if out.is_empty() {
        out = others;
        out.extend(metrics);
    } else {
        out.extend(metrics);
        out.extend(others);
    }
    if is_json {
        out.extend(["--format".into(), "json".into()]);
    }
    out.extend_from_slice(rest);
    let words = out.iter().map(|arg| shown(arg)).collect::<Vec<_>>().join(" ");
    let hint = format!("note: this is the form of earlier tools; today it is: ccl-sql {words}");
    (program.into_iter().chain(out).collect(), Some(hint))
}

/// A word as a shell takes it.
fn shown(arg: &OsStr) -> String {
    let text = arg.to_string_lossy();
    let is_plain = |c: char| c.is_alphanumeric() || "_-./=:,@%+".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_forms_become_those_of_today() {
        for (old, today) in [
            ("--trace D --metric mfu", "metric mfu --trace D"),
            ("--metric=mfu --trace D --output-json", "metric mfu --trace D --format json"),
            ("metric --metric mfu --trace D", "metric --trace D mfu"),
            ("metric mfu --output-json", "metric mfu --format json"),
            ("--list-metrics", "list metrics"),
            ("--data X --list-metrics -q", "list metrics --data X -q"),
        ] {
            let words = std::iter::once("ccl-sql").chain(old.split(' ')).map(OsString::from);
            let (args, hint) = rewritten(words);
            let args: Vec<String> =
                args[1..].iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
            assert_eq!(args.join(" "), today, "{old}");
            assert!(hint.is_some_and(|hint| hint.ends_with(&format!("ccl-sql {today}"))), "{old}");
        }
        // A word with blanks is one word of the hint, too.
        let words = ["ccl-sql", "--metric", "mfu", "--trace", "it's one"].map(OsString::from);
        let hint = rewritten(words.into_iter()).1.expect("the form is old");
        assert!(hint.ends_with(r"ccl-sql metric mfu --trace 'it'\''s one'"), "{hint}");
        for today in ["metric mfu", "sql -- --metric x", "-h", ""] {
            let words = || today.split(' ').map(OsString::from);
            assert_eq!(rewritten(words()), (words().collect(), None), "{today}");
        }
    }
}
