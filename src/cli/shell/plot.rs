//! `.plot`: two columns of a query on the screen, as points, as a line, or as bars.

use serde_json::Value;
use textplots::{Chart, Plot, Shape};
use unicode_width::UnicodeWidthStr;

use crate::error::{Error, Result};
use crate::registry::units::{human, is_time, of_name};
use crate::report::grid::value::{cut, printable};

/// Rows that a plot takes; a screen has fewer dots.
pub const MOST_POINTS: usize = 200_000;

/// Bars that a plot has.
const MOST_BARS: usize = 40;

/// Columns of a name beside its bar.
const LONGEST_NAME: usize = 32;

/// Dots of a character of the plot, across and down.
const DOTS: (usize, usize) = (2, 4);

/// Two columns, drawn in so many columns and lines of a screen: bars where the first is no number.
///
/// # Errors
/// `usage` where there is nothing that can be drawn.
pub fn plot(
    (x_name, y_name): (&str, &str),
    rows: &[(Value, Value)],
    (width, height): (usize, usize),
) -> Result<String> {
    let y_unit = of_name(y_name);
    if rows.iter().any(|(x, _)| !x.is_number() && !x.is_null()) {
        return bars(x_name, y_name, rows, width);
    }
    // Of whole numbers the least is taken off first: a fraction of 64 bits holds no time of today
    // to the nanosecond.
    let whole: Option<Vec<i64>> = rows.iter().map(|(x, _)| x.as_i64()).collect();
    let base = whole.and_then(|whole| whole.into_iter().min()).unwrap_or(0);
    let points: Vec<(f64, f64)> = rows
        .iter()
        .filter_map(|(x, y)| {
            let x = match x.as_i64() {
                Some(x) => x.checked_sub(base)? as f64,
                None => x.as_f64()? - base as f64,
            };
            Some((x, y.as_f64()?))
        })
        .filter(|(x, y)| x.is_finite() && y.is_finite())
        .collect();
    if points.len() < 2 {
        return Err(nothing(y_name));
    }
    let (x_least, x_most) = range(points.iter().map(|p| p.0));
    let (y_least, y_most) = range(points.iter().map(|p| p.1));
    // The library counts in 32 bits, which tell no two nanoseconds of a day apart.
    let part = |value: f64, least: f64, most: f64| {
        let part = if most > least { (value - least) / (most - least) } else { 0.5 };
        part as f32
    };
    let dots: Vec<(f32, f32)> = points
        .iter()
        .map(|(x, y)| (part(*x, x_least, x_most), part(*y, y_least, y_most)))
        .collect();
    let is_line = points.windows(2).all(|pair| pair[0].0 < pair[1].0);
    let shape = if is_line { Shape::Lines(&dots) } else { Shape::Points(&dots) };
    let canvas = (width.max(20) * DOTS.0 - DOTS.0, height.max(4) * DOTS.1 - DOTS.1);
    let mut chart = Chart::new_with_y_range(canvas.0 as u32, canvas.1 as u32, 0.0, 1.0, 0.0, 1.0);
    let chart = chart.lineplot(&shape);
    chart.figures();
    let number = |value: f64, unit| human(&Value::from(value), unit);
    let x_unit = of_name(x_name);
    let mut ends = [x_least, x_most].map(|x| number(x + base as f64, x_unit));
    let mut name = printable(x_name);
    if is_time(x_name) {
        // Of a point in time no digit says anything but the last ones.
        ends = ["0 ns".to_owned(), number(x_most - x_least, Some("ns"))];
        name.push_str(" since the first");
    }
    let [least, most] = ends;
    let name = cut(&name, width / 2);
    let gap = width.saturating_sub(least.width() + most.width() + name.width()) / 2;
    let gap = " ".repeat(gap.max(1));
    Ok(format!(
        "{}, {} to {}\n{}\n{least}{gap}{name}{gap}{most}\n{} points\n",
        printable(y_name),
        number(y_least, y_unit),
        number(y_most, y_unit),
        chart.frame().trim_end_matches('\n'),
        points.len(),
    ))
}

fn nothing(name: &str) -> Error {
    Error::new("usage", format!("`{name}` has no two numbers that could be drawn"))
        .hint("the second column of a plot is a number: .plot NAME NUMBER")
}

fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)))
}

/// A bar for each row, from zero.
fn bars(x_name: &str, y_name: &str, rows: &[(Value, Value)], width: usize) -> Result<String> {
    let name = |value: &Value| match value {
        Value::String(text) => cut(&printable(text), LONGEST_NAME),
        Value::Null => "NULL".to_owned(),
        other => cut(&printable(&other.to_string()), LONGEST_NAME),
    };
    let bars: Vec<(String, f64)> = rows
        .iter()
        .take(MOST_BARS)
        .filter_map(|(x, y)| Some((name(x), y.as_f64().filter(|y| y.is_finite())?)))
        .collect();
    let most = bars.iter().map(|(_, y)| y.abs()).fold(0.0, f64::max);
    if bars.is_empty() || most == 0.0 {
        return Err(nothing(y_name));
    }
    let names = bars.iter().map(|(name, _)| name.width()).max().unwrap_or(0);
    let numbers: Vec<String> =
        bars.iter().map(|(_, y)| human(&Value::from(*y), of_name(y_name))).collect();
    let longest = numbers.iter().map(|n| n.width()).max().unwrap_or(0);
    let room = width.saturating_sub(names + longest + 4).max(8);
    let mut out = format!("{} by {}\n", printable(y_name), printable(x_name));
    for ((name, y), number) in bars.iter().zip(&numbers) {
        // Eighths of a character.
        let eighths = (y.abs() / most * (room * 8) as f64).round() as usize;
        let rest = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8];
        let pad = " ".repeat(names - name.width());
        let before = " ".repeat(longest - number.width());
        out.push_str(&format!(
            "{name}{pad}  {before}{number}  {}{rest}\n",
            "█".repeat(eighths / 8)
        ));
    }
    if rows.len() > MOST_BARS {
        out.push_str(&format!("({} more)\n", rows.len() - MOST_BARS));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_points_within_the_screen() {
        let ts = 1_700_000_000_000_000_000_i64;
        let rows: Vec<(Value, Value)> =
            (0..50).map(|i| (json!(ts + i), json!(f64::from(i as i32) * 1e3))).collect();
        let text = plot(("ts_ns", "dur_ns"), &rows, (60, 8)).expect("a plot");
        assert!(text.starts_with("dur_ns, 0 ns to 49.00 us\n"), "{text}");
        assert!(text.lines().all(|l| l.width() <= 60), "{text}");
        assert!(text.contains("ts_ns since the first") && text.contains(" 49 ns\n"), "{text}");
        // A line from one corner to the other, though the times differ by nanoseconds.
        let drawn: Vec<&str> = text.lines().collect();
        assert!(drawn[1].trim_end().ends_with(|c| c != '\u{2800}' && c != ' '), "{text}");
        assert!(drawn[1].trim_end_matches([' ', '\u{2800}']).width() >= 58, "{text}");
        assert!(drawn[8].starts_with(|c| c != '\u{2800}' && c != ' '), "{text}");
        // Rows in another order are the same points.
        let back: Vec<_> = rows.into_iter().rev().collect();
        let text = plot(("ts_ns", "dur_ns"), &back, (60, 8)).expect("a plot");
        assert!(text.contains("\n0 ns ") && text.contains(" 49 ns\n"), "{text}");
    }

    #[test]
    fn the_ends_are_told_as_they_are() {
        let rows = vec![(json!(1_000_000), json!(1)), (json!(1_000_250), json!(2))];
        let text = plot(("place", "calls"), &rows, (60, 8)).expect("a plot");
        let ends = text.lines().rev().nth(1).expect("a line");
        assert!(ends.starts_with("1000000 ") && ends.ends_with(" 1000250"), "{text}");
    }

    #[test]
    fn names_have_bars() {
        let rows =
            vec![(json!("a\u{1b}"), json!(1)), (json!("b"), json!(4)), (Value::Null, json!(0))];
        let text = plot(("kind", "calls"), &rows, (40, 8)).expect("a plot");
        let bars = |line: &str| line.matches('█').count();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(bars(lines[2]) / 4, bars(lines[1]), "{text}");
        assert!(!text.contains('\u{1b}') && lines[3].starts_with("NULL"), "{text}");
    }

    #[test]
    fn nothing_to_draw_is_said() {
        for rows in [vec![], vec![(json!(1), json!(2))], vec![(json!("a"), json!("b"))]] {
            assert_eq!(plot(("x", "y"), &rows, (40, 8)).expect_err("nothing").code, "usage");
        }
        let same = vec![(json!(1), json!(2)), (json!(1), json!(2))];
        assert!(plot(("x", "y"), &same, (40, 8)).is_ok());
    }

    #[test]
    fn what_does_not_change_is_a_line_in_the_middle() {
        let rows: Vec<(Value, Value)> = (0..50).map(|x| (json!(x), json!(7))).collect();
        let text = plot(("x", "calls"), &rows, (60, 8)).expect("a plot");
        let drawn = |line: &&str| line.chars().any(|c| ('\u{2801}'..='\u{28ff}').contains(&c));
        let lines: Vec<bool> = text.lines().skip(1).take(8).map(|line| drawn(&line)).collect();
        assert!(lines.iter().filter(|l| **l).count() == 1 && (lines[3] || lines[4]), "{text}");
    }
}
