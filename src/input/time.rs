//! Times: decimal microseconds to integer nanoseconds, digit by digit, never through a float; and
//! the base of a clock.

/// Recorded times from here on (in ns) are epoch times already: no base is added to them.
/// 10^15 microseconds is 2001; a base plus anything smaller stays far below.
pub const EPOCH_FROM_NS: i64 = 1_000_000_000_000_000_000;

/// Times and lengths beyond are none: 73 years on either side of the epoch and of now, and sums and
/// differences of some of them still fit.
pub const MAX_NS: i64 = 1 << 61;

/// A recorded time with the base of the clock added, unless it is an epoch time already.
pub fn shifted(ts: i64, base_ns: i64) -> i64 {
    if ts < EPOCH_FROM_NS { ts.saturating_add(base_ns) } else { ts }
}

/// Nanoseconds of a JSON number of microseconds (the raw token, plain or in quotes).
///
/// `"5544613.123"` is 5544613123. Digits past the third decimal round half to even, as
/// `formats_kineto` section 2 measured on real files. None for anything that is no decimal number
/// (`NaN`), or that does not fit an `i64`.
pub fn micros_to_nanos(raw: &[u8]) -> Option<i64> {
    let token = match raw {
        [b'"', inner @ .., b'"'] => inner,
        _ => raw,
    };
    plain(token).or_else(|| i64::try_from(decimal(token, 3)?).ok())
}

/// Nanoseconds of a JSON number of seconds (the raw token), rounded half to even.
/// None for anything that is no decimal number, or that does not fit an `i64`.
pub fn seconds_to_nanos(raw: &[u8]) -> Option<i64> {
    i64::try_from(decimal(raw, 9)?).ok()
}

/// Picoseconds of a JSON number of microseconds, rounded to the nearest: converters print more
/// digits than their clock has (`13521.405000000001`).
pub fn micros_to_picos(raw: &[u8]) -> Option<i128> {
    let token = match raw {
        [b'"', inner @ .., b'"'] => inner,
        _ => raw,
    };
    decimal(token, 6)
}

/// The form of nearly every time: at most 15 digits, perhaps a point and at most three more.
fn plain(token: &[u8]) -> Option<i64> {
    let whole = token.iter().position(|c| *c == b'.').unwrap_or(token.len());
    let decimals = token.get(whole + 1..).unwrap_or_default();
    let scale = match decimals.len() {
        0 => 1000,
        1 => 100,
        2 => 10,
        3 => 1,
        _ => return None,
    };
    if whole == 0 || whole > 15 {
        return None;
    }
    let mut value = 0;
    for c in token[..whole].iter().chain(decimals) {
        if !c.is_ascii_digit() {
            return None;
        }
        value = value * 10 + i64::from(c - b'0');
    }
    Some(value * scale)
}

/// Any decimal number, its point moved by so many digits.
fn decimal(token: &[u8], digits_left: i32) -> Option<i128> {
    let (negative, digits) = match token {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, token),
    };
    let mut mantissa: u128 = 0;
    let mut scale: i32 = digits_left;
    let mut seen = false;
    let mut fraction = false;
    let mut dropped = false; // a non-zero digit beyond what a u128 keeps
    let mut exponent: i32 = 0;
    let mut i = 0;
    while i < digits.len() {
        match digits[i] {
            c @ b'0'..=b'9' => {
                seen = true;
                if mantissa < 10u128.pow(30) {
                    mantissa = mantissa * 10 + u128::from(c - b'0');
                    scale -= i32::from(fraction);
                } else {
                    dropped |= c != b'0';
                    scale += i32::from(!fraction);
                }
            }
            b'.' if !fraction && seen => fraction = true,
            b'e' | b'E' if seen => {
                exponent = std::str::from_utf8(&digits[i + 1..]).ok()?.parse().ok()?;
                break;
            }
            _ => return None,
        }
        i += 1;
    }
    if !seen {
        return None;
    }
    scale = scale.checked_add(exponent)?;
    let value = if mantissa == 0 {
        0
    } else if scale >= 0 {
        mantissa.checked_mul(10u128.checked_pow(u32::try_from(scale).ok()?)?)?
    } else {
        match 10u128.checked_pow(scale.unsigned_abs()) {
            None => 0,
            Some(unit) => {
                let (quotient, rest) = (mantissa / unit, mantissa % unit);
                let half = unit / 2;
                let up = rest > half || rest == half && (dropped || quotient % 2 == 1);
                quotient + u128::from(up)
            }
        }
    };
    let value = i128::try_from(value).ok()?;
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::{micros_to_nanos as ns, micros_to_picos as ps};

    #[test]
    fn times_of_the_epoch_are_not_shifted() {
        use super::{EPOCH_FROM_NS, shifted};
        assert_eq!(shifted(EPOCH_FROM_NS, 5), EPOCH_FROM_NS);
        assert_eq!(shifted(EPOCH_FROM_NS - 1, 5), EPOCH_FROM_NS + 4);
    }

    #[test]
    fn picoseconds_of_what_converters_print() {
        for (text, value) in [
            ("62.372999999999998", 62_373_000),
            ("13521.405000000001", 13_521_405_000),
            ("9.9999999999999995e-07", 1),
            ("\"0.961328\"", 961_328),
            ("1795232688616822.004", 1_795_232_688_616_822_004_000),
            ("-1.5", -1_500_000),
        ] {
            assert_eq!(ps(text.as_bytes()), Some(value), "{text}");
        }
        assert_eq!(ps(b"x"), None);
    }

    #[test]
    fn nanoseconds_of_seconds() {
        for (text, value) in [
            ("0.1", 100_000_000),
            ("2.000000001", 2_000_000_001),
            ("0.0123456789012345", 12_345_679),
            ("3.5e-05", 35_000),
            ("0.0000000005", 0),
            ("0.0000000015", 2),
            ("-1", -1_000_000_000),
        ] {
            assert_eq!(super::seconds_to_nanos(text.as_bytes()), Some(value), "{text}");
        }
        for text in ["NaN", "\"NaN\"", "null", "1e400", "9223372037", "[1]", ""] {
            assert_eq!(super::seconds_to_nanos(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn every_form_that_traces_hold() {
        assert_eq!(ns(b"0"), Some(0));
        assert_eq!(ns(b"1694128201426556"), Some(1_694_128_201_426_556_000));
        assert_eq!(ns(b"1712195495406752.797"), Some(1_712_195_495_406_752_797));
        assert_eq!(ns(b"4458676423385.7"), Some(4_458_676_423_385_700));
        assert_eq!(ns(b"57924.0"), Some(57_924_000));
        assert_eq!(ns(b"\"12.5\""), Some(12_500));
        assert_eq!(ns(b"-5"), Some(-5_000));
        assert_eq!(ns(b"1.5e3"), Some(1_500_000));
        assert_eq!(ns(b"15e-1"), Some(1_500));
    }

    #[test]
    fn the_short_way_says_what_the_long_one_says() {
        for token in ["0", "7", "12.", "12.3", "12.34", "12.345", "0.001", "999999999999999.999"] {
            let long = super::decimal(token.as_bytes(), 3).and_then(|ns| i64::try_from(ns).ok());
            assert_eq!(super::plain(token.as_bytes()), long, "{token}");
        }
        for token in ["", ".5", "-1", "1.2345", "1e3", "1.2.3", "1234567890123456"] {
            assert_eq!(super::plain(token.as_bytes()), None, "{token}");
        }
    }

    #[test]
    fn a_fourth_decimal_rounds_half_to_even() {
        assert_eq!(ns(b"1.0005"), Some(1_000));
        assert_eq!(ns(b"1.0015"), Some(1_002));
        assert_eq!(ns(b"1.00050000001"), Some(1_001));
        assert_eq!(ns(b"0.05501"), Some(55));
        assert_eq!(ns(b"1.0004999999999999999999999999999999999999"), Some(1_000));
        // Beyond what 128 bits keep, a digit still says that a half is more.
        let zeros = "0".repeat(40);
        assert_eq!(ns(format!("1.0005{zeros}").as_bytes()), Some(1_000));
        assert_eq!(ns(format!("1.0005{zeros}1").as_bytes()), Some(1_001));
        // So many digits before the point count too.
        assert_eq!(ns(format!("1{zeros}e-36").as_bytes()), Some(10_000_000));
        assert_eq!(ns(format!("1{zeros}.{zeros}e-36").as_bytes()), Some(10_000_000));
    }

    #[test]
    fn no_number_and_no_overflow() {
        for bad in [
            "NaN",
            "\"NaN\"",
            "Infinity",
            "",
            "-",
            ".",
            "1e300",
            "1180591620717411303424",
            "1x",
            "1.2.3",
            ".5",
            "e5",
            "1e",
            "{}",
        ] {
            assert_eq!(ns(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(ns(b"1e-400"), Some(0));
        assert_eq!(ns(b"0e999999999"), Some(0));
        assert_eq!(ns(b"9223372036854775.807"), Some(i64::MAX));
        assert_eq!(ns(b"9223372036854775.808"), None);
    }
}
