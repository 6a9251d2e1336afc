//! The card beside the files of a job.

use std::path::{Path, PathBuf};

use crate::ingest::card::fields::Card;
use crate::ingest::card::{self, Given};
use crate::ingest::find::Root;
use crate::ingest::find::walk::Candidate;
use crate::input::place::{Place, entries};
use crate::readers::contract::Kind;
use crate::readers::log::Log;
use crate::store::manifest::SourceFile;

/// The files that a card was read from.
pub(crate) fn card_sources(card: &Card) -> Vec<SourceFile> {
    let mut paths = vec![&card.path];
    paths.extend(card.config.iter().map(|(path, _)| path).filter(|path| **path != card.path));
    paths
        .into_iter()
        .filter_map(|path| {
            let place = Place::file(path);
            Candidate::new(place, Kind::Yaml, false, None).source(0)
        })
        .collect()
}

/// The card of a job with the configuration (`--config`) beside it; of a configuration alone a card
/// that says nothing yet.
pub(crate) fn find_card(root: &Root, given: &Given, log: &mut Log) -> Option<Card> {
    let card = given.card.clone().or_else(|| card_beside(root, log));
    if let Some(card) = &card {
        card.note_odd(log);
    }
    match (card, given.config.clone()) {
        (Some(card), config) => Some(Card { config, ..card }),
        (None, Some(config)) => Some(Card {
            path: config.0.clone(),
            value: serde_json::Value::Null,
            config: Some(config),
        }),
        (None, None) => None,
    }
}

/// The card in the folder of a job or one above it, up to the PATH that was given, and up to the
/// folder that holds the folder of the traces (`profile_traces/iteration_N`).
fn card_beside(root: &Root, log: &mut Log) -> Option<Card> {
    let mut folders: Vec<PathBuf> = Vec::new();
    for c in &root.candidates {
        folders.extend(
            c.file
                .ancestors()
                .skip(1)
                .take_while(|a| a.starts_with(&root.path))
                .map(Path::to_owned),
        );
    }
    folders
        .extend(root.path.ancestors().take_while(|a| a.starts_with(&root.top)).map(Path::to_owned));
    // Nearest to the job's own folder first, then upwards, then the folders of ranks.
    folders.sort_by_key(|f| {
        (!root.path.starts_with(f), std::cmp::Reverse(f.components().count()), f.clone())
    });
    folders.dedup();
    folders.retain(|folder| root.within.holds(folder));
    for folder in folders {
        let mut yaml: Vec<PathBuf> = entries(&folder)
            .into_iter()
            .filter(|p| matches!(p.extension().and_then(|e| e.to_str()), Some("yaml" | "yml")))
            .filter(|p| root.within.holds(p))
            .collect();
        yaml.sort();
        if let Some(card) = card::choose(&folder, &yaml, log) {
            return Some(card);
        }
    }
    None
}
