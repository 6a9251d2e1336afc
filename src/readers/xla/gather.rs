//! The shares of a file: one for each device that computes, and one for what is of the host.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::error::Result;
use crate::readers::contract::Reading;
use crate::readers::log::{Log, Severity};
use crate::readers::share::{RankRow, Share, capability};
use crate::readers::xla::rows::{Context, Outcome, To};
use crate::spool::events::Metadata;
use crate::spool::launches::own_ids;
use crate::spool::rows::Rows;
use crate::spool::steps::StepPatterns;
use crate::spool::totals::Totals;
use crate::spool::{CROWD, MANY_RANKS, METADATA, Spool, batch, rows_of};

/// Devices of a file from which on each gets less memory.
const CROWDED: usize = 32;
/// Rows of `metadata` that are kept in memory.
const METADATA_ROWS: usize = 4096;

/// What the file says of a device.
#[derive(Debug, Clone, Default)]
pub struct Device {
    pub name: Option<String>,
    pub cores: Option<i64>,
    pub memory_bytes: Option<i64>,
    /// Major and minor number of its compute capability.
    pub capability: (Option<i64>, Option<i64>),
}

/// What the file says of itself.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    pub host: Option<String>,
    pub pid: Option<i64>,
    /// Nanoseconds that were added to relative times.
    pub base_ns: Option<i64>,
    pub devices: BTreeMap<i64, Device>,
    /// Uncompressed bytes of the file.
    pub bytes: u64,
}

/// One device, or the rows that are of no device.
struct Of {
    device: Option<i64>,
    is_rank: bool,
    spool: Spool,
    totals: Totals,
    metadata: Rows,
}

/// Collects the rows of a file, in its order.
pub struct Gather<'a> {
    reading: &'a Reading<'a>,
    context: Arc<Context>,
    shares: Vec<Of>,
    of_device: BTreeMap<i64, usize>,
    host: usize,
    pub log: Log,
    pub skipped: u64,
}

impl<'a> Gather<'a> {
    /// `folder` is that of the first share.
    pub fn new(
        reading: &'a Reading<'a>,
        context: Arc<Context>,
        folder: PathBuf,
        log: Log,
    ) -> Result<Self> {
        let devices: Vec<i64> = context.ranks.of_device.keys().copied().collect();
        let mut out = Self {
            reading,
            context,
            shares: Vec::new(),
            of_device: BTreeMap::new(),
            host: 0,
            log,
            skipped: 0,
        };
        let mut folder = Some(folder);
        for device in &devices {
            out.of_device.insert(*device, out.shares.len());
            out.share(Some(*device), true, folder.take())?;
        }
        // A process with one device is its rank; a trace has a rank, even if nothing in it
        // computes.
        if devices.len() != 1 {
            out.host = out.shares.len();
            out.share(None, devices.is_empty(), folder.take())?;
        }
        Ok(out)
    }

    fn share(&mut self, device: Option<i64>, is_rank: bool, folder: Option<PathBuf>) -> Result<()> {
        let folder = match folder {
            Some(folder) => folder,
            None => (self.reading.folder)(self.shares.len())?,
        };
        let crowded = self.context.ranks.of_device.len() > CROWDED;
        let budget = if crowded { CROWD } else { MANY_RANKS };
        let pool = self.reading.pool.clone();
        self.shares.push(Of {
            device,
            is_rank,
            spool: Spool::new(&folder, self.reading.source_id, pool, budget),
            totals: Totals { device, ..Totals::default() },
            metadata: rows_of(METADATA),
        });
        Ok(())
    }

    /// Takes rows; what made them can be used again.
    pub fn accept(&mut self, outcome: &mut Outcome) -> Result<()> {
        self.log.append(std::mem::take(&mut outcome.log));
        self.skipped += std::mem::take(&mut outcome.skipped);
        for (to, bundle) in std::mem::take(&mut outcome.bundles) {
            let batch::Bundle { rows, device, totals, launches, steps } = bundle;
            let own = match to {
                To::Device(device) => self.of_device.get(&device).copied(),
                To::Host => None,
            };
            let ranks = match own {
                Some(own) => own..own + 1,
                // What the process launches and marks counts for each of its devices.
                None => 0..self.shares.len(),
            };
            for of in self.shares[ranks].iter_mut().filter(|of| of.is_rank) {
                of.spool.note(launches.clone(), &steps, 0)?;
            }
            let of = &mut self.shares[own.unwrap_or(self.host)];
            of.totals.add(totals);
            for (table, mut rows) in rows {
                of.spool.write_table(table, rows.take()?, 0)?;
            }
            for (class, mut rows) in device {
                of.spool.write_class(class, &rows.take()?, 0)?;
            }
        }
        Ok(())
    }

    /// Adds a row of `metadata`, of a device or of the file.
    pub fn metadata(&mut self, device: Option<i64>, key: &str, value: &str) -> Result<()> {
        let own = device.and_then(|d| self.of_device.get(&d).copied());
        let of = &mut self.shares[own.unwrap_or(self.host)];
        Metadata { key, value }.push(&mut of.metadata);
        if of.metadata.len() == METADATA_ROWS {
            of.spool.write_table(METADATA, of.metadata.take()?, 0)?;
        }
        Ok(())
    }

    /// Joins what belongs together, and closes the files.
    pub fn finish(mut self, facts: &Facts) -> Result<Vec<Share>> {
        let events: u64 = self.shares.iter().map(|of| of.totals.events).sum();
        if events == 0 {
            self.log.add(Severity::Info, "no-events", None, || {
                "the trace has no events: only its header was read".to_owned()
            });
        }
        let (context, steps, facts) = (self.context.clone(), self.reading.steps(), facts.clone());
        let bytes = facts.bytes;
        let finished =
            self.reading.pool.map(self.shares.into_iter().enumerate(), move |(place, of)| {
                finish_share(of, place, &context, &steps, &facts)
            });
        let mut out = finished.into_iter().collect::<Result<Vec<Share>>>()?;
        out[0].totals.skipped += self.skipped;
        out[0].log = self.log;
        out[0].bytes = bytes;
        Ok(out)
    }
}

/// Joins what belongs together in a share, and closes its files.
fn finish_share(
    of: Of,
    place: usize,
    context: &Context,
    steps: &StepPatterns,
    facts: &Facts,
) -> Result<Share> {
    let Of { device, is_rank, mut spool, mut totals, mut metadata } = of;
    spool.link(0, own_ids, |_| Ok(()))?;
    let marked = spool.mark_steps(steps)?;
    if let Some((marker, count)) = marked.filter(|_| is_rank) {
        let by = if steps.by_user { "--step-range" } else { "known pattern" };
        let value = serde_json::json!({ "marker": marker, "by": by, "steps": count });
        Metadata { key: "step_marker", value: &value.to_string() }.push(&mut metadata);
    }
    spool.write_table(METADATA, metadata.take()?, 0)?;
    totals.host_pid = totals.host_pid.or(facts.pid);
    let says = device.and_then(|d| facts.devices.get(&d)).cloned().unwrap_or_default();
    let ranks = &context.ranks;
    Ok(Share {
        row: RankRow {
            host: facts.host.clone(),
            device_name: says.name,
            sm_count: says.cores,
            memory_bytes: says.memory_bytes,
            compute_capability: capability(says.capability.0, says.capability.1),
            world_size: ranks.world,
            base_ns: facts.base_ns,
            ..RankRow::default()
        },
        trace_rank: device.and_then(|d| ranks.of_device.get(&d).copied().flatten()),
        is_rank,
        place,
        totals,
        spool: spool.close()?,
        ..Share::default()
    })
}
