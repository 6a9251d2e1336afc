//! What all threads know of a file while they read it.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::Result;
use crate::readers::nsys::chains::Chains;
use crate::readers::nsys::database::{Database, int, text};
use crate::readers::nsys::layout::Layout;
use crate::readers::nsys::names::Strings;
use crate::readers::nsys::payload::Schemas;
use crate::readers::nsys::tables::{Kind, Plan};
use crate::readers::nsys::target::short;
use crate::spool::steps::StepPatterns;

/// What all threads know of a file.
pub struct Context {
    /// The file.
    pub database: Database,
    /// The strings of the file.
    pub strings: Strings,
    /// The payload schemas of the file.
    pub schemas: Schemas,
    /// Names of NVTX domains, by process and number.
    pub domains: HashMap<(i64, i64), String>,
    /// Names of NVTX categories, by process, domain and number.
    pub categories: HashMap<(i64, i64, i64), String>,
    /// Names and units of GPU metrics, by type and number.
    pub metrics: HashMap<(i64, i64), (String, Option<String>)>,
    /// The call chains of samples.
    pub chains: Chains,
    /// Added to recorded times.
    pub base_ns: i64,
    /// End of the capture.
    pub capture_end_ns: Option<i64>,
    /// Whether device events say their process; else everything is of one.
    pub by_process: bool,
    /// The ranks of the file.
    pub layout: Layout,
}

/// Bytes of a name of a domain, category or metric: it stands in every event of it.
const MAX_BYTES: usize = 256;

fn name_of(row: &rusqlite::Row<'_>, at: usize) -> Option<String> {
    text(row, at).map(|name| short(&name, MAX_BYTES))
}

impl Context {
    /// The context of a database whose times lack `base_ns`; `plans` are the tables that will be
    /// read.
    ///
    /// # Errors
    /// `database-corrupt`.
    pub fn read(
        database: Database,
        plans: &[Plan],
        base_ns: i64,
        steps: Arc<StepPatterns>,
    ) -> Result<Self> {
        let of = |kernels: bool| {
            plans
                .iter()
                .filter(move |p| if kernels { p.kind == Kind::Kernel } else { p.kind.is_device() })
        };
        // The kernels say it, where there are any.
        let first = of(true).next().or_else(|| of(false).next());
        let by_process = first.is_none_or(|p| p.at.process.is_some());
        let mut out = Self {
            strings: Strings::new(&database, steps)?,
            schemas: Schemas::read(&database)?,
            domains: HashMap::new(),
            categories: HashMap::new(),
            metrics: HashMap::new(),
            chains: Chains::default(),
            base_ns,
            capture_end_ns: None,
            by_process,
            layout: Layout::default(),
            database,
        };
        out.nvtx_names()?;
        out.metric_names()?;
        out.chains = Chains::read(&out.database, &out.strings)?;
        let end = &mut out.capture_end_ns;
        out.database.each("ANALYSIS_DETAILS", &["duration"], "", 1, |row| {
            *end = int(row, 0).filter(|d| *d > 0).and_then(|d| d.checked_add(base_ns));
            Ok(())
        })?;
        Ok(out)
    }

    /// Names of NVTX domains and categories, which are rows like any other.
    fn nvtx_names(&mut self) -> Result<()> {
        const NAMES: i64 = 33;
        const DOMAINS: i64 = 75;
        let mut found = Vec::new();
        let columns = ["eventType", "globalTid", "domainId", "category", "text", "textId"];
        if !self.database.has("NVTX_EVENTS", "eventType") {
            return Ok(());
        }
        let filter = format!(r#"WHERE "eventType" IN ({NAMES}, {DOMAINS})"#);
        self.database.each("NVTX_EVENTS", &columns, &filter, 100_000, |row| {
            let (Some(kind), Some(thread)) = (int(row, 0), int(row, 1)) else { return Ok(()) };
            let domain = int(row, 2).unwrap_or(0);
            found.push((kind, thread, domain, int(row, 3), name_of(row, 4), int(row, 5)));
            Ok(())
        })?;
        for (kind, thread, domain, category, text, id) in found {
            let name = match (text, id) {
                (Some(text), _) => Some(text),
                (None, Some(id)) => {
                    let name = self.database.with(|c| self.strings.get(id, &self.database, c))?;
                    name.text.as_deref().map(|name| short(name, MAX_BYTES))
                }
                (None, None) => None,
            };
            let process = if self.by_process { thread & !0xFF_FFFF } else { 0 };
            match (kind, category, name) {
                (DOMAINS, _, Some(name)) => _ = self.domains.insert((process, domain), name),
                (NAMES, Some(category), Some(name)) => {
                    self.categories.insert((process, domain, category), name);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Names and units of GPU metrics: the unit stands in brackets (`SM Active [Throughput %]`).
    fn metric_names(&mut self) -> Result<()> {
        let columns = ["typeId", "metricId", "metricName"];
        let metrics = &mut self.metrics;
        self.database.each("TARGET_INFO_GPU_METRICS", &columns, "", 100_000, |row| {
            if let (Some(ty), Some(metric), Some(name)) =
                (int(row, 0), int(row, 1), name_of(row, 2))
            {
                let unit = name
                    .rsplit_once('[')
                    .and_then(|(_, unit)| unit.trim_end().strip_suffix(']'))
                    .map(str::to_owned);
                metrics.insert((ty, metric), (name, unit));
            }
            Ok(())
        })
    }
}
