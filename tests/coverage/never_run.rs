//! Prints the lines of `src` that no test ran: `never_run SOURCES PROGRAM=PROFILE[,PROFILE] ...`.
//! Tests inside of a file, which stand at its end, do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// First line and column, last line and column.
type Region = (usize, usize, usize, usize);

/// How often each region of each file ran, in all programs together.
fn counts(programs: &[String]) -> Result<BTreeMap<PathBuf, BTreeMap<Region, usize>>, String> {
    let mut out: BTreeMap<PathBuf, BTreeMap<Region, usize>> = BTreeMap::new();
    for program in programs {
        let (path, profiles) = program.split_once('=').ok_or("write PROGRAM=PROFILE")?;
        let profiles: Vec<PathBuf> = profiles.split(',').map(PathBuf::from).collect();
        let profile = match &profiles[..] {
            [one] => llvm_profparser::parse(one),
            several => llvm_profparser::merge_profiles(several),
        };
        let profile = profile.map_err(|e| format!("{path}: {e}"))?;
        let programs = [PathBuf::from(path)];
        let report = llvm_profparser::CoverageMapping::new(&programs, &profile, true)
            .and_then(|mapping| mapping.generate_report());
        for (file, result) in report.map_err(|e| format!("{path}: {e}"))?.files {
            let of_file = out.entry(file).or_default();
            for (place, count) in result.hits {
                let region =
                    (place.line_start, place.column_start, place.line_end, place.column_end);
                *of_file.entry(region).or_default() += count;
            }
        }
    }
    Ok(out)
}

/// The lines that have code, and of them those of which no region ran.
fn lines(regions: &BTreeMap<Region, usize>, tests: usize) -> (usize, BTreeSet<usize>) {
    let regions = || regions.iter().filter(|((first, ..), _)| *first < tests);
    let of = |(first, _, last, _): &Region| *first..=*last;
    let all: BTreeSet<usize> = regions().flat_map(|(region, _)| of(region)).collect();
    let run: BTreeSet<usize> =
        regions().filter(|(_, count)| **count > 0).flat_map(|(region, _)| of(region)).collect();
    // Regions do not lie inside of each other. A line of which a part ran has run.
    let never = regions().filter(|(_, count)| **count == 0).flat_map(|(region, _)| of(region));
    let never = never.filter(|line| !run.contains(line)).collect();
    (all.len(), never)
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((sources, programs)) = args.split_first() else {
        eprintln!("never_run SOURCES PROGRAM=PROFILE[,PROFILE] ...");
        return ExitCode::from(2);
    };
    let counts = match counts(programs) {
        Ok(counts) => counts,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let (mut count, mut missing) = (0, 0);
    for (file, regions) in counts.iter().filter(|(file, _)| file.starts_with(sources)) {
        let Ok(text) = std::fs::read_to_string(file) else { continue };
        let text: Vec<&str> = text.lines().collect();
        let tests = text.iter().position(|line| line.starts_with("#[cfg(test)]"));
        let (of_file, never) = lines(regions, tests.map_or(usize::MAX, |at| at + 1));
        count += of_file;
        missing += never.len();
        let shown = file.strip_prefix(Path::new(sources)).unwrap_or(file).display();
        for line in never {
            println!("{shown}:{line}: {}", text.get(line - 1).unwrap_or(&"").trim());
        }
    }
    println!("{missing} of {count} lines never ran");
    ExitCode::SUCCESS
}
