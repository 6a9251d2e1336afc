//! Derived tables made again, where their SQL has changed since the ingest.

use std::path::Path;

use crate::derive::{Derive, ToDerive};
use crate::error::{Result, io};
use crate::schema::{Made, TABLES};
use crate::store::Store;
use crate::store::files::{count_rows, link_tree};
use crate::store::manifest::Manifest;

impl Derive<'_> {
    /// Makes the derived tables of a trace again when their SQL has changed since.
    ///
    /// # Errors
    /// `sql` or `io`; then the old ones are still there.
    pub fn refresh(
        &self,
        store: &Store,
        directory: &Path,
        mut manifest: Manifest,
    ) -> Result<Manifest> {
        // Tables of another version are not mended but ingested again.
        if manifest.derived_sha256 == self.sha256() || manifest.check_version().is_err() {
            return Ok(manifest);
        }
        store.fetch(std::slice::from_ref(&manifest.trace))?;
        let work = store.workspace()?;
        let copy = work.path.join(format!("trace={}", manifest.trace));
        link_tree(directory, &copy)?;
        if Manifest::read(directory)? != manifest {
            // An ingest came first.
            return self.refresh(store, directory, Manifest::read(directory)?);
        }
        let before = manifest.clone();
        for table in TABLES.iter().filter(|t| t.made == Made::Derived) {
            let folder = copy.join(table.name);
            if folder.exists() {
                std::fs::remove_dir_all(&folder).map_err(|e| io(&folder, &e))?;
            }
        }
        for entry in std::fs::read_dir(&copy).map_err(|e| io(&copy, &e))?.flatten() {
            // Steps on the way, kept for ranks that do not change.
            if entry.file_name().to_string_lossy().starts_with('_') {
                std::fs::remove_dir_all(entry.path()).map_err(|e| io(&entry.path(), &e))?;
            }
        }
        let what = ToDerive { directory: &copy, into: &copy, work: &work.path, earlier: None };
        self.derive(&what, &self.counts(&what)?)?;
        manifest.rows = count_rows(&copy)?;
        manifest.derived_sha256 = self.sha256();
        manifest.write(&copy)?;
        let turn = store.turn();
        if Manifest::read(directory)? != before {
            drop(turn);
            return self.refresh(store, directory, Manifest::read(directory)?);
        }
        store.publish(&copy, &manifest.trace, &[])?;
        Ok(manifest)
    }
}
