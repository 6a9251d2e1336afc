//! The program's own tracks: the critical path, and of each rank its steps, its phases, the account
//! of the steps, and why its devices are idle. They are the rows of views, and computed nowhere
//! else.

use std::collections::HashMap;

use serde_json::Value as Json;

use crate::engine::Engine;
use crate::engine::metric::{self, Params};
use crate::error::Result;
use crate::export::recorded::long;
use crate::export::scope::{Scope, rows, within};
use crate::export::select::{Selection, Side};
use crate::export::slices::Slices;
use crate::export::stage::{Handle, Stage};
use crate::export::timeline::{Arg, Event, Kind, Value};
use crate::registry::SqlFile;
use crate::store::manifest::Manifest;

/// Most steps whose critical paths are looked for.
const MOST_PATHS: usize = 10;

/// The views that these tracks are made of.
pub const VIEWS: [&str; 3] = ["step_account", "_account_spans", "_idle_parts"];

/// Processes of ranks.
pub type Processes = HashMap<Option<i64>, u64>;

/// Names of a rank's tracks, in their order; those of devices have the device behind.
const TRACKS: [&str; 4] = ["steps", "phases", "account", "idle"];

/// Writes what each rank did, and why.
pub struct Own<'a, 'e> {
    /// The connection.
    pub engine: &'a Engine<'e>,
    /// The clocks.
    pub scope: &'a Scope,
    /// What is asked for.
    pub selection: &'a Selection,
}

impl Own<'_, '_> {
    /// The tracks of the ranks.
    ///
    /// # Errors
    /// `sql`, `io`.
    pub fn ranks(&self, stage: &mut Stage<'_>, processes: &Processes) -> Result<()> {
        let within = within("ts_ns", Some("dur_ns"), None);
        let mut queries = vec![
            ("steps", format!("'step ' || r.step AS name, r.step, r.marker FROM steps AS r {within}")),
            ("phases", format!("r.phase AS name, r.step FROM phases AS r {within}")),
        ];
        if self.selection.has(Side::Device) {
            let long = long(self.selection);
            // A step has its account however short it is.
            let or_step = long.replace("AND r.dur_ns", "AND (r.is_step OR r.dur_ns");
            let close = if long.is_empty() { "" } else { ")" };
            queries.push(("account", account(&format!("{within} {or_step}{close}"))));
            queries.push((
                "idle",
                format!(
                    "r.part AS name, r.device FROM (SELECT rank, device, part, start_ns AS ts_ns, \
                     end_ns - start_ns AS dur_ns FROM _idle_parts) AS r {within} {long}"
                ),
            ));
        }
        for (track, query) in queries {
            self.rows(stage, processes, track, &query)?;
        }
        Ok(())
    }

    /// Writes the rows of a query over all ranks, each on a track of its rank.
    fn rows(
        &self,
        stage: &mut Stage<'_>,
        processes: &Processes,
        track: &str,
        query: &str,
    ) -> Result<()> {
        let has_device = query.contains("r.device");
        let device = if has_device { "'device ' || r.device" } else { "NULL::VARCHAR" };
        let sql = format!(
            "SELECT r.rank, concat_ws(' · ', '{track}', {device}) AS track, \
                    r.ts_ns - o.shift_ns AS ts_ns, r.dur_ns, {query} \
             ORDER BY r.rank NULLS LAST, ts_ns, r.dur_ns DESC NULLS LAST, name"
        );
        let mut orders: HashMap<Option<i64>, i64> = HashMap::new();
        let place = TRACKS.iter().position(|name| *name == track).unwrap_or_default() as i64;
        let mut slices = Slices::new(|stage: &mut Stage<'_>, rank: Option<i64>, name: &str| {
            // The times of a rank begin anew.
            stage.rewind()?;
            let next = orders.entry(rank).or_default();
            *next += 1;
            let order = place * 100 + *next;
            let process = processes.get(&rank).copied();
            stage.track(process, Kind::Slices, name.to_owned(), order, None)
        });
        let mut statement = self.engine.connection.prepare(&sql)?;
        for batch in statement.stream_arrow([])? {
            slices.write(stage, &batch?, |ns| self.scope.time(ns))?;
        }
        stage.rewind()
    }

    /// The critical path: of the steps asked for, else of the one that the metric looks at. Gives
    /// the reason where there is none.
    ///
    /// # Errors
    /// `sql`, `io`.
    pub fn path(
        &self,
        stage: &mut Stage<'_>,
        file: &SqlFile,
        manifest: &Manifest,
    ) -> Result<Option<String>> {
        let mut track = None;
        let mut reason = None;
        for step in self.steps()? {
            let mut params = Params::new();
            params.insert("align".to_owned(), self.scope.align.to_string());
            if let Some(step) = step {
                params.insert("step".to_owned(), step.to_string());
            }
            let result = metric::run(self.engine, manifest, file, &params)?;
            if let Some(why) = result.reason {
                reason.get_or_insert(why);
                continue;
            }
            let of = |key: &str| result.details.get(key);
            let end_rank = of("end_rank").and_then(Json::as_i64).unwrap_or_default();
            let segments = of("segments").and_then(Json::as_array).map_or(&[][..], |s| s);
            let handle = match track {
                Some(handle) => handle,
                None => {
                    let name = "critical path".to_owned();
                    *track.insert(stage.track(None, Kind::Slices, name, 0, None)?)
                }
            };
            let step = of("step").and_then(Json::as_i64);
            for segment in segments {
                self.segment(stage, handle, segment, end_rank, step)?;
            }
            stage.rewind()?;
        }
        Ok(reason.filter(|_| track.is_none()))
    }

    /// The steps whose paths are asked for; None for the one that the metric chooses.
    fn steps(&self) -> Result<Vec<Option<i64>>> {
        let Some(steps) = &self.selection.steps else { return Ok(vec![None]) };
        self.engine.make("steps")?;
        let sql = format!(
            "SELECT DISTINCT step FROM steps WHERE step BETWEEN {} AND {} ORDER BY step \
             LIMIT {MOST_PATHS}",
            steps.start(),
            steps.end()
        );
        rows(self.engine, &sql, |row| row.get(0))
    }

    fn segment(
        &self,
        stage: &mut Stage<'_>,
        handle: Handle,
        segment: &Json,
        end_rank: i64,
        step: Option<i64>,
    ) -> Result<()> {
        let number = |key: &str| segment.get(key).and_then(Json::as_i64);
        let text = |key: &str| segment.get(key).and_then(Json::as_str);
        let kind = text("kind").unwrap_or_default();
        let mut args: Vec<Arg<'_>> = vec![("kind".into(), Value::Text(kind.into()))];
        for key in ["rank", "device", "lane", "event_id"] {
            args.extend(number(key).map(|n| (key.into(), Value::Int(n))));
        }
        args.extend(step.map(|step| ("step".into(), Value::Int(step))));
        // All its times are by the clock of the rank on which it ends.
        let start = number("start_ns").unwrap_or_default();
        let ts = self.scope.time(start.saturating_sub(self.scope.shift_ns(end_rank)));
        let dur = number("dur_ns").and_then(|dur| u64::try_from(dur).ok());
        let name = text("name").unwrap_or(kind);
        stage.event(handle, &Event { ts, dur, name, args: &args, ..Event::default() })
    }
}

/// The account of the steps: each step with the time of its parts, and inside of it what the device
/// did at each moment.
fn account(within: &str) -> String {
    format!(
        "r.name, r.device, r.step, r.time_ns, r.hidden_ns FROM ( \
             SELECT p.rank, p.device, w.start_ns AS ts_ns, w.end_ns - w.start_ns AS dur_ns, \
                    coalesce('step ' || w.step, 'all') AS name, w.step, TRUE AS is_step, \
                    p.time_ns, p.hidden_ns \
             FROM (SELECT rank, device, place, \
                          map(list(part ORDER BY part), list(time_ns ORDER BY part)) AS time_ns, \
                          map(list(part ORDER BY part), list(hidden_ns ORDER BY part)) AS hidden_ns \
                   FROM (SELECT rank, device, place, part, CAST(sum(time_ns) AS BIGINT) AS time_ns, \
                                CAST(sum(hidden_ns) AS BIGINT) AS hidden_ns \
                         FROM step_account GROUP BY rank, device, place, part) \
                   GROUP BY rank, device, place) AS p \
             INNER JOIN _account_windows AS w ON w.rank = p.rank AND w.place = p.place \
             UNION ALL \
             SELECT rank, device, start_ns, end_ns - start_ns, part, step, FALSE, NULL, NULL \
             FROM _account_spans) AS r {within}"
    )
}
