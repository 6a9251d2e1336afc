//! Units of values: their names, and how people read their numbers.
//!
//! This is the one table. The lint of SQL files, texts for people and the HTML pages read it;
//! `sql/README.md` lists the names.

/// A step of a scaled unit: the power of ten, the spelling.
pub type Step = (i32, &'static str);

const TIME: [Step; 5] = [(-12, "ps"), (-9, "ns"), (-6, "us"), (-3, "ms"), (0, "s")];
const BYTES: [Step; 7] =
    [(0, "B"), (3, "kB"), (6, "MB"), (9, "GB"), (12, "TB"), (15, "PB"), (18, "EB")];
const FLOPS: [Step; 7] = [
    (0, "FLOP"),
    (3, "kFLOP"),
    (6, "MFLOP"),
    (9, "GFLOP"),
    (12, "TFLOP"),
    (15, "PFLOP"),
    (18, "EFLOP"),
];

/// A unit that a column may have.
#[derive(Debug)]
pub struct Unit {
    /// The name.
    pub name: &'static str,
    /// Whether the name of a column ends in it.
    pub in_names: bool,
    /// How its numbers are written.
    pub spelling: Spelling,
}

/// How numbers are written.
#[derive(Debug)]
pub struct Spelling {
    /// Significant digits.
    pub digits: usize,
    /// Steps of a scaled unit; none for one that stays as it is.
    pub steps: &'static [Step],
    /// Power of ten of the unit itself among the steps.
    pub power: i32,
    /// What follows the number and the step.
    pub after: &'static str,
    /// Zeros at the end of a fraction are cut.
    pub cut: bool,
}

/// The spelling of numbers without a unit.
pub const PLAIN: Spelling = Spelling { digits: 4, steps: &[], power: 0, after: "", cut: true };

/// Every unit.
pub static UNITS: [Unit; 29] = [
    scaled("ns", 4, &TIME, -9, "").in_names(),
    scaled("us", 4, &TIME, -6, "").in_names(),
    scaled("ms", 4, &TIME, -3, "").in_names(),
    scaled("s", 4, &TIME, 0, "").in_names(),
    scaled("bytes", 3, &BYTES, 0, "").in_names(),
    scaled("mb", 3, &BYTES, 6, "").in_names(),
    scaled("gb", 3, &BYTES, 9, "").in_names(),
    fixed("gib", 3, " GiB").in_names(),
    fixed("mib", 3, " MiB").in_names(),
    scaled("gb_per_s", 3, &BYTES, 9, "/s").in_names(),
    scaled("s_per_gb", 4, &TIME, 0, "/GB").in_names(),
    fixed("count", 4, "").in_names(),
    fixed("ratio", 3, "").in_names(),
    fixed("pct", 3, " %").in_names(),
    scaled("s_per_byte", 4, &TIME, 0, "/B"),
    scaled("bytes_per_s", 3, &BYTES, 0, "/s"),
    fixed("calls", 4, " calls"),
    fixed("tokens", 4, " tokens"),
    fixed("tokens_per_s", 4, " tokens/s"),
    fixed("requests_per_s", 4, " requests/s"),
    fixed("samples_per_s", 4, " samples/s"),
    fixed("tokens_per_gib", 4, " tokens/GiB"),
    fixed("tokens_per_s_per_gib", 4, " tokens/s/GiB"),
    fixed("per_s", 4, "/s"),
    fixed("score", 3, ""),
    scaled("flops", 3, &FLOPS, 0, ""),
    scaled("flops_per_s", 3, &FLOPS, 0, "/s"),
    scaled("flops_per_token", 3, &FLOPS, 0, "/token"),
    fixed("flops_per_byte", 4, " FLOP/B"),
];

/// The unit of a name.
pub fn unit(name: &str) -> Option<&'static Unit> {
    UNITS.iter().find(|unit| unit.name == name)
}

const fn scaled(
    name: &'static str,
    digits: usize,
    steps: &'static [Step],
    power: i32,
    after: &'static str,
) -> Unit {
    let spelling = Spelling { digits, steps, power, after, cut: false };
    Unit { name, in_names: false, spelling }
}

const fn fixed(name: &'static str, digits: usize, after: &'static str) -> Unit {
    let spelling = Spelling { digits, steps: &[], power: 0, after, cut: digits == 4 };
    Unit { name, in_names: false, spelling }
}

impl Unit {
    const fn in_names(self) -> Self {
        Self { in_names: true, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_of_the_sql_files_lists_the_units() {
        let readme = include_str!("../../sql/README.md");
        for in_names in [true, false] {
            let names: Vec<&str> =
                UNITS.iter().filter(|u| u.in_names == in_names).map(|u| u.name).collect();
            let listed =
                readme.split('`').any(|code| code.split_whitespace().eq(names.iter().copied()));
            assert!(listed, "sql/README.md does not list `{}`", names.join(" "));
        }
    }

    #[test]
    fn every_scaled_unit_is_one_of_its_steps() {
        for Unit { name, spelling: own, .. } in &UNITS {
            assert!(own.steps.is_empty() || own.steps.iter().any(|s| s.0 == own.power), "{name}");
        }
    }
}
