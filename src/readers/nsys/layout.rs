//! Which processes and devices of a file are ranks, found before its rows are read.
//!
//! A process is a rank on each device that it computes on. What it touches there by accident (a
//! stray kernel of a framework that started on device 0) makes no rank; neither do copies and sets,
//! unless the process does nothing else. Without any device, what annotates itself or calls CUDA is
//! a rank.

use std::collections::{BTreeMap, HashMap};

use crate::error::{Error, Result};
use crate::readers::nsys::database::{Database, int};
use crate::readers::nsys::ids::process_of;
use crate::readers::nsys::tables::{Kind, Plan};
use crate::sql_text::sql_name;

/// Ranks that a file may hold: each has files and buffers of its own.
pub const MAX_RANKS: usize = 512;
/// Processes and devices that are counted.
const MAX_COUNTED: usize = 65_536;
/// A device with less than one in so many of the kernels of a process is touched by accident.
const STRAY: u64 = 20;

/// Process, and device of what runs on one.
pub type Place = (i64, Option<i64>);

/// The ranks that rows go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum To {
    /// To a rank.
    Rank(usize),
    /// To no rank, from a process that has several: what they launch and mark is of each.
    Process(i64),
    /// To no rank.
    Rest,
}

/// The ranks of a file.
#[derive(Debug, Default)]
pub struct Layout {
    /// Processes and devices of the ranks.
    pub ranks: Vec<Place>,
    /// The ranks of each process; the one that computes most comes first.
    of_process: HashMap<i64, Vec<usize>>,
    /// Kernels on devices that their process touches by accident.
    pub stray: u64,
}

/// Counts rows by process and device.
fn count(
    database: &Database,
    plans: &[&Plan],
    by_process: bool,
    on_device: bool,
    partial: bool,
) -> Result<BTreeMap<Place, u64>> {
    let mut counts: BTreeMap<Place, u64> = BTreeMap::new();
    for plan in plans {
        let has =
            |place: Option<usize>, column| place.map_or("NULL".to_owned(), |_| sql_name(column));
        let process = match plan.at.process {
            Some(_) => has(plan.at.process, "globalPid"),
            None => has(plan.at.thread, "globalTid"),
        };
        let device = if on_device { has(plan.at.device, "deviceId") } else { "NULL".to_owned() };
        let sql = format!("SELECT {process}, {device} FROM {} NOT INDEXED", sql_name(&plan.table));
        database.with(|c| {
            let fault = |e: rusqlite::Error| database.fault(&e, &format!("reading {}", plan.table));
            let mut statement = c.prepare(&sql).map_err(fault)?;
            let mut rows = statement.query([]).map_err(fault)?;
            // Rows of one place mostly follow each other.
            let mut last: Option<(Place, u64)> = None;
            let add = |counts: &mut BTreeMap<Place, u64>, last: Option<(Place, u64)>| {
                if let Some((place, n)) = last
                    && (counts.len() < MAX_COUNTED || counts.contains_key(&place))
                {
                    *counts.entry(place).or_default() += n;
                }
            };
            loop {
                let row = match rows.next() {
                    Ok(Some(row)) => row,
                    Ok(None) => break,
                    // What the damage hides is told when the rows are read.
                    Err(_) if partial => break,
                    Err(e) => return Err(fault(e)),
                };
                let process = process_of(int(row, 0), by_process);
                let device = on_device.then(|| int(row, 1).unwrap_or(0));
                match &mut last {
                    Some((place, n)) if *place == (process, device) => *n += 1,
                    _ => {
                        add(&mut counts, last.take());
                        last = Some(((process, device), 1));
                    }
                }
            }
            add(&mut counts, last);
            Ok(())
        })?;
    }
    Ok(counts)
}

impl Layout {
    /// The ranks of a file with these tables. `by_process` says whether device events name their
    /// process.
    ///
    /// # Errors
    /// `nsys-unusable` for more ranks than a file may hold, `database-corrupt`.
    pub fn read(
        database: &Database,
        plans: &[Plan],
        by_process: bool,
        shown: &str,
        partial: bool,
    ) -> Result<Self> {
        let of = |kinds: &[Kind]| -> Vec<&Plan> {
            plans.iter().filter(|p| kinds.contains(&p.kind)).collect()
        };
        let mut out = Self::default();
        let work = count(database, &of(&[Kind::Kernel, Kind::Graph]), by_process, true, partial)?;
        let touched = count(database, &of(&[Kind::Copy, Kind::Set]), by_process, true, partial)?;
        let mut places = work;
        let computes: Vec<i64> = places.keys().map(|(process, _)| *process).collect();
        places.extend(touched.into_iter().filter(|((p, _), _)| computes.binary_search(p).is_err()));
        if places.is_empty() {
            places =
                count(database, &of(&[Kind::Nvtx, Kind::Runtime]), by_process, false, partial)?;
        }
        let mut of_process: BTreeMap<i64, Vec<(u64, Option<i64>)>> = BTreeMap::new();
        for ((process, device), n) in places {
            of_process.entry(process).or_default().push((n, device));
        }
        for (process, mut devices) in of_process {
            devices.sort_by_key(|(n, device)| (std::cmp::Reverse(*n), *device));
            let most = devices[0].0;
            for (n, device) in devices {
                if n.saturating_mul(STRAY) < most {
                    out.stray += n;
                    continue;
                }
                if out.ranks.len() == MAX_RANKS {
                    return Err(Error::new(
                        "nsys-unusable",
                        format!("the file holds more than {MAX_RANKS} processes and devices that compute"),
                    )
                    .at(shown)
                    .hint("export the report again; if it is right, split it by process"));
                }
                out.of_process.entry(process).or_default().push(out.ranks.len());
                out.ranks.push((process, device));
            }
        }
        Ok(out)
    }

    /// The ranks of a process.
    pub fn of_process(&self, process: i64) -> &[usize] {
        self.of_process.get(&process).map_or(&[], Vec::as_slice)
    }

    fn on(&self, ranks: &[usize], device: Option<i64>) -> Option<usize> {
        ranks.iter().copied().find(|rank| self.ranks[*rank].1 == device)
    }

    /// Where work of a device goes.
    pub fn device(&self, process: i64, device: i64) -> To {
        let ranks = self.of_process(process);
        match self.on(ranks, Some(device)).or(ranks.first().copied()) {
            Some(rank) => To::Rank(rank),
            None => To::Rest,
        }
    }

    /// Where an event of the host goes; `device` is the one that it waits for.
    pub fn host(&self, process: i64, device: Option<i64>) -> To {
        let ranks = self.of_process(process);
        match (device.and_then(|_| self.on(ranks, device)), ranks) {
            (Some(rank), _) => To::Rank(rank),
            (None, [one]) => To::Rank(*one),
            (None, []) => To::Rest,
            (None, _) => To::Process(process),
        }
    }

    /// Where a sample of a device goes: to the only rank there.
    pub fn sample(&self, device: Option<i64>) -> To {
        let mut on =
            (0..self.ranks.len()).filter(|r| device.is_some() && self.ranks[*r].1 == device);
        match (on.next(), on.next()) {
            (Some(one), None) => To::Rank(one),
            _ => To::Rest,
        }
    }
}
