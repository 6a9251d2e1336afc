//! The files of a job after reading: which of them are one trace, and what is to be said of the
//! rest.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::ingest::find::walk::Candidate;
use crate::ingest::find::{names, not_a_trace};
use crate::ingest::kept::Job;
use crate::ingest::known::Known;
use crate::ingest::options::Outcome;
use crate::ingest::ranks::facts::{Facts, Left, Member};
use crate::ingest::ranks::{self, et};
use crate::ingest::read::{Elsewhere, Failed, SetAside, read_all};
use crate::ingest::records::{ReadFile, Rows};
use crate::readers::log::{Log, Severity};

/// The files of a job.
pub(crate) struct JobFiles {
    /// The files that were read, now or before.
    pub(crate) files: Vec<ReadFile>,
    /// The files that make no trace of the job, and why.
    pub(crate) set_aside: SetAside,
    /// The files that cannot be read.
    failed: Failed,
    /// The traces that the files make, each in the order of its ranks.
    traces: Vec<Vec<Member>>,
    /// The faults of files that make no trace.
    errors: Vec<Error>,
    /// The files that belong to no trace.
    left: Vec<Left>,
}

impl JobFiles {
    /// Reads the files of a job that are not known, and says which of all are one trace.
    ///
    /// # Errors
    /// Only faults of the whole job: `io` where the disk is full, `usage`.
    pub(crate) fn read(
        job: &Job,
        work: &Path,
        known: &mut Known,
        elsewhere: &Elsewhere<'_>,
    ) -> Result<Self> {
        loop {
            let (files, set_aside, failed) =
                read_all(&job.root, work, &job.options, known, elsewhere)?;
            let facts: Vec<Facts> = files.iter().map(|f| f.record.facts.clone()).collect();
            let (traces, errors, left) = ranks::split(&facts);
            let moved = moved(&files, &traces);
            if moved.is_empty() {
                return Ok(Self { files, set_aside, failed, traces, errors, left });
            }
            known.add(&files);
            known.forget(&moved);
        }
    }

    /// Whether a file of the job cannot be read.
    pub(crate) fn some_failed(&self) -> bool {
        !self.failed.is_empty()
    }

    /// Says which files make no trace, and why: as findings of the job, and in the outcome.
    pub(crate) fn report(&mut self, job: &Job, log: &mut Log, outcome: &mut Outcome) {
        for (file, what) in &job.root.others {
            log.add(Severity::Info, "set-aside", None, || format!("{file}: {what}; set aside"));
        }
        for (file, why) in &job.root.replaced {
            log.add(Severity::Loss, "file-replaced", None, || format!("{file}: {why}"));
        }
        for (candidate, what) in &self.set_aside {
            let text = candidate.place.display();
            if candidate.direct {
                outcome.errors.push(not_a_trace(candidate, what));
            } else {
                log.add(Severity::Info, "set-aside", None, || format!("{text}: {what}; set aside"));
                outcome.set_aside.push((text, what.clone()));
            }
        }
        self.report_apart(job, log, outcome);
        outcome.errors.append(&mut self.errors);
        for Left { file, code, why } in std::mem::take(&mut self.left) {
            log.add(Severity::Loss, code, None, || why.clone());
            self.leave_out(job, file, &why, outcome);
        }
        outcome.errors.extend(self.failed.iter().map(|(_, error)| error.clone()));
    }

    /// Says which execution traces are of no rank that was recorded.
    fn report_apart(&mut self, job: &Job, log: &mut Log, outcome: &mut Outcome) {
        let facts: Vec<Facts> = self.files.iter().map(|f| f.record.facts.clone()).collect();
        for file in et::left_over(&facts, &self.traces) {
            let why = "an execution trace of no rank that was recorded here";
            log.add(Severity::Info, "et-apart", None, || {
                let path = &facts[file].path;
                format!("{path}: {why}: neither its process nor its name says one; set aside")
            });
            self.leave_out(job, file, why, outcome);
        }
    }

    /// Sets a file aside that was read.
    fn leave_out(&mut self, job: &Job, file: usize, why: &str, outcome: &mut Outcome) {
        let source = &self.files[file].record.source;
        let candidate = job.root.candidates.iter().find(|c| c.absolute == source.absolute);
        self.set_aside.extend(candidate.map(|c| (c.clone(), why.to_owned())));
        outcome.set_aside.push((source.path.clone(), why.to_owned()));
    }

    /// Hands over the traces that the files make.
    ///
    /// # Errors
    /// `usage` where one name was given to several.
    pub(crate) fn take_traces(&mut self, job: &Job) -> Result<Vec<Vec<Member>>> {
        if self.traces.len() > 1 && job.options.name.is_some() {
            return Err(Error::new(
                "usage",
                format!("--name names one trace, and here are {}", self.traces.len()),
            )
            .at(job.root.path.display().to_string())
            .hint("ingest them one by one, or leave --name away"));
        }
        Ok(std::mem::take(&mut self.traces))
    }

    /// Whether a trace is of the job of a file that cannot be read: a damaged file stops the job
    /// that it belongs to, and only that.
    pub(crate) fn is_damaged(&self, members: &[Member]) -> bool {
        let stem = |(candidate, _): &(Candidate, Error)| names::stem(&candidate.place.logical());
        let failed_stems: BTreeSet<String> = self.failed.iter().map(stem).collect();
        let trace_failed = self.failed.iter().any(|(c, _)| !c.kind.source().tells_more());
        let only_tells = |m: &Member| self.files[m.file].record.source.source.tells_more();
        // What only tells more of a rank stands in for no trace that cannot be read, and stops none
        // when it cannot be read itself.
        let alone = members.iter().all(only_tells);
        if alone && trace_failed {
            return true;
        }
        let own = || members.iter().filter(|m| alone || !only_tells(m));
        // One file that is left of a job of several ranks says so itself.
        let facts = |m: &Member| &self.files[m.file].record.facts;
        let of_several = |m: &Member| facts(m).world_size.is_some_and(|world| world > 1);
        (own().count() > 1 || own().any(of_several))
            && own().any(|m| failed_stems.contains(&facts(m).stem))
    }
}

/// Files to read again, although an earlier ingest placed their rows: those say their rank, and it
/// is another one now; or the rank has got a second file, and both are sorted together.
fn moved(files: &[ReadFile], traces: &[Vec<Member>]) -> Vec<PathBuf> {
    let is_moved = |trace: &[Member], m: &Member| {
        let shared = trace.iter().filter(|other| other.rank == m.rank).count() > 1;
        let stays = files[m.file].record.source.rank == m.rank && !shared;
        matches!(files[m.file].rows, Rows::Trace(_)) && !stays
    };
    let of = |trace: &[Member]| -> Vec<PathBuf> {
        let moved = trace.iter().filter(|m| is_moved(trace, m));
        moved.map(|m| files[m.file].record.source.absolute.clone()).collect()
    };
    traces.iter().flat_map(|trace| of(trace)).collect()
}
