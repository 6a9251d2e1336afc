//! What stands beside the events of a rank: what they launched, the calls that they are of, and the
//! arrows between them. It is looked up by the number of the event, as a join of all columns of all
//! events would cost more than all else.

use std::collections::HashMap;

use arrow::array::RecordBatch;

use crate::engine::Engine;
use crate::error::Result;
use crate::export::cells::Column;
use crate::export::scope::{rows, within};
use crate::export::select::Selection;
use crate::export::timeline::{Arg, COLLECTIVE};

/// The arrows between the events of one call: from the last rank that entered it to each other one
/// that was still in it then.
const ARROWS: &str = "\"@arrows\"";

/// Places by numbers of events. They come from files of strangers, so that their hash is a random
/// one.
type ByEvent<T> = HashMap<i64, T, ahash::RandomState>;

/// Makes the arrows of the calls. Both ends are of ranks, and in the time, that are asked for.
///
/// # Errors
/// `sql`.
pub fn make_arrows(engine: &Engine<'_>, selection: &Selection, align: bool) -> Result<()> {
    for name in ["_waits", "collectives", "collective_calls", "launches"] {
        engine.make(name)?;
    }
    // Computed once, of all ranks.
    engine.connection.execute_batch("CREATE OR REPLACE TEMP TABLE \"@waits\" AS FROM _waits")?;
    let long = selection.long();
    Ok(engine.connection.execute_batch(&format!(
        "CREATE OR REPLACE TEMP TABLE {ARROWS} AS
         WITH shares AS (
             SELECT r.source, r.collective_id, r.rank, r.event_id, r.start_ns, r.dur_ns, r.is_last
             FROM \"@waits\" AS r {} {long} AND r.aligned = {align})
         SELECT l.rank AS last_rank, l.event_id AS last_event_id, s.rank, s.event_id,
                l.start_ns AS met_ns
         FROM shares AS s
         INNER JOIN shares AS l
             ON l.source = s.source AND l.collective_id = s.collective_id AND l.is_last
         WHERE NOT s.is_last AND s.start_ns + s.dur_ns > l.start_ns",
        within()
    ))?)
}

/// What stands beside the events of a rank.
#[derive(Default)]
pub struct Beside {
    /// Device events, by the call that launched them: their places in `launched`.
    launches: ByEvent<(u32, u32)>,
    launched: Vec<i64>,
    /// Device events whose launch is known.
    has_launch: ByEvent<()>,
    /// Arrows that leave, by the event of the last rank.
    leaving: ByEvent<Vec<i64>>,
    /// When the last rank came to the call of an event that waited.
    meeting: ByEvent<i64>,
    /// Calls, and the place of each by its event.
    calls: Vec<RecordBatch>,
    places: ByEvent<(u32, u32)>,
}

impl Beside {
    /// What stands beside the events of a rank, which `of` is the condition of. With `launches` the
    /// arrows of launches are drawn: those of the rank, or of all.
    ///
    /// # Errors
    /// `sql`.
    pub fn new(engine: &Engine<'_>, of: &str, launches: Option<&str>, align: bool) -> Result<Self> {
        let mut out = Self::default();
        if let Some(launches) = launches {
            let sql = format!(
                "SELECT runtime_event_id, event_id FROM launches \
                 WHERE {launches} AND runtime_event_id IS NOT NULL"
            );
            let mut pairs: Vec<(i64, i64)> =
                rows(engine, &sql, |row| Ok((row.get(0)?, row.get(1)?)))?;
            pairs.sort_unstable();
            for (call, event) in pairs {
                // A rank has fewer launches than this counts.
                let at = u32::try_from(out.launched.len()).unwrap_or(u32::MAX);
                out.launched.push(event);
                out.has_launch.insert(event, ());
                out.launches.entry(call).or_insert((at, at)).1 = at + 1;
            }
        }
        let sql = format!("SELECT last_event_id, event_id FROM {ARROWS} WHERE last_{of}");
        let mut arrows: Vec<(i64, i64)> = rows(engine, &sql, |row| Ok((row.get(0)?, row.get(1)?)))?;
        arrows.sort_unstable();
        for (last, event) in arrows {
            out.leaving.entry(last).or_default().push(event);
        }
        let sql = format!("SELECT event_id, met_ns FROM {ARROWS} WHERE {of}");
        let met = rows(engine, &sql, |row| Ok((row.get::<_, i64>(0)?, row.get(1)?)))?;
        out.meeting = met.into_iter().collect();
        out.calls(engine, of, align)?;
        Ok(out)
    }

    fn calls(&mut self, engine: &Engine<'_>, of: &str, align: bool) -> Result<()> {
        let sql = format!(
            "SELECT s.event_id, s.collective, s.message_bytes, s.group_size, s.dtype, s.pg_id, \
                    s.collective_id, s.seq, w.wait_ns, m.transfer_ns, w.last_rank, \
                    m.bus_bw_gb_per_s \
             FROM (FROM collectives WHERE {of}) AS s \
             LEFT JOIN (SELECT event_id, wait_ns, last_rank FROM \"@waits\" \
                        WHERE {of} AND aligned = {align}) AS w ON w.event_id = s.event_id \
             LEFT JOIN collective_calls AS m \
                 ON m.source = s.source AND m.collective_id = s.collective_id"
        );
        let mut statement = engine.connection.prepare(&sql)?;
        for batch in statement.stream_arrow([])? {
            let batch = batch?;
            let at = u32::try_from(self.calls.len()).unwrap_or(u32::MAX);
            let ids = Column::new(&**batch.column(0));
            for row in 0..batch.num_rows() {
                let place = (at, u32::try_from(row).unwrap_or(u32::MAX));
                self.places.extend(ids.int(row).map(|id| (id, place)));
            }
            self.calls.push(batch);
        }
        Ok(())
    }

    /// The arrows that leave an event.
    pub fn leaving(&self, event_id: i64, out: &mut Vec<u64>) {
        out.clear();
        if let Some(ids) = self.leaving.get(&event_id) {
            out.extend(ids.iter().map(|id| id.cast_unsigned() | COLLECTIVE));
        }
        if let Some((from, to)) = self.launches.get(&event_id) {
            let ids = &self.launched[*from as usize..*to as usize];
            out.extend(ids.iter().map(|id| id.cast_unsigned()));
        }
    }

    /// The arrow from the launch of a device event.
    pub fn entering(&self, event_id: i64) -> Option<u64> {
        self.has_launch.contains_key(&event_id).then(|| event_id.cast_unsigned())
    }

    /// The arrow that meets an event which waits, and when.
    pub fn meeting(&self, event_id: i64) -> Option<(u64, i64)> {
        self.meeting.get(&event_id).map(|met| (event_id.cast_unsigned() | COLLECTIVE, *met))
    }

    /// Adds what is known of the call of an event.
    pub fn add<'b>(&'b self, event_id: i64, args: &mut Vec<Arg<'b>>) {
        let Some((batch, row)) = self.places.get(&event_id) else { return };
        let batch = &self.calls[*batch as usize];
        for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()).skip(1) {
            Column::new(&**column).add(args, field.name(), *row as usize);
        }
    }
}
