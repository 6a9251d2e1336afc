//! One trace of a job: its tables, derived tables and manifest, and its place in the data directory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::derive::{Derive, ToDerive};
use crate::error::{Error, Result};
use crate::ingest::assemble;
use crate::ingest::card::beside::card_sources;
use crate::ingest::card::fields::Card;
use crate::ingest::find::labels::Labels;
use crate::ingest::find::walk::{Candidate, source_of};
use crate::ingest::kept::{self, Job};
use crate::ingest::known::Earlier;
use crate::ingest::options::{Outcome, Summary};
use crate::ingest::ranks::et;
use crate::ingest::ranks::facts::Member;
use crate::ingest::records::{ReadFile, Rows};
use crate::readers::log::{Log, Severity};
use crate::schema::SCHEMA_VERSION;
use crate::store::Store;
use crate::store::files::count_rows;
use crate::store::manifest::{self, Manifest, Stored};
use crate::store::names::Wish;

/// The names of a call.
pub(crate) struct Names {
    pub(crate) labels: Labels,
    /// Names that traces had before.
    pub(crate) aliases: BTreeSet<String>,
    /// Names that this call gave.
    pub(crate) given: BTreeSet<String>,
}

/// The trace that one was before, by the path of its name; of several the one with most of its files.
pub(crate) fn before_of<'j>(
    job: &'j Job,
    label: &Path,
    members: &[Member],
    files: &[ReadFile],
    taken: &BTreeSet<String>,
) -> Option<&'j kept::Before> {
    let paths: BTreeSet<&Path> =
        members.iter().map(|m| &*files[m.file].record.source.absolute).collect();
    let shared = |manifest: &Manifest| {
        manifest.sources.iter().filter(|s| paths.contains(&*s.absolute)).count()
    };
    let same = job
        .before
        .iter()
        .filter(|b| b.manifest.is_labelled(label) && !taken.contains(&b.manifest.trace));
    same.max_by_key(|b| (shared(&b.manifest), std::cmp::Reverse(&b.manifest.trace)))
}

pub(crate) struct AssembleTrace<'a> {
    /// Its place among the traces of the job.
    pub(crate) index: usize,
    pub(crate) label: &'a Path,
    pub(crate) job: &'a Job,
    pub(crate) before: Option<&'a kept::Before>,
    pub(crate) names: &'a mut Names,
    pub(crate) files: &'a mut Vec<ReadFile>,
    pub(crate) members: &'a [Member],
    pub(crate) set_aside: &'a [(Candidate, String)],
    pub(crate) card: Option<&'a Card>,
    pub(crate) log: &'a Log,
    pub(crate) work: &'a Path,
    pub(crate) earlier: &'a Earlier,
    pub(crate) store: &'a Store,
    pub(crate) derive: &'a Derive<'a>,
    pub(crate) outcome: &'a mut Outcome,
}

impl AssembleTrace<'_> {
    /// The name of the trace, in the turn of this process: that which it has, else what its path or the
    /// user says.
    fn name(&mut self, log: &mut Log) -> Result<String> {
        if let Some(before) = self.before {
            return Ok(self.store.current(&before.manifest.trace, &before.manifest.root));
        }
        let wanted = &self.job.options.name;
        let names = match wanted {
            Some(name) => vec![name.clone()],
            None => self.names.labels.names(self.label),
        };
        let claimed = self.store.claim(&Wish {
            names: &names,
            is_named: wanted.is_some(),
            root: &self.job.root.path,
            label: self.label,
            given: &self.names.given,
            aliases: &self.names.aliases,
        })?;
        if let Some(text) = claimed.finding {
            log.add(Severity::Info, "name-taken", None, || text.clone());
            if let Some((from, to)) = claimed.renamed {
                for trace in self.outcome.traces.iter_mut().filter(|t| t.trace == from) {
                    trace.trace.clone_from(&to);
                }
                match self.names.given.remove(&from) {
                    true => _ = self.names.given.insert(to),
                    false => _ = self.names.aliases.insert(from),
                }
            }
        }
        Ok(claimed.name)
    }
}

/// The ranks of a trace: those of execution traces only where there is nothing else that has ranks.
pub(crate) fn recorded(a: &AssembleTrace<'_>) -> BTreeSet<Option<i64>> {
    let is_et = |m: &Member| et::is_execution_trace(&a.files[m.file].record.facts);
    let sources = a.members.iter().map(|m| &*a.files[m.file].record.source.source);
    let beside = manifest::beside(sources);
    a.members.iter().filter(|m| !(beside && is_et(m))).map(|m| m.rank).collect()
}

/// What is odd about execution traces beside the traces of the ranks.
fn beside_findings(a: &AssembleTrace<'_>, log: &mut Log) {
    let recorded = recorded(a);
    let facts = |m: &Member| &a.files[m.file].record.facts;
    for m in a.members.iter().filter(|m| et::is_execution_trace(facts(m))) {
        if !recorded.contains(&m.rank) {
            log.add(Severity::Info, "et-rank-missing", None, || {
                "execution traces of ranks without a trace; their nodes are kept, and linked to nothing".to_owned()
            });
        }
        let same = a.members.iter().filter(|o| o.rank == m.rank && o.file != m.file);
        let mut pids = same.filter(|o| !et::is_execution_trace(facts(o))).map(|o| facts(o).pid);
        let own = facts(m).pid;
        if m.rank_source == "pid" && facts(m).name_rank.is_some_and(|r| Some(r) != m.rank) {
            log.add(Severity::Info, "et-rank-by-pid", None, || {
                "execution traces whose name says another rank than their process; they count for the rank of the process".to_owned()
            });
        } else if m.rank_source != "pid" && own.is_some() && pids.any(|p| p.is_some() && p != own) {
            log.add(Severity::Info, "et-other-process", None, || {
                "execution traces of another process than the trace of their rank: another run, so their nodes are linked to nothing".to_owned()
            });
        }
    }
}

pub(crate) fn assemble_trace(mut a: AssembleTrace<'_>) -> Result<Summary> {
    let mut log = a.log.clone();
    for m in a.members {
        let record = &mut a.files[m.file].record;
        record.source.rank = m.rank;
        if m.rank_source == "order" {
            log.add(Severity::Info, "rank-assumed", None, || {
                match &*record.source.source {
                    "nsys" => "neither the trace nor its name says a rank; ranks were given in the order of nodes and devices",
                    "xla" => "the profile does not say which device of the job each of its devices is; ranks are the numbers of the devices, host by host (--rank N=FILE says that of the first)",
                    "memory" => "the name of the memory snapshot says no rank; it counts as that of the only rank beside it, or as rank 0",
                    _ => "neither the trace nor its name says a rank; ranks were given in the order of the pids",
                }
                .to_owned()
            });
        }
        if &*record.source.source != "kineto"
            && m.rank_source == "order"
            && record.facts.name_rank.is_some()
        {
            log.add(Severity::Info, "rank-name-ignored", None, || {
                "files whose name says a rank and that hold several processes or devices that compute; the name was not used".to_owned()
            });
        }
        if &*record.source.source == "kineto"
            && record.facts.trace_rank.is_some()
            && m.rank_source == "name"
        {
            log.add(Severity::Info, "rank-by-name", None, || {
                "files of equal bytes under different rank names; each counts as the rank of its name".to_owned()
            });
        }
    }
    beside_findings(&a, &mut log);
    let ranks: BTreeSet<Option<i64>> = a.members.iter().map(|m| m.rank).collect();
    note_snapshots(a.files, a.members, &mut log);
    let before = a.earlier.of_ranks(a.files, a.members, &ranks);
    a.job.options.watcher.tell(|w| w.phase("joining ranks"));
    let directory = a.work.join(format!("made-{}", a.index)).join("trace=made");
    std::fs::create_dir_all(&directory).map_err(|e| crate::error::io(&directory, &e))?;
    assemble::write(&directory, a.work, a.files, a.members, before.is_some(), a.card, &log)?;
    let changed: BTreeSet<i64> = a
        .members
        .iter()
        .filter(|m| matches!(a.files[m.file].rows, Rows::Spool(_)))
        .filter_map(|m| m.rank)
        .collect();
    let derived_sha256 = a.derive.sha256();
    let earlier = before
        .filter(|held| held.manifest.derived_sha256 == derived_sha256)
        .map(|held| (held.directory.as_path(), &changed));
    a.job.options.watcher.tell(|w| w.phase("matching calls"));
    a.derive.derive(&ToDerive { directory: &directory, work: a.work, earlier })?;
    let name = publish(&mut a, &directory, &mut log)?;
    let mut findings = Vec::new();
    for m in a.members {
        let record = &a.files[m.file].record;
        findings
            .extend(record.log.findings.iter().map(|f| (record.source.path.clone(), f.clone())));
    }
    findings.extend(log.findings.iter().map(|f| (String::new(), f.clone())));
    let sources = || a.members.iter().map(|m| &a.files[m.file].record.source);
    let kinds: BTreeSet<String> = sources().map(|s| s.source.clone()).collect();
    let events = sources().map(|s| s.events).sum();
    let recorded = recorded(&a);
    let read = |m: &&Member| a.files[m.file].read_now;
    let ranks_read: BTreeSet<i64> = a.members.iter().filter(read).filter_map(|m| m.rank).collect();
    Ok(Summary {
        trace: name,
        origin: a.label.to_owned(),
        sources: kinds.into_iter().collect(),
        ranks: recorded.iter().flatten().count(),
        ranks_read: ranks_read.iter().filter(|rank| recorded.contains(&Some(**rank))).count(),
        events,
        bytes: a.members.iter().filter(read).map(|m| a.files[m.file].record.bytes).sum(),
        seconds: 0.0,
        findings,
        unchanged: false,
    })
}

/// Puts a directory that is complete but for its manifest in its place; the name that it got.
fn publish(a: &mut AssembleTrace<'_>, directory: &Path, log: &mut Log) -> Result<String> {
    // Before the turn: other ingests need not wait for the disk.
    a.store.settle(directory)?;
    let turn = a.store.turn();
    let said = log.findings.len();
    let name = a.name(log)?;
    if let Some(why) = damage(a, &name) {
        log.add(Severity::Info, "trace-damaged", None, || {
            format!("the trace directory was damaged ({why}), and was made again")
        });
    }
    if log.findings.len() > said {
        assemble::findings(directory, a.files, a.members, log)?;
    }
    let mut findings = BTreeMap::new();
    let of_files = a.members.iter().flat_map(|m| &a.files[m.file].record.log.findings);
    for f in of_files.chain(&log.findings) {
        *findings.entry(f.code.clone().into_owned()).or_insert(0) += f.count;
    }
    let was = a.before.map(|before| &before.manifest);
    let wanted = &a.job.options.name;
    let other = wanted.as_ref().filter(|wanted| **wanted != name);
    Manifest {
        trace: name.clone(),
        schema_version: SCHEMA_VERSION,
        ccl_sql: env!("CARGO_PKG_VERSION").to_owned(),
        root: a.job.root.path.clone(),
        named: wanted.is_some() || was.is_some_and(|was| was.named),
        wanted: other.cloned().or_else(|| was.and_then(|was| was.wanted.clone())),
        aliases: was.map(|was| was.aliases.clone()).unwrap_or_default(),
        label: Some(Stored(a.label.to_owned())),
        asked: a.job.options.asked.clone(),
        kept: Some(a.job.kept.clone()),
        sources: a.members.iter().map(|m| a.files[m.file].record.source.clone()).collect(),
        set_aside: a.set_aside.iter().filter_map(|(c, _)| source_of(c, -1).ok()).collect(),
        cards: a.card.map(card_sources).unwrap_or_default(),
        rows: count_rows(directory)?,
        findings,
        derived_sha256: a.derive.sha256(),
        files: BTreeMap::new(),
    }
    .write(directory)?;
    a.store.publish(directory, &name)?;
    drop(turn);
    a.names.given.insert(name.clone());
    Ok(name)
}

/// What was wrong with the directory that a trace takes the place of.
fn damage(a: &AssembleTrace<'_>, name: &str) -> Option<String> {
    let directory = a.store.directory(name);
    if let Some(before) = a.before {
        return before.damage.clone();
    }
    let says = |e: Error| e.facts.unwrap_or(e.message);
    directory.exists().then(|| Manifest::read(&directory).err().map(says)).flatten()
}

/// Says where only some ranks have a snapshot of memory, and where one has several.
fn note_snapshots(files: &[ReadFile], members: &[Member], log: &mut Log) {
    let is_memory = |m: &&Member| files[m.file].record.source.source == "memory";
    let snapshots: Vec<&Member> = members.iter().filter(is_memory).collect();
    let of: BTreeSet<i64> = snapshots.iter().filter_map(|m| m.rank).collect();
    let all: BTreeSet<i64> = members.iter().filter_map(|m| m.rank).collect();
    if !of.is_empty() && of.len() < all.len() {
        log.add(Severity::Info, "memory-ranks-missing", None, || {
            format!("memory snapshots of {} of {} ranks", of.len(), all.len())
        });
    }
    if of.len() < snapshots.len() {
        log.add(Severity::Info, "memory-several", None, || {
            "ranks with several memory snapshots; each is played back by itself".to_owned()
        });
    }
}
