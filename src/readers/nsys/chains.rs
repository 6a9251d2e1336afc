//! The call chains of samples (`SAMPLING_CALLCHAINS`): which frames each shows. A distinct chain is
//! kept once, however many samples show it, as a row of `metadata`.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::error::Result;
use crate::hash::sha256_text;
use crate::readers::log::{Log, Severity};
use crate::readers::nsys::database::{Database, int};
use crate::readers::nsys::names::Strings;
use crate::readers::nsys::target::short;

/// The table.
pub const TABLE: &str = "SAMPLING_CALLCHAINS";

/// Bytes of the name of a frame.
const MAX_BYTES: usize = 512;
/// Rows that are read, at most.
const MOST_ROWS: usize = 1 << 26;
/// Samples whose chains are known, at most.
const MOST_SAMPLES: usize = 1 << 22;
/// Frames of all distinct chains, at most.
const MOST_FRAMES: usize = 1 << 20;
/// Frames of a chain, at most.
const MOST_DEPTH: usize = 512;

/// A frame: its symbol, or where that is not known the module that it lies in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Frame {
    Symbol(i64),
    Module(Option<i64>),
}

/// A distinct chain.
#[derive(Debug)]
pub struct Chain {
    /// What stands for it: a hash of the frames, the same in every file.
    pub key: String,
    /// JSON list of the names of the frames, the outermost first.
    pub frames: String,
}

/// The chains of a file.
#[derive(Debug, Default)]
pub struct Chains {
    of: HashMap<i64, usize>,
    /// Distinct chains.
    pub all: Vec<Chain>,
    /// Samples whose chains have more frames than are read.
    cut: u64,
    /// Samples whose chains are left out, for there are too many.
    lost: u64,
}

/// Chains while they are read.
#[derive(Default)]
struct Gathered {
    sample: Option<i64>,
    /// Frames of the sample with their depth, 0 the innermost.
    frames: Vec<(i64, Frame)>,
    kept: usize,
    places: HashMap<Vec<Frame>, usize>,
    chains: Vec<Vec<Frame>>,
    of: HashMap<i64, usize>,
    is_cut: bool,
    cut: u64,
    lost: u64,
}

impl Gathered {
    /// Keeps the chain of the sample, unless there are too many.
    fn finish(&mut self) {
        let mut frames = std::mem::take(&mut self.frames);
        let Some(sample) = self.sample.take().filter(|_| !frames.is_empty()) else { return };
        self.cut += u64::from(std::mem::take(&mut self.is_cut));
        frames.sort_by_key(|(depth, _)| std::cmp::Reverse(*depth));
        let chain: Vec<Frame> = frames.into_iter().map(|(_, frame)| frame).collect();
        if self.of.contains_key(&sample) {
            return;
        }
        if self.of.len() >= MOST_SAMPLES {
            self.lost += 1;
            return;
        }
        let place = match self.places.entry(chain) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(free) if self.kept + free.key().len() <= MOST_FRAMES => {
                self.kept += free.key().len();
                self.chains.push(free.key().clone());
                *free.insert(self.chains.len() - 1)
            }
            Entry::Vacant(_) => {
                self.lost += 1;
                return;
            }
        };
        self.of.insert(sample, place);
    }
}

impl Chains {
    /// Reads the chains of a file.
    ///
    /// # Errors
    /// `database-corrupt`.
    pub fn read(database: &Database, strings: &Strings) -> Result<Self> {
        let mut gathered = Gathered::default();
        let columns = ["id", "symbol", "module", "unresolved", "stackDepth"];
        database.each(TABLE, &columns, "", MOST_ROWS, |row| {
            let Some(sample) = int(row, 0) else { return Ok(()) };
            if gathered.sample != Some(sample) {
                gathered.finish();
                gathered.sample = Some(sample);
            }
            gathered.is_cut = gathered.frames.len() == MOST_DEPTH;
            if !gathered.is_cut {
                // What is not resolved has its address for a name.
                let known = int(row, 1).filter(|_| int(row, 3).unwrap_or(0) == 0);
                let frame = known.map_or(Frame::Module(int(row, 2)), Frame::Symbol);
                gathered.frames.push((int(row, 4).unwrap_or(0), frame));
            }
            Ok(())
        })?;
        gathered.finish();
        let Gathered { chains, of, cut, lost, .. } = gathered;
        let mut names: HashMap<Frame, String> = HashMap::new();
        for frame in chains.iter().flatten() {
            if !names.contains_key(frame) {
                names.insert(*frame, name(*frame, database, strings)?);
            }
        }
        let chain = |frames: &Vec<Frame>| {
            let names: Vec<&str> = frames.iter().map(|frame| &*names[frame]).collect();
            let frames = serde_json::json!(names).to_string();
            Chain { key: sha256_text(&frames)[..16].to_owned(), frames }
        };
        Ok(Self { of, all: chains.iter().map(chain).collect(), cut, lost })
    }

    /// Notes what was left out.
    pub fn say(&self, log: &mut Log) {
        log.add_many(Severity::Loss, "chain-cut", self.cut, None, || {
            format!("call chains with more than {MOST_DEPTH} frames; the first of them are kept")
        });
        log.add_many(Severity::Loss, "chain-lost", self.lost, None, || {
            "samples whose call chains are left out: the file holds too many".to_owned()
        });
    }

    /// The chain that a sample shows.
    pub fn of(&self, sample: i64) -> Option<&Chain> {
        self.all.get(*self.of.get(&sample)?)
    }
}

/// The name of a frame; of a module without the folder that it lies in.
fn name(frame: Frame, database: &Database, strings: &Strings) -> Result<String> {
    let text = |id: Option<i64>| -> Result<Option<String>> {
        let Some(id) = id else { return Ok(None) };
        Ok(database.with(|c| strings.get(id, database, c))?.text.clone())
    };
    Ok(match frame {
        Frame::Symbol(id) => {
            text(Some(id))?.map_or_else(|| "?".to_owned(), |name| short(&name, MAX_BYTES))
        }
        Frame::Module(id) => {
            let module = text(id)?;
            let module = module.as_deref().map(|m| m.rsplit('/').next().unwrap_or(m));
            format!("[{}]", short(module.unwrap_or("unknown"), MAX_BYTES))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frames_that_are_held() {
        let mut gathered = Gathered::default();
        let mut take = |sample: i64, frames: usize| {
            gathered.sample = Some(sample);
            // The innermost frame tells the chains apart.
            let frame = |depth: i64| (depth, Frame::Symbol(if depth == 0 { sample } else { 7 }));
            gathered.frames = (0..frames as i64).map(frame).collect();
            gathered.finish();
            gathered.of.contains_key(&sample)
        };
        assert!(take(100, MOST_FRAMES - 2));
        // Two more are as many as are held: three are not, and two are.
        assert_eq!([take(101, 3), take(102, 2), take(103, 1)], [false, true, false]);
        // Those that are known take no room.
        assert_eq!((gathered.chains.len(), gathered.cut, gathered.lost), (2, 0, 2));
        assert_eq!(gathered.chains[1], [Frame::Symbol(7), Frame::Symbol(102)]);
    }

    #[test]
    fn the_most_samples_that_are_held() {
        let of = (1..MOST_SAMPLES as i64).map(|sample| (sample, 0)).collect();
        let mut gathered = Gathered { of, ..Gathered::default() };
        for sample in [-1, -2, 1] {
            (gathered.sample, gathered.frames) = (Some(sample), vec![(0, Frame::Symbol(7))]);
            gathered.finish();
        }
        // One more is as many as are held; one that is known is not lost.
        assert_eq!([-1, -2].map(|sample| gathered.of.contains_key(&sample)), [true, false]);
        assert_eq!(gathered.lost, 1);
    }
}
