//! The rows of a query as slices: columns `ts_ns`, `dur_ns`, `name` and `track`, and every other
//! one an argument. Rows with a `rank` stand below the process of that rank.

use std::collections::HashMap;

use arrow::array::RecordBatch;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::export::cells::Column;
use crate::export::stage::{Counts, Handle, Stage};
use crate::export::timeline::{Event, Kind, Sink, Value};
use crate::input::time::EPOCH_FROM_NS;
use crate::sql_text::sql_name;

/// Columns that are no arguments.
const OWN: [&str; 5] = ["rank", "track", "ts_ns", "dur_ns", "name"];

/// The tracks of rows, by rank and name.
pub struct Slices<F> {
    /// Makes the track of a name below a rank.
    pub make: F,
    /// Tracks that are made.
    pub tracks: HashMap<(Option<i64>, String), Handle>,
}

impl<F: FnMut(&mut Stage<'_>, Option<i64>, &str) -> Result<Handle>> Slices<F> {
    /// Tracks that `make` makes.
    pub fn new(make: F) -> Self {
        Self { make, tracks: HashMap::new() }
    }

    /// Writes the rows of a batch, which are in the order of time within each rank; `time` gives
    /// the time of the timeline.
    ///
    /// # Errors
    /// `io`.
    pub fn write(
        &mut self,
        stage: &mut Stage<'_>,
        batch: &RecordBatch,
        time: impl Fn(i64) -> u64,
    ) -> Result<()> {
        let [ranks, names_of_tracks, times, durs, names] =
            OWN.map(|name| Column::named(batch, name));
        let others: Vec<(&str, Column<'_>)> = batch
            .schema_ref()
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .zip(Column::all(batch))
            .filter(|(name, _)| !OWN.contains(name))
            .collect();
        for row in 0..batch.num_rows() {
            let Some(ts) = times.and_then(|c| c.int(row)) else { continue };
            let rank = ranks.and_then(|c| c.int(row));
            let track = names_of_tracks.and_then(|c| c.text(row)).unwrap_or("slices");
            let key = (rank, track.to_owned());
            let handle = match self.tracks.get(&key) {
                Some(handle) => *handle,
                None => {
                    let handle = (self.make)(stage, rank, track)?;
                    self.tracks.insert(key, handle);
                    handle
                }
            };
            let mut args = Vec::new();
            for (name, column) in &others {
                column.add(&mut args, name, row);
            }
            let event = Event {
                ts: time(ts),
                dur: durs.and_then(|c| c.int(row)).map(|dur| u64::try_from(dur).unwrap_or(0)),
                name: names.and_then(|c| c.text(row)).unwrap_or_default(),
                args: &args,
                ..Event::default()
            };
            stage.event(handle, &event)?;
        }
        Ok(())
    }
}

/// The rows of a statement as a table, which is read twice: for the base of the times, and in their
/// order.
const TABLE: &str = "\"@slices\"";

/// What the base of a query's times is, and whether there are any.
pub struct Query {
    base_ns: Option<i64>,
    others: Vec<String>,
    has: [bool; 5],
}

impl Query {
    /// Runs a statement of a user, which `engine` admits.
    ///
    /// # Errors
    /// `sql`; `usage` for columns that are missing, and for times that are none.
    pub fn run(engine: &Engine<'_>, sql: &str) -> Result<Self> {
        let connection = &engine.connection;
        connection.execute_batch(&format!("CREATE OR REPLACE TEMP TABLE {TABLE} AS ({sql}\n)"))?;
        let statement = {
            let mut statement = connection.prepare(&format!("FROM {TABLE} LIMIT 0"))?;
            statement.query_arrow([])?.get_schema()
        };
        let names: Vec<&str> = statement.fields().iter().map(|f| f.name().as_str()).collect();
        let has = OWN.map(|name| names.contains(&name));
        for needed in ["ts_ns", "name"] {
            if !names.contains(&needed) {
                return Err(Error::new("usage", format!("the rows have no column `{needed}`"))
                    .facts(format!("their columns: {}", names.join(", ")))
                    .hint(
                        "a timeline is made of ts_ns, dur_ns, name and track; rank puts a row \
                         below its rank, and other columns are arguments",
                    ));
            }
        }
        let dur = if has[3] { "CAST(dur_ns AS BIGINT) < 0" } else { "FALSE" };
        let (base_ns, wrong) = connection.query_row(
            &format!(
                "SELECT min(CAST(ts_ns AS BIGINT)), \
                        count(*) FILTER (WHERE ts_ns IS NULL OR {dur}) FROM {TABLE}"
            ),
            [],
            |row| Ok((row.get(0)?, row.get::<_, i64>(1)?)),
        )?;
        if wrong > 0 {
            return Err(Error::new("usage", "rows without a time, or with a negative duration")
                .facts(format!("rows: {wrong}"))
                .hint("leave them out: WHERE ts_ns IS NOT NULL AND dur_ns >= 0"));
        }
        let others = names.iter().filter(|n| !OWN.contains(n)).map(|n| sql_name(n)).collect();
        Ok(Self { base_ns, others, has })
    }

    /// Nanoseconds since 1970 at the base, where the rows have the time of day.
    pub fn epoch_ns(&self) -> Option<u64> {
        self.base_ns.filter(|base| *base >= EPOCH_FROM_NS).and_then(|base| base.try_into().ok())
    }

    /// Writes the rows.
    ///
    /// # Errors
    /// `sql`, `io`.
    pub fn write(&self, engine: &Engine<'_>, sink: &mut dyn Sink) -> Result<Counts> {
        let base = self.base_ns.unwrap_or(0);
        let mut stage = Stage::new(sink);
        stage.sink().attribute("base_ns", &Value::Int(base))?;
        let mut columns = vec!["CAST(ts_ns AS BIGINT) AS ts_ns".to_owned()];
        for (name, ty) in
            [("rank", "BIGINT"), ("dur_ns", "BIGINT"), ("track", "VARCHAR"), ("name", "VARCHAR")]
        {
            if OWN.iter().zip(self.has).any(|(own, has)| has && *own == name) {
                columns.push(format!("CAST({name} AS {ty}) AS {name}"));
            }
        }
        columns.extend(self.others.iter().cloned());
        let order = if self.has[3] { "ts_ns, dur_ns DESC NULLS LAST" } else { "ts_ns" };
        let sql = format!("SELECT {} FROM {TABLE} ORDER BY {order}", columns.join(", "));
        let mut statement = engine.connection.prepare(&sql)?;
        let mut processes: HashMap<i64, u64> = HashMap::new();
        let mut order = 0;
        let mut slices = Slices::new(|stage: &mut Stage<'_>, rank: Option<i64>, track: &str| {
            let process = match rank {
                None => None,
                Some(rank) => Some(match processes.get(&rank) {
                    Some(process) => *process,
                    None => {
                        let name = format!("rank {rank}");
                        let process = stage.process(pid(Some(rank)), name, Vec::new())?;
                        processes.insert(rank, process);
                        process
                    }
                }),
            };
            order += 1;
            stage.track(process, Kind::Slices, track.to_owned(), order, None)
        });
        for batch in statement.stream_arrow([])? {
            slices.write(&mut stage, &batch?, |ts| {
                u64::try_from(ts.saturating_sub(base)).unwrap_or(0)
            })?;
        }
        stage.rewind()?;
        let counts = stage.counts.clone();
        sink.finish()?;
        Ok(counts)
    }
}

/// The number of the process of a rank: viewers take 0 for the idle process.
pub fn pid(rank: Option<i64>) -> i64 {
    // A number of a process has 31 bits.
    rank.map_or(i64::from(i32::MAX), |rank| rank.clamp(0, i64::from(i32::MAX) - 2) + 1)
}
