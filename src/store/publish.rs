//! Trace directories put in their place, renamed and removed: each in one step.

use std::path::Path;

use crate::error::{Error, Result, io};
use crate::store::files::RemoteFile;
use crate::store::manifest::Manifest;
use crate::store::workspace::BEFORE;
use crate::store::{Store, absolute, sync};

impl Store {
    /// Gives a trace another name, in one step; the old one still finds it where `keep` says so.
    ///
    /// # Errors
    /// `trace-unknown`, `name-clash` where the new name is taken, `io`.
    pub fn rename(&self, from: &str, to: &str, keep: bool, by_user: bool) -> Result<()> {
        self.fetch(&[from.to_owned()])?;
        let (directory, target) = (self.directory(from), self.directory(to));
        let mut manifest = Manifest::parse(&directory)?;
        manifest.aliases.retain(|alias| alias != to);
        if keep {
            manifest.aliases.push(from.to_owned());
        }
        to.clone_into(&mut manifest.trace);
        if by_user {
            manifest.named = true;
            manifest.wanted = None;
        }
        let cwd = rustix::fs::CWD;
        let flags = rustix::fs::RenameFlags::NOREPLACE;
        let taken = || {
            Error::new("name-clash", format!("there is a trace `{to}` already"))
                .at(target.display().to_string())
                .hint("give it another name, or remove the one that has it: ccl-sql remove")
        };
        if target.exists() {
            return Err(taken());
        }
        // The manifest first: the name that counts is that of the directory. It is on the disk
        // before that changes, or the old name would find nothing after a loss of power.
        let work = self.workspace()?;
        manifest.replace(&directory, &work.path.join("manifest"))?;
        self.synced(&[&directory])?;
        match rustix::fs::renameat_with(cwd, &directory, cwd, &target, flags) {
            Ok(()) => {}
            Err(rustix::io::Errno::EXIST) => return Err(taken()),
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
                std::fs::rename(&directory, &target).map_err(|e| io(&target, &e))?;
            }
            Err(e) => return Err(io(&target, &e.into())),
        }
        self.synced(&[&self.path])?;
        // In a store the new name is another trace, and there before the old one is gone.
        self.upload(&target, to, &[])?;
        self.remove_there(from)
    }

    /// Removes a trace, in one step; what still reads its files goes on as far as it has them open.
    ///
    /// # Errors
    /// `io`.
    pub fn remove(&self, name: &str) -> Result<()> {
        self.remove_there(name)?;
        let work = self.workspace()?;
        let directory = self.directory(name);
        let gone = work.path.join(format!("trace={name}"));
        std::fs::rename(&directory, &gone).map_err(|e| io(&directory, &e))?;
        self.synced(&[&self.path])
    }

    /// Puts a finished directory in the place of its name: in the object store first, where the
    /// data directory lies in one, with those of its files that lie elsewhere there.
    ///
    /// # Errors
    /// `io`, `store-conflict`; then what was there before is still there.
    pub fn publish(&self, directory: &Path, name: &str, elsewhere: &[RemoteFile]) -> Result<()> {
        self.upload(directory, name, elsewhere)?;
        self.place(directory, name)
    }

    /// Puts a finished directory in the place of its name, atomically, and so that a loss of power
    /// leaves it or the one before.
    ///
    /// # Errors
    /// `io`; then what was there before is still there.
    pub(super) fn place(&self, directory: &Path, name: &str) -> Result<()> {
        self.settle(directory)?;
        self.exchange(directory, name)?;
        // The folder of the work has lost an entry, or has the directory of before.
        let work = directory.parent().unwrap_or(directory);
        self.synced(&[&self.path, work])?;
        if let (true, Some(above)) = (self.durable, absolute(&self.path).parent()) {
            // The data directory may be new. A folder that may not be opened is nobody's loss here.
            let _ = sync::folder(above);
        }
        Ok(())
    }

    /// Syncs a directory to the disk. Files that are there already take no time.
    ///
    /// # Errors
    /// `io` when the disk does not take it.
    pub fn settle(&self, directory: &Path) -> Result<()> {
        if self.durable { sync::tree(directory) } else { Ok(()) }
    }

    /// Syncs the entries of folders to the disk.
    fn synced(&self, folders: &[&Path]) -> Result<()> {
        match self.durable {
            true => folders.iter().try_for_each(|folder| sync::folder(folder)),
            false => Ok(()),
        }
    }

    fn exchange(&self, directory: &Path, name: &str) -> Result<()> {
        let target = self.directory(name);
        let flags = rustix::fs::RenameFlags::EXCHANGE;
        let cwd = rustix::fs::CWD;
        if target.exists() {
            match rustix::fs::renameat_with(cwd, directory, cwd, &target, flags) {
                Ok(()) => return Ok(()), // the old one now lies in the workspace, and goes with it
                Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
                    // No exchange on this file system: two renames, the old one aside first. After
                    // a crash between them the next workspace puts it back, so that its folder must
                    // outlast a loss of power.
                    let above = directory.ancestors().skip(1);
                    let folders: Vec<&Path> = above
                        .take_while(|folder| folder.starts_with(absolute(&self.path)))
                        .collect();
                    self.synced(&folders)?;
                    let aside = directory.with_file_name(format!("{BEFORE}{name}"));
                    std::fs::rename(&target, &aside).map_err(|e| io(&target, &e))?;
                    return std::fs::rename(directory, &target).map_err(|e| {
                        // As before, if that can be had.
                        let _ = std::fs::rename(&aside, &target);
                        io(&target, &e)
                    });
                }
                Err(e) => return Err(io(&target, &e.into())),
            }
        }
        std::fs::rename(directory, &target).map_err(|e| io(&target, &e))
    }
}
