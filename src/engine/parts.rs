//! Views that look at one rank at a time (`@partition rank`), computed for a few ranks at a time.
//!
//! Of a large trace what such a view holds in memory is of a part of the ranks, several parts are
//! computed side by side, and what several of these views read is made once for each part. A part
//! has a connection of its own, on which temporary views of the same names hide the tables: they
//! have the rows of its ranks. What crosses ranks is made before, as a table, and is cut likewise
//! where it has a column `rank`. The rows are kept beside the trace, for the next question.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::scope;

use duckdb::Connection;

use crate::engine::admit::explained;
use crate::engine::partials::Share;
use crate::engine::{Engine, table_away};
use crate::error::Result;
use crate::pool::lock;
use crate::registry::{Registry, SqlFile};
use crate::sql_text::sql_name;

/// Device events of the ranks that are looked at together, unless one rank alone has more.
pub(super) const EVENTS_AT_A_TIME: i64 = 100_000;
/// Parts that are computed side by side, at most: each has memory of its own.
const MOST_SIDE_BY_SIDE: usize = 8;
/// Tables of few rows that say something of all ranks: these are read whole.
const WHOLE: [&str; 3] = ["metadata", "ranks", "steps"];
/// The tables that say which ranks are looked at together.
const OF_PARTS: [&str; 2] = ["ranks", "device_events"];

/// The views of some files that are computed in parts.
#[derive(Debug, Clone, Default)]
pub(super) struct Partial {
    /// The views, by level: one reads only what crosses the ranks of those on lower levels.
    levels: BTreeMap<String, usize>,
    /// Views over all ranks that they read.
    whole: BTreeSet<String>,
}

impl Partial {
    /// Those that `files` need.
    pub(super) fn of(registry: &Registry, files: &[&SqlFile]) -> Self {
        let (mut seen, mut out) = (BTreeMap::new(), Self::default());
        for file in files {
            let names = file.header.inputs().chain([file.header.name.as_str()]);
            for name in names {
                out.add(registry, name, &mut seen);
            }
        }
        out
    }

    /// Adds what a view needs. Gives the level on which what it needs is there, and whether that is
    /// anything.
    fn add<'r>(
        &mut self,
        registry: &'r Registry,
        name: &'r str,
        seen: &mut BTreeMap<&'r str, (usize, bool)>,
    ) -> (usize, bool) {
        let Some(view) = registry.view(name) else { return (0, false) };
        if let Some(known) = seen.get(name) {
            return *known;
        }
        // A view that reads itself is refused elsewhere.
        seen.insert(name, (0, false));
        let inputs: Vec<(usize, bool)> =
            view.header.inputs().map(|input| self.add(registry, input, seen)).collect();
        let level = inputs.iter().map(|(level, _)| *level).max().unwrap_or(0);
        let needs = inputs.iter().any(|(_, needs)| *needs);
        let known = match (is_by_rank(view), view.header.materialize) {
            (true, is_computed) => {
                let crossing = view.header.inputs().filter_map(|input| registry.view(input));
                let crossing = crossing.filter(|input| !is_by_rank(input));
                self.whole.extend(crossing.map(|input| input.header.name.clone()));
                if is_computed {
                    self.levels.insert(name.to_owned(), level);
                }
                (level, needs || is_computed)
            }
            (false, _) => (level + usize::from(needs), needs),
        };
        seen.insert(name, known);
        known
    }

    /// The number of levels.
    pub(super) fn depth(&self) -> usize {
        self.levels.values().map(|level| level + 1).max().unwrap_or(0)
    }

    /// Whether a view is a table, where a trace is looked at in parts.
    pub(super) fn has(&self, name: &str) -> bool {
        self.levels.contains_key(name) || self.whole.contains(name)
    }

    /// The level of a view that is computed in parts.
    pub(super) fn level(&self, name: &str) -> Option<usize> {
        self.levels.get(name).copied()
    }
}

/// The tables that are read of a trace, where it lies elsewhere.
#[derive(Debug, Clone, Default)]
pub struct Tables<'r> {
    /// Those that are read whole.
    pub whole: BTreeSet<&'r str>,
    /// Those of which the rows of some ranks suffice.
    pub own: BTreeSet<&'r str>,
}

impl<'r> Tables<'r> {
    /// What files read. Where `is_kept` says so, the rows of views that are computed in parts are
    /// kept, and need no table.
    pub fn of(registry: &'r Registry, files: &[&'r SqlFile], is_kept: bool) -> Self {
        let partial = if is_kept { Partial::of(registry, files) } else { Partial::default() };
        let views = files.iter().map(|file| file.header.name.as_str());
        let views = views.filter(|name| registry.view(name).is_some());
        let inputs = files.iter().flat_map(|file| file.header.inputs());
        let is_there = |name: &str| partial.level(name).is_some();
        let mut whole = registry.tables_below(views.chain(inputs), is_there);
        if !is_kept {
            whole.extend(OF_PARTS);
        }
        Self { whole, own: BTreeSet::new() }
    }

    /// What the rows of a share of the ranks are computed of, for the views in parts on a level of
    /// `files`, where those on lower levels are kept.
    pub fn of_share(registry: &'r Registry, files: &[&'r SqlFile], level: usize) -> Self {
        let partial = Partial::of(registry, files);
        let is_there = |name: &str| partial.level(name).is_some_and(|of| of < level);
        let on_level = partial.levels.iter().filter(|(_, of)| **of == level);
        let names = on_level.filter_map(|(name, _)| registry.view(name));
        let mut left: Vec<&str> = names.map(|view| view.header.name.as_str()).collect();
        let (mut seen, mut crossing) = (BTreeSet::new(), Vec::new());
        let mut own = BTreeSet::from(OF_PARTS);
        while let Some(name) = left.pop() {
            if !seen.insert(name) || is_there(name) {
                continue;
            }
            match registry.view(name) {
                Some(view) if is_by_rank(view) => left.extend(view.header.inputs()),
                Some(_) => crossing.push(name),
                None => _ = own.insert(name),
            }
        }
        let mut whole = registry.tables_below(crossing, is_there);
        whole.extend(WHOLE);
        own.retain(|name| !whole.contains(name));
        Self { whole, own }
    }
}

/// Whether a view looks at one rank at a time. One of a user is not asked whether it does.
fn is_by_rank(view: &SqlFile) -> bool {
    view.header.by_rank && !view.of_user
}

/// Ranks that are looked at together: from the first to the last of them.
struct Part {
    place: usize,
    ranks: Option<(i64, i64)>,
    /// Whether no ranks are before these: what is of no rank counts here.
    is_first: bool,
}

impl Part {
    /// The condition on rows of its ranks; of some views also on those of no rank.
    fn condition(&self, with_null: bool) -> String {
        match (self.ranks, with_null) {
            (Some((first, last)), false) => format!("rank BETWEEN {first} AND {last}"),
            (Some((first, last)), true) => {
                format!("rank BETWEEN {first} AND {last} OR rank IS NULL")
            }
            (None, _) => "rank IS NULL".to_owned(),
        }
    }

    /// The condition on the rows that it adds to those of the others.
    fn own(&self) -> String {
        match (self.ranks, self.is_first) {
            (None, false) => "false".to_owned(),
            _ => self.condition(self.is_first),
        }
    }

    /// The name of its rows of a view.
    fn name_of(&self, view: &SqlFile) -> String {
        sql_name(&format!("{}@{}", view.header.name, self.place))
    }
}

/// What is made for each part.
struct Plan<'r> {
    registry: &'r Registry,
    /// Tables and views that are cut, and whether they have rows of no rank.
    cut: Vec<(String, bool)>,
    /// Views in the order in which they are made.
    views: Vec<Step<'r>>,
    /// The views whose rows are wanted.
    wanted: Vec<&'r SqlFile>,
}

/// A view that is made for each part.
struct Step<'r> {
    view: &'r SqlFile,
    /// Whether its rows are of use for more than one view, so that it is a table.
    is_table: bool,
    /// Whether its rows are wanted.
    is_wanted: bool,
    /// The tables that nothing reads after it.
    done: Vec<&'r str>,
}

impl<'r> Engine<'r> {
    /// Computes the views in parts that are not there, up to a level.
    ///
    /// # Errors
    /// `sql` when one cannot be computed.
    pub(super) fn make_in_parts(&self, up_to: usize) -> Result<()> {
        for level in 0..=up_to {
            let mut views = self.views_on(level);
            views.iter().try_for_each(|view| self.forget(&view.header.name))?;
            views.retain(|view| !self.take_kept(view));
            for view in self.compute(&views, Share::ALL, "")? {
                self.made.borrow_mut().insert(view.header.name.clone());
                self.keep(view, &sql_name(&view.header.name), Share::ALL);
            }
        }
        Ok(())
    }

    /// Computes the rows of the views in parts on a level for a share of the ranks, and keeps them,
    /// for a question that comes when all shares are kept.
    ///
    /// # Errors
    /// `sql` when one cannot be computed.
    pub fn keep_share(&self, level: usize, share: Share) -> Result<()> {
        if let Some(below) = level.checked_sub(1) {
            self.make_in_parts(below)?;
        }
        let mut views = self.views_on(level);
        views.retain(|view| !self.has_kept(view, share));
        for view in self.compute(&views, share, "@")? {
            let table = sql_name(&format!("{}@", view.header.name));
            self.keep(view, &table, share);
            self.connection.execute_batch(&format!("DROP TABLE {table}"))?;
        }
        Ok(())
    }

    /// The views on a level that were not made.
    fn views_on(&self, level: usize) -> Vec<&'r SqlFile> {
        let made = self.made.borrow();
        let names = self.partial.levels.iter().filter(|(_, of)| **of == level);
        let new = names.map(|(name, _)| name).filter(|name| !made.contains(*name));
        new.filter_map(|name| self.registry.view(name)).collect()
    }

    /// Computes a share of the rows of views: tables of their names and an ending.
    fn compute(
        &self,
        views: &[&'r SqlFile],
        share: Share,
        ending: &str,
    ) -> Result<Vec<&'r SqlFile>> {
        if views.is_empty() {
            return Ok(Vec::new());
        }
        if self.own.as_ref().is_some_and(|own| own.share != share) {
            return Err(table_away("other ranks"));
        }
        let plan = self.plan(views)?;
        let parts = self.parts(share)?;
        if let Some(own) = &self.own
            && !parts.iter().all(|part| part.ranks.is_some_and(|ranks| own.has(ranks)))
        {
            return Err(table_away("other ranks"));
        }
        let setting = "SELECT current_setting('threads')";
        let threads: usize = self.connection.query_row(setting, [], |row| row.get(0))?;
        let side_by_side = threads.min(parts.len()).clamp(1, MOST_SIDE_BY_SIDE);
        let (next, aside) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let work = |connection: &Connection| -> Result<()> {
            while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
                match plan.compute(connection, part) {
                    Err(e) if e.is_of_memory() && side_by_side > 1 => lock(&aside).push(part),
                    Err(e) => {
                        // The others compute no more.
                        next.store(parts.len(), Ordering::Relaxed);
                        return Err(e);
                    }
                    Ok(()) => {}
                }
            }
            Ok(())
        };
        let connections: Vec<Connection> =
            (0..side_by_side).map(|_| self.connected()).collect::<Result<_>>()?;
        scope(|scope| {
            let work = &work;
            let threads: Vec<_> = connections
                .into_iter()
                .map(|connection| scope.spawn(move || work(&connection)))
                .collect();
            let ended = threads.into_iter().map(|thread| match thread.join() {
                Ok(outcome) => outcome,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            ended.fold(Ok(()), Result::and)
        })
        .map_err(|e| self.with_limit(e))?;
        // What was too much beside another part has the memory for itself.
        for part in std::mem::take(&mut *lock(&aside)) {
            plan.compute(&self.connected()?, part).map_err(|e| self.with_limit(e))?;
        }
        for view in &plan.wanted {
            self.join(view, ending, &parts)?;
        }
        Ok(plan.wanted)
    }

    /// Another connection, on which a part is computed.
    fn connected(&self) -> Result<Connection> {
        let connection = self.connection.try_clone()?;
        self.interrupt.watch(&connection);
        Ok(connection)
    }

    /// What is made for each part, after what is read whole was made.
    fn plan(&self, wanted: &[&'r SqlFile]) -> Result<Plan<'r>> {
        let (registry, wanted) = (self.registry, wanted.to_vec());
        let mut plan = Plan { registry, cut: Vec::new(), views: Vec::new(), wanted };
        let mut seen = BTreeSet::new();
        for view in plan.wanted.clone() {
            self.add(&view.header.name, &mut seen, &mut plan)?;
        }
        let mut readers: BTreeMap<&str, usize> = BTreeMap::new();
        for step in &plan.views {
            step.view.header.inputs().for_each(|input| *readers.entry(input).or_default() += 1);
        }
        for step in &mut plan.views {
            let count = readers.get(step.view.header.name.as_str()).copied().unwrap_or(0);
            step.is_table = count + usize::from(step.is_wanted) > 1;
        }
        plan.free();
        Ok(plan)
    }

    fn add(&self, name: &'r str, seen: &mut BTreeSet<&'r str>, plan: &mut Plan<'r>) -> Result<()> {
        if !seen.insert(name) {
            return Ok(());
        }
        let is_made = self.made.borrow().contains(name);
        if let Some(view) = self.registry.view(name).filter(|view| is_by_rank(view) && !is_made) {
            view.header.inputs().try_for_each(|input| self.add(input, seen, plan))?;
            let is_wanted = plan.wanted.iter().any(|wanted| wanted.header.name == view.header.name);
            plan.views.push(Step { view, is_table: false, is_wanted, done: Vec::new() });
            return Ok(());
        }
        self.make(name)?;
        if self.is_cut(name)? {
            let name = sql_name(name);
            let sql = format!("SELECT EXISTS (SELECT 1 FROM {name} WHERE rank IS NULL)");
            plan.cut.push((name, self.connection.query_row(&sql, [], |row| row.get(0))?));
        }
        Ok(())
    }

    /// Whether a part has the rows of its ranks alone of a table or view.
    fn is_cut(&self, name: &str) -> Result<bool> {
        let sql = "SELECT EXISTS (
                       SELECT 1 FROM duckdb_columns() WHERE table_name = ? AND column_name = 'rank'
                   )";
        Ok(!WHOLE.contains(&name) && self.connection.query_row(sql, [name], |row| row.get(0))?)
    }

    /// A share of the ranks of the trace, in parts; one part at least.
    fn parts(&self, share: Share) -> Result<Vec<Part>> {
        self.make("ranks")?;
        self.make("device_events")?;
        let mut statement = self.connection.prepare(
            "SELECT r.rank, coalesce(d.events, 0)
             FROM (SELECT DISTINCT rank FROM ranks WHERE rank IS NOT NULL) AS r
             LEFT JOIN (SELECT rank, count(*) AS events FROM device_events GROUP BY rank) AS d
                 ON d.rank = r.rank
             ORDER BY r.rank",
        )?;
        let ranks = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let ranks: Vec<(i64, i64)> = ranks.collect::<duckdb::Result<_>>()?;
        let mine = share.of_many(ranks.len());
        let is_first = share.place == 0;
        let (mut out, mut events): (Vec<Part>, i64) = (Vec::new(), 0);
        for (rank, more) in &ranks[mine] {
            match out.last_mut() {
                Some(Part { ranks: Some((_, last)), .. })
                    if events.saturating_add(*more) <= self.events_at_a_time =>
                {
                    events += more;
                    *last = *rank;
                }
                _ => {
                    events = *more;
                    let (place, ranks) = (out.len(), Some((*rank, *rank)));
                    out.push(Part { place, ranks, is_first: is_first && place == 0 });
                }
            }
        }
        if out.is_empty() {
            out.push(Part { place: 0, ranks: None, is_first });
        }
        Ok(out)
    }

    /// Joins the rows of parts, in the order of the ranks: a table of the name of the view and an
    /// ending.
    fn join(&self, view: &SqlFile, ending: &str, parts: &[Part]) -> Result<()> {
        let name = sql_name(&format!("{}{ending}", view.header.name));
        for part in parts {
            let rows = part.name_of(view);
            let into = match part.place {
                0 => format!("CREATE OR REPLACE TABLE {name} AS"),
                _ => format!("INSERT INTO {name}"),
            };
            self.connection.execute_batch(&format!("{into} FROM {rows}; DROP TABLE {rows}"))?;
        }
        Ok(())
    }
}

impl<'r> Plan<'r> {
    /// Says after which view each table has been read for the last time.
    fn free(&mut self) {
        // What a view reads when it runs: tables, also through views.
        let mut reads: BTreeMap<&str, BTreeSet<&'r str>> = BTreeMap::new();
        let mut last: BTreeMap<&'r str, usize> = BTreeMap::new();
        for (place, step) in self.views.iter().enumerate() {
            let inputs = step.view.header.inputs().filter_map(|input| reads.get(input));
            let of_inputs: BTreeSet<&'r str> = inputs.flatten().copied().collect();
            let name = step.view.header.name.as_str();
            if step.is_table || step.is_wanted {
                last.extend(of_inputs.iter().map(|table| (*table, place)));
            }
            if step.is_table {
                last.insert(name, place);
            }
            reads.insert(name, if step.is_table { BTreeSet::from([name]) } else { of_inputs });
        }
        for (table, place) in last {
            self.views[place].done.push(table);
        }
    }

    /// Computes a part on a connection that has nothing temporary, and leaves none there.
    fn compute(&self, connection: &Connection, part: &Part) -> Result<()> {
        let outcome = self.rows_of(connection, part);
        let names = self.views.iter().map(|step| {
            (sql_name(&step.view.header.name), if step.is_table { "TABLE" } else { "VIEW" })
        });
        for (name, kind) in names.chain(self.cut.iter().map(|(name, _)| (name.clone(), "VIEW"))) {
            connection.execute_batch(&format!("DROP {kind} IF EXISTS temp.main.{name}"))?;
        }
        outcome
    }

    fn rows_of(&self, connection: &Connection, part: &Part) -> Result<()> {
        for (name, with_null) in &self.cut {
            let condition = part.condition(*with_null);
            connection.execute_batch(&format!(
                "CREATE TEMP VIEW {name} AS SELECT * FROM memory.main.{name} WHERE {condition}"
            ))?;
        }
        for Step { view, is_table, is_wanted, done } in &self.views {
            let kind = if *is_table { "TABLE" } else { "VIEW" };
            let name = sql_name(&view.header.name);
            let mut sql = format!("CREATE TEMP {kind} {name} AS {};", view.query());
            if *is_wanted {
                // Rows of no rank are the same in every part.
                sql += &format!(
                    "CREATE OR REPLACE TABLE memory.main.{} AS SELECT * FROM temp.main.{name} \
                     WHERE {};",
                    part.name_of(view),
                    part.own()
                );
            }
            for table in done {
                sql += &format!("DROP TABLE temp.main.{};", sql_name(table));
            }
            connection.execute_batch(&sql).map_err(|e| explained(self.registry, view, e))?;
        }
        Ok(())
    }
}
