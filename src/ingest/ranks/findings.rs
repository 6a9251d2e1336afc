//! What is odd about the ranks of a trace, said once when it is made.

use std::collections::BTreeSet;

use crate::ingest::ranks::et::is_execution_trace;
use crate::ingest::ranks::facts::Member;
use crate::ingest::records::ReadFile;
use crate::readers::log::{Log, Severity};
use crate::schema::source::Source;
use crate::store::manifest;

/// The ranks of a trace: those of execution traces only where there is nothing else that has ranks.
pub(crate) fn recorded(files: &[ReadFile], members: &[Member]) -> BTreeSet<Option<i64>> {
    let is_et = |m: &Member| is_execution_trace(&files[m.file].record.facts);
    let sources = members.iter().map(|m| files[m.file].record.source.source);
    let beside = manifest::beside(sources);
    members.iter().filter(|m| !(beside && is_et(m))).map(|m| m.rank).collect()
}

/// Says all that is odd about the ranks of a trace.
pub(crate) fn note(files: &[ReadFile], members: &[Member], log: &mut Log) {
    for m in members {
        note_rank(&files[m.file], m, log);
    }
    note_execution_traces(files, members, log);
    note_snapshots(files, members, log);
}

/// Says where the rank of a file is a guess, or its name was not believed.
fn note_rank(file: &ReadFile, m: &Member, log: &mut Log) {
    let facts = &file.record.facts;
    let source = file.record.source.source;
    if m.rank_source == "order" {
        log.add(Severity::Info, "rank-assumed", None, || {
            match source {
                Source::Nsys => {
                    "neither the trace nor its name says a rank; ranks were given in the order of \
                     nodes and devices"
                }
                Source::Xla => {
                    "the profile does not say which device of the job each of its devices is; \
                     ranks are the numbers of the devices, host by host (--rank N=FILE says that of \
                     the first)"
                }
                Source::Memory => {
                    "the name of the memory snapshot says no rank; it counts as that of the only \
                     rank beside it, or as rank 0"
                }
                _ => {
                    "neither the trace nor its name says a rank; ranks were given in the order of \
                     the pids"
                }
            }
            .to_owned()
        });
    }
    if source != Source::Kineto && m.rank_source == "order" && facts.name_rank.is_some() {
        log.add(Severity::Info, "rank-name-ignored", None, || {
            "files whose name says a rank and that hold several processes or devices that compute; \
             the name was not used"
                .to_owned()
        });
    }
    if source == Source::Kineto && facts.trace_rank.is_some() && m.rank_source == "name" {
        log.add(Severity::Info, "rank-by-name", None, || {
            "files of equal bytes under different rank names; each counts as the rank of its name"
                .to_owned()
        });
    }
}

/// Says what is odd about execution traces beside the traces of the ranks.
fn note_execution_traces(files: &[ReadFile], members: &[Member], log: &mut Log) {
    let recorded = recorded(files, members);
    let facts = |m: &Member| &files[m.file].record.facts;
    for m in members.iter().filter(|m| is_execution_trace(facts(m))) {
        if !recorded.contains(&m.rank) {
            log.add(Severity::Info, "et-rank-missing", None, || {
                "execution traces of ranks without a trace; their nodes are kept, and linked to \
                 nothing"
                    .to_owned()
            });
        }
        let same = members.iter().filter(|o| o.rank == m.rank && o.file != m.file);
        let mut pids = same.filter(|o| !is_execution_trace(facts(o))).map(|o| facts(o).pid);
        let own = facts(m).pid;
        if m.rank_source == "pid" && facts(m).name_rank.is_some_and(|r| Some(r) != m.rank) {
            log.add(Severity::Info, "et-rank-by-pid", None, || {
                "execution traces whose name says another rank than their process; they count for \
                 the rank of the process"
                    .to_owned()
            });
        } else if m.rank_source != "pid" && own.is_some() && pids.any(|p| p.is_some() && p != own) {
            log.add(Severity::Info, "et-other-process", None, || {
                "execution traces of another process than the trace of their rank: another run, so \
                 their nodes are linked to nothing"
                    .to_owned()
            });
        }
    }
}

/// Says where only some ranks have a snapshot of memory, and where one has several.
fn note_snapshots(files: &[ReadFile], members: &[Member], log: &mut Log) {
    let is_memory = |m: &&Member| files[m.file].record.source.source == Source::Memory;
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
