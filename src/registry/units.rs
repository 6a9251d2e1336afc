//! Numbers for people: cards on the terminal, the text, Markdown and HTML reports. Forms for
//! programs keep their values.
//!
//! The units are those of [`crate::schema::units`]. The rules are simple enough to be said twice,
//! here and in the JavaScript of a page; both give the same text for the same value. `D` digits are
//! those of JavaScript's `toExponential(D - 1)`: the nearest decimal, of two equally near the one
//! further from zero.
//!
//! | unit | `D` | steps | zeros at the end | example |
//! | --- | --- | --- | --- | --- |
//! | `ns` `us` `ms` `s` | 4 | ps ns us ms s | kept | `1234.5 us` → `1.235 ms` |
//! | `s_per_gb`, `s_per_byte` | 4 | the same, `/GB`, `/B` | kept | `0.0234` → `23.40 ms/GB` |
//! | `bytes`, `mb`, `gb` | 3 | B kB MB GB TB PB EB (10^3) | kept | `1.23 GB` |
//! | `bytes_per_s`, `gb_per_s` | 3 | the same, `/s` | kept | `0.45` → `450 MB/s` |
//! | `flops`, `flops_per_s`, `flops_per_token` | 3 | FLOP kFLOP … EFLOP; `/s`, `/token` | kept |
//! `12.3 TFLOP/s` |
//! | `mib`, `gib` | 3 | - | kept | `80.0 GiB` |
//! | `pct` | 3 | - | kept | `38.3 %` |
//! | `ratio`, `score` | 3 | - | kept | `0.382` |
//! | `count`, `calls`, `tokens` | 4 | - | cut | `12,345`, `12.5 calls` |
//! | `tokens_per_s`, `per_s` and other rates | 4 | - | cut | `12,345 tokens/s`, `2.5/s` |
//! | none, or an unknown one | 4 | - | cut | `0.9987`, `1024` |
//!
//! 1. The value is rounded to `D` digits: digits and a decimal exponent. The scaled units take the
//!    largest step that does not exceed this; below the smallest step the smallest, above the
//!    largest the largest. The step moves the decimal point only.
//! 2. Where the integer part is longer than `D` digits, all of it is shown, rounded to an integer.
//! 3. With more than 15 digits before the point, or less than 0.0001, the form is `1.23e15`,
//!    `1.23e-5`: no plus sign, no leading zero.
//! 4. The integer part has commas by thousands; not for values without a unit (ranks, steps, ids).
//! 5. In the steps ns, B and FLOP (with what follows the slash), a fraction of zeros alone is cut:
//!    `512 B`, `5 ns`. Where the table says "cut", all zeros at the end of a fraction are.
//! 6. Zero is `0` with the unit's own spelling: `0 us`, `0 GB/s`, `0 %`, `0`. There is no `-0`.
//! 7. An integer without a unit is written as it stands, however long.
//! 8. null, and what is no finite number, is `n/a`. `true` and `false` stand as they are. A list or
//!    an object is its JSON.
//! 9. In text, tab, line feed and carriage return become a space; the other control characters
//!    (U+0000-1F, 7F-9F), the line separators U+2028-2029 and those that turn the direction of the
//!    text (U+202A-202E, 2066-2069) are left out.

use serde_json::{Number, Value};

use crate::schema::units::{PLAIN, Spelling, UNITS, unit};

/// The unit that the name of a field ends in, as `wait_ms`; None for a point in time, of which a
/// rounded number says nothing.
pub fn of_name(name: &str) -> Option<&'static str> {
    if is_time(name) {
        return None;
    }
    suffix(name)
}

/// The unit that the name of a field ends in; of a point in time too.
pub fn suffix(name: &str) -> Option<&'static str> {
    UNITS
        .iter()
        .map(|unit| unit.name)
        .filter(|unit| {
            let before = name.strip_suffix(unit);
            before.is_some_and(|b| b.is_empty() || b.ends_with('_'))
        })
        .max_by_key(|unit| unit.len())
}

/// Whether a field is a point in time, by its name.
pub fn is_time(name: &str) -> bool {
    ["ts_ns", "start_ns", "end_ns"].iter().any(|time| name.ends_with(time))
}

/// A value as people read it, with its unit; the rules are those of the module.
pub fn human(value: &Value, unit: Option<&str>) -> String {
    match value {
        Value::Null => "n/a".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::String(text) => plain_text(text),
        Value::Number(number) => human_number(number, unit),
        Value::Array(_) | Value::Object(_) => plain_text(&value.to_string()),
    }
}

/// Text on one line, without what steers a terminal or turns the direction of the text.
pub fn plain_text(text: &str) -> String {
    text.chars()
        .filter_map(|c| match c {
            '\t' | '\n' | '\r' => Some(' '),
            '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => None,
            c if c.is_control() => None,
            c => Some(c),
        })
        .collect()
}

fn human_number(number: &Number, unit_name: Option<&str>) -> String {
    let text = number.to_string();
    if unit_name.is_none() && text.bytes().all(|b| b.is_ascii_digit() || b == b'-') {
        return if text == "-0" { "0".to_owned() } else { text };
    }
    let Some(x) = number.as_f64().filter(|x| x.is_finite()) else { return "n/a".to_owned() };
    let Some(name) = unit_name else { return written(x, &PLAIN, false) };
    match unit(name) {
        Some(unit) => written(x, &unit.spelling, true),
        None => format!("{} {}", written(x, &PLAIN, true), plain_text(name)),
    }
}

fn written(x: f64, spelling: &Spelling, commas: bool) -> String {
    let Spelling { digits: wanted, steps, power, after, cut } = *spelling;
    let own = steps.iter().find(|(p, _)| *p == power).copied().unwrap_or((0, ""));
    let gap = if steps.is_empty() { "" } else { " " };
    if x == 0.0 {
        return format!("0{gap}{}{after}", own.1);
    }
    let sign = if x < 0.0 { "-" } else { "" };
    let (mut digits, mut exponent) = rounded(x.abs(), wanted);
    let step =
        steps.iter().rev().find(|(p, _)| *p <= exponent + power).or(steps.first()).unwrap_or(&own);
    // What the step takes off the exponent.
    let shift = step.0 - power;
    let whole_digits = usize::try_from(exponent - shift + 1).unwrap_or(0);
    if whole_digits > wanted && whole_digits <= 15 {
        let carried = exponent;
        (digits, exponent) = rounded(x.abs(), whole_digits);
        if exponent < carried {
            // 99999.9 was 1.000e5 and is 99999.9 with six digits: it has five before the point.
            (digits, exponent) = rounded(x.abs(), whole_digits - 1);
        }
    }
    let mut number = decimal(&digits, exponent - shift, commas);
    let whole = matches!(step.1, "ns" | "B" | "FLOP");
    if let Some((_, fraction)) = number.split_once('.')
        && (cut || whole && fraction.bytes().all(|b| b == b'0'))
    {
        number = match number.split_once('e') {
            Some((mantissa, e)) => format!("{}e{e}", without_zeros(mantissa)),
            None => without_zeros(&number).to_owned(),
        };
    }
    format!("{sign}{number}{gap}{}{after}", step.1)
}

fn without_zeros(number: &str) -> &str {
    number.trim_end_matches('0').trim_end_matches('.')
}

/// The first `n` digits of a positive number, rounded half up, and the exponent of the first one.
fn rounded(x: f64, n: usize) -> (Vec<u8>, i32) {
    // A tie has few digits; with 40 of them a number that only looks like one is none.
    let text = format!("{x:.40e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let mut exponent: i32 = exponent.parse().unwrap_or(0);
    let mut digits: Vec<u8> = mantissa.bytes().filter(u8::is_ascii_digit).collect();
    let up = digits.get(n).is_some_and(|d| *d >= b'5');
    digits.truncate(n);
    if up {
        for digit in digits.iter_mut().rev() {
            if *digit < b'9' {
                *digit += 1;
                return (digits, exponent);
            }
            *digit = b'0';
        }
        digits.insert(0, b'1');
        digits.truncate(n);
        exponent += 1;
    }
    (digits, exponent)
}

/// Digits with the point after place `exponent`, or as a power of ten where that would be long.
fn decimal(digits: &[u8], exponent: i32, commas: bool) -> String {
    let text: String = digits.iter().map(|d| char::from(*d)).collect();
    if !(-4..15).contains(&exponent) {
        let (first, rest) = text.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        return format!("{first}{point}{rest}e{exponent}");
    }
    let Ok(last) = usize::try_from(exponent) else {
        let zeros = usize::try_from(-exponent - 1).unwrap_or(0);
        return format!("0.{}{text}", "0".repeat(zeros));
    };
    let padded = format!("{text:0<width$}", width = last + 1);
    let (whole, fraction) = padded.split_at(last + 1);
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{}{point}{fraction}", if commas { thousands(whole) } else { whole.to_owned() })
}

fn thousands(digits: &str) -> String {
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_written_as_people_read_them() {
        for (value, unit, want) in [
            (json!(1234.5), "us", "1.235 ms"),
            (json!(0.00012), "s", "120.0 us"),
            (json!(5), "ns", "5 ns"),
            (json!(0.5), "ns", "500.0 ps"),
            (json!(999.96), "us", "1.000 ms"),
            (json!(-1500), "ms", "-1.500 s"),
            (json!(12345.6), "s", "12,346 s"),
            (json!(0.0234), "s_per_gb", "23.40 ms/GB"),
            (json!(1e-11), "s_per_byte", "10.00 ps/B"),
            (json!(512), "bytes", "512 B"),
            (json!(1_234_567_890_u64), "bytes", "1.23 GB"),
            (json!(999_500), "bytes", "1.00 MB"),
            (json!(0.45), "gb_per_s", "450 MB/s"),
            (json!(1.225), "gb", "1.23 GB"),
            (json!(450e6), "bytes_per_s", "450 MB/s"),
            (json!(12.34e12), "flops_per_s", "12.3 TFLOP/s"),
            (json!(6e9), "flops_per_token", "6.00 GFLOP/token"),
            (json!(80), "gib", "80.0 GiB"),
            (json!(4096), "mib", "4,096 MiB"),
            (json!(0.38249), "ratio", "0.382"),
            (json!(1), "ratio", "1.00"),
            (json!(38.25), "pct", "38.3 %"),
            (json!(-0.0), "pct", "0 %"),
            (json!(12345), "count", "12,345"),
            (json!(12.5), "calls", "12.5 calls"),
            (json!(12345.2), "tokens_per_s", "12,345 tokens/s"),
            (json!(2.5), "per_s", "2.5/s"),
            (json!(99999.9), "tokens", "100,000 tokens"),
            (json!(99996), "tokens", "99,996 tokens"),
            (json!(123_456_789_012_345_u64), "count", "123,456,789,012,345"),
            (json!(1_234_567_890_123_456_u64), "count", "1.235e15"),
            (json!(0.00123), "ratio", "0.00123"),
            (json!(0.00001234), "ratio", "1.23e-5"),
            (json!(7), "furlongs", "7 furlongs"),
        ] {
            assert_eq!(human(&value, Some(unit)), want, "{value} {unit}");
        }
    }

    #[test]
    fn values_without_a_unit_have_no_commas() {
        for (value, want) in [
            (json!(1024), "1024"),
            (json!(18_446_744_073_709_551_615_u64), "18446744073709551615"),
            (json!(0.998_712), "0.9987"),
            (json!(12.0), "12"),
            (json!(20_000.5), "20001"),
            (json!(true), "true"),
            (Value::Null, "n/a"),
            (json!([1, {"a": null}]), "[1,{\"a\":null}]"),
        ] {
            assert_eq!(human(&value, None), want, "{value}");
        }
    }

    #[test]
    fn zero_has_the_spelling_of_every_unit() {
        for unit in &UNITS {
            let zero = human(&json!(0), Some(unit.name));
            assert!(zero.starts_with('0') && !zero.contains('_'), "`{}`: {zero}", unit.name);
        }
    }

    #[test]
    fn fields_end_in_their_units() {
        for (name, unit) in [
            ("wait_ms", Some("ms")),
            ("bus_bw_gb_per_s", Some("gb_per_s")),
            ("tokens_per_s", Some("tokens_per_s")),
            ("calls", Some("calls")),
            ("duration_s", Some("s")),
            ("max_link", None),
            ("recalls", None),
            ("start_ns", None),
            ("first_start_ns", None),
        ] {
            assert_eq!(of_name(name), unit, "{name}");
        }
    }

    #[test]
    fn no_number_is_too_large_or_too_small() {
        let texts = ["1e999", "-1e999", "1e308", "-1e308", "5e-324", "1e15", "999999999999999.9"];
        for text in texts {
            let value: Value = serde_json::from_str(text).expect("a number");
            for unit in UNITS.iter().map(|unit| Some(unit.name)).chain([None]) {
                let out = human(&value, unit);
                assert!(!out.is_empty() && out.len() < 40, "{text} {unit:?}: {out}");
            }
        }
        let text = |t: &str, unit| human(&serde_json::from_str(t).expect("a number"), unit);
        assert_eq!(text("1e999", Some("us")), "n/a");
        assert_eq!(text("1e308", Some("s")), "1.000e308 s");
        assert_eq!(text("5e-324", Some("ratio")), "4.94e-324");
        assert_eq!(text("1e15", Some("count")), "1e15");
        assert_eq!(text("1e14", Some("count")), "100,000,000,000,000");
        assert_eq!(text("1e40", Some("bytes")), "1.00e22 EB");
        assert_eq!(text("-0", None), "0");
    }

    #[test]
    fn text_keeps_its_letters_and_loses_what_steers() {
        let value = json!("a\u{1b}[31m\tb\n\u{9b}ünï\u{202e}c\u{2028}漢\0");
        assert_eq!(human(&value, Some("us")), "a[31m b ünïc漢");
    }
}
