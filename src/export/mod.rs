//! A trace as one timeline of all its ranks, for viewers.
//!
//! `scope` says which ranks there are and what their clocks are off, `select` what of them is asked
//! for. `recorded` reads what the profiler saw (with what stands `beside` it), `own` what the
//! program knows besides, `slices` the rows of a query; each gives its events in the order of time
//! to a `stage`, which puts them on tracks where they nest. A sink (`timeline`) writes them in a
//! form: `perfetto` (over `wire`) or `chrome`. `kineto` writes what was recorded alone, a file for
//! each rank.

mod beside;
mod cells;
mod chrome;
mod kineto;
mod own;
mod perfetto;
mod recorded;
mod scope;
pub mod select;
pub mod slices;
mod stage;
mod timeline;
mod wire;

use std::io::Write;

pub use self::chrome::Chrome;
pub use self::own::Paths;
use self::own::{Own, Processes};
pub use self::perfetto::Perfetto;
use self::recorded::Recorded;
use self::scope::{Rank, Scope, rows};
use self::select::{Selection, Side};
pub use self::stage::Counts;
use self::stage::Stage;
pub use self::timeline::Sink;
use self::timeline::Value;
use crate::engine::{Engine, is_small};
use crate::error::Result;
use crate::registry::{Registry, SqlFile};
use crate::store::manifest::Manifest;

/// A form of timelines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Perfetto's protocol buffers.
    Perfetto,
    /// JSON of Chrome's trace events.
    Chrome,
}

impl Form {
    /// The writer of the form, for a timeline at whose base it is `epoch_ns` since 1970.
    ///
    /// # Errors
    /// `io`.
    pub fn sink<'w>(
        self,
        to: impl Write + 'w,
        epoch_ns: Option<u64>,
    ) -> Result<Box<dyn Sink + 'w>> {
        Ok(match self {
            Self::Perfetto => Box::new(Perfetto::new(to, epoch_ns)?),
            Self::Chrome => Box::new(Chrome::new(to, epoch_ns)),
        })
    }
}

/// The views whose rows are read.
pub fn views(registry: &Registry) -> Vec<&SqlFile> {
    let names = own::VIEWS.into_iter().chain(["_waits", "_clock_shifts", "_clock_offsets"]);
    names.filter_map(|name| registry.view(name)).collect()
}

/// A trace, and what of it is written.
pub struct Export<'a, 'e> {
    engine: &'a Engine<'e>,
    manifest: &'a Manifest,
    selection: Selection,
    scope: Scope,
}

impl<'a, 'e> Export<'a, 'e> {
    /// A selection of the trace that `engine` shows, which is that of `manifest`. With `align` the
    /// offsets of the clocks are taken away.
    ///
    /// # Errors
    /// `sql`; `nothing-found` where nothing is selected.
    pub fn new(
        engine: &'a Engine<'e>,
        manifest: &'a Manifest,
        selection: Selection,
        align: bool,
    ) -> Result<Self> {
        let scope = Scope::new(engine, &selection, align)?;
        Ok(Self { engine, manifest, selection, scope })
    }

    /// Nanoseconds since 1970 at the base of the timeline, where the trace has the time of day.
    pub fn epoch_ns(&self) -> Option<u64> {
        self.scope.epoch_ns()
    }

    /// Writes the timeline, with critical paths. Of a trace that is not small each rank is computed
    /// by itself: `engine` must keep none of the [`views`] then, which would be of the first one.
    ///
    /// # Errors
    /// `sql`, `io`.
    pub fn write(&self, sink: &mut dyn Sink, paths: &Paths) -> Result<Counts> {
        let (engine, scope, selection) = (self.engine, &self.scope, &self.selection);
        let mut stage = Stage::new(sink);
        self.attributes(stage.sink())?;
        let processes = self.processes(&mut stage)?;
        beside::make_arrows(engine, selection, scope.align)?;
        paths.write(&mut stage, scope)?;
        for name in ["steps", "phases"] {
            engine.make(name)?;
        }
        let own = Own { engine, scope, selection, processes: &processes };
        own.steps(&mut stage)?;
        let is_small = is_small(self.manifest.row_count());
        if is_small {
            own.account(&mut stage, None)?;
        } else {
            recorded::split(engine)?;
        }
        for rank in &scope.ranks {
            if !is_small {
                recorded::show(engine, rank.rank)?;
                own.account(&mut stage, Some(rank.rank))?;
            }
            let process = processes[&rank.rank];
            let of = Recorded { engine, scope, selection, rank, process };
            let beside = of.beside()?;
            if selection.has(Side::Device) {
                of.annotations(&mut stage, &beside)?;
                of.device(&mut stage, &beside)?;
            }
            if selection.has(Side::Host) {
                of.host(&mut stage, &beside)?;
            }
            of.counters(&mut stage)?;
        }
        let counts = stage.counts.clone();
        sink.finish()?;
        Ok(counts)
    }

    /// The ranks that are written; None for what is of none.
    pub fn ranks(&self) -> impl Iterator<Item = Option<i64>> {
        self.scope.ranks.iter().map(|rank| rank.rank)
    }

    /// Writes what was recorded on a rank as a file of Kineto; gives the number of its events.
    ///
    /// # Errors
    /// `sql`, `io`.
    pub fn kineto(&self, rank: Option<i64>, to: &mut dyn Write) -> Result<u64> {
        let of = self.scope.ranks.iter().find(|of| of.rank == rank);
        let Some(rank) = of else { return Ok(0) };
        let mut file = kineto::File::new(self.engine, &self.scope, &self.selection, rank, to);
        file.write()?;
        Ok(file.events)
    }

    /// What holds for the timeline as a whole.
    fn attributes(&self, sink: &mut dyn Sink) -> Result<()> {
        let scope = &self.scope;
        sink.attribute("trace", &Value::Text(self.manifest.trace.as_str().into()))?;
        sink.attribute("ccl_sql", &Value::Text(env!("CARGO_PKG_VERSION").into()))?;
        sink.attribute("fingerprint", &Value::Text(self.manifest.fingerprint().into()))?;
        sink.attribute("base_ns", &Value::Int(scope.base_ns))?;
        sink.attribute("align", &Value::Flag(scope.align))?;
        self.engine.make("_clock_offsets")?;
        let offsets: Vec<(i64, i64, Option<f64>)> = rows(
            self.engine,
            "SELECT rank, offset_ns, uncertainty_ns FROM _clock_offsets \
             WHERE rank IS NOT NULL ORDER BY rank",
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )?;
        for (rank, offset_ns, uncertainty_ns) in offsets {
            sink.attribute(&format!("clock_offset_ns.{rank}"), &Value::Int(offset_ns))?;
            if let Some(uncertainty_ns) = uncertainty_ns {
                let key = format!("clock_uncertainty_ns.{rank}");
                sink.attribute(&key, &Value::Real(uncertainty_ns))?;
            }
        }
        Ok(())
    }

    /// The processes of the ranks, in their order.
    fn processes(&self, stage: &mut Stage<'_>) -> Result<Processes> {
        self.engine.make("ranks")?;
        let known: Vec<(Option<i64>, Option<String>, Option<String>)> = rows(
            self.engine,
            "SELECT rank, min(host), min(device_name) FROM ranks GROUP BY rank",
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )?;
        let mut out = Processes::new();
        for Rank { rank, shift_ns, .. } in &self.scope.ranks {
            let name = rank.map_or("all ranks".to_owned(), |rank| format!("rank {rank}"));
            let of = known.iter().find(|(of, _, _)| of == rank);
            let mut labels: Vec<String> = of
                .into_iter()
                .flat_map(|(_, host, device)| [host, device])
                .flatten()
                .cloned()
                .collect();
            if *shift_ns != 0 {
                labels.push(format!("clock {shift_ns} ns ahead, taken away"));
            }
            out.insert(*rank, stage.process(slices::pid(*rank), name, labels)?);
        }
        Ok(out)
    }
}
