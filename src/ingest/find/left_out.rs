//! Files that are not read although there is a reader for them: another file says the same or more.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::ingest::find::names;
use crate::ingest::find::walk::Candidate;
use crate::ingest::options::Options;
use crate::input::place::is_file;
use crate::readers::contract::Kind;
use crate::readers::xla;

/// The files of XLA below a path, and which of one run wins.
pub(crate) struct OfXla {
    /// Paths of those in protocol buffers, without their endings.
    xplanes: BTreeSet<PathBuf>,
    /// Their folders.
    folders: BTreeSet<PathBuf>,
    /// Folders of those in JSON that are not for Perfetto.
    json: BTreeSet<PathBuf>,
    /// Damaged ones in protocol buffers beside which the same lies in JSON; and why.
    pub(crate) damaged: BTreeMap<PathBuf, String>,
}

impl OfXla {
    /// The files of XLA among candidates. `keep_partial` says that what a damaged file still has is
    /// wanted.
    pub(crate) fn of(candidates: &[Candidate], keep_partial: bool) -> Self {
        let mut out = Self {
            xplanes: BTreeSet::new(),
            folders: BTreeSet::new(),
            json: BTreeSet::new(),
            damaged: BTreeMap::new(),
        };
        let without_endings = |candidate: &Candidate| {
            let path = candidate.place.logical();
            path.parent().unwrap_or(Path::new("")).join(names::base_name(&path))
        };
        let in_json: BTreeSet<PathBuf> =
            candidates.iter().filter(|c| c.kind == Kind::XlaJson).map(without_endings).collect();
        for candidate in candidates {
            if candidate.kind == Kind::XPlane
                && !keep_partial
                && candidate.place.member.is_none()
                && in_json.contains(&without_endings(candidate))
                && let Some(why) = xla::fault(&candidate.place.file)
            {
                out.damaged.insert(candidate.place.file.clone(), why);
                continue;
            }
            let path = candidate.place.logical();
            let folder = path.parent().unwrap_or(Path::new("")).to_owned();
            match candidate.kind {
                Kind::XPlane => {
                    out.xplanes.insert(folder.join(names::base_name(&path)));
                    out.folders.insert(folder);
                }
                Kind::XlaJson if names::base_name(&path) != "perfetto_trace" => {
                    out.json.insert(folder);
                }
                _ => {}
            }
        }
        out
    }

    /// The reason why a file is not read: another of the same run says more.
    pub(crate) fn left_out(&self, candidate: &Candidate) -> Option<&'static str> {
        let path = candidate.place.logical();
        let (folder, base) = (path.parent()?, names::base_name(&path));
        let is_perfetto = base == "perfetto_trace";
        if candidate.kind != Kind::XlaJson || candidate.direct {
            None
        } else if self.xplanes.contains(&folder.join(&base))
            || is_perfetto && self.folders.contains(folder)
        {
            Some("the .xplane.pb file of the same run lies beside it, and says more")
        } else if is_perfetto && self.json.contains(folder) {
            Some("the .trace.json file of the same run lies beside it")
        } else {
            None
        }
    }
}

/// The reason why a candidate is not read, although there is a reader for it.
pub(crate) fn left_out(candidate: &Candidate, options: &Options) -> Option<String> {
    if !candidate.kind.is_read() {
        return None;
    }
    let source = candidate.kind.source();
    if let Some(wanted) = options.only().filter(|wanted| *wanted != source) {
        return Some(format!("it is of {source}, and --source {wanted} was given"));
    }
    // A report or a folder whose export into a database lies beside it.
    let exported = |ending: &str| {
        let file = &candidate.place.file;
        is_file(&file.with_file_name(names::base_name(file) + ending))
    };
    let file = candidate.place.file.as_os_str().as_encoded_bytes();
    if candidate.kind == Kind::Sqlite && !candidate.direct && file.ends_with(b".sqlite.gz") {
        let unpacked = candidate.place.file.with_extension("");
        return is_file(&unpacked).then(|| "the same file lies unpacked beside it".to_owned());
    }
    (matches!(candidate.kind, Kind::NsysReport | Kind::NsysFolder)
        && !candidate.direct
        && [".sqlite", ".sqlite.gz"].into_iter().any(exported))
    .then(|| "its export into a database lies beside it".to_owned())
}
