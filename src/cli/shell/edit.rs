//! Lines that are typed: edited, kept in a history, coloured and completed.

use std::path::PathBuf;

use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{Behavior, CompletionType, Config, Editor};

use crate::cli::shell::Shell;
use crate::cli::shell::complete::{Assistant, Names};
use crate::cli::split::{Splitter, Task};
use crate::cli::statement::begins_with;
use crate::error::{Error, Result};
use crate::registry::units::plain_text;
use crate::report::grid::value::cut;

/// Lines that the history keeps.
const MAX_HISTORY: usize = 2000;

/// Columns of the prompt that the name of a trace takes.
const LONGEST_TRACE: usize = 24;

/// Statements that change what Tab offers begin with one of these.
const CHANGES_NAMES: &[&str] =
    &["CREATE", "DROP", "ALTER", "ATTACH", "DETACH", "USE", "IMPORT", "ROLLBACK", "COMMIT"];

impl Shell<'_> {
    /// Reads what is typed.
    ///
    /// # Errors
    /// `io` where the terminal cannot be used.
    pub(super) fn edit(&mut self) -> Result<()> {
        let fault = |e: ReadlineError| Error::new("io", format!("cannot use the terminal: {e}"));
        let config = Config::builder()
            .behavior(Behavior::PreferTerm)
            .completion_type(CompletionType::List)
            .completion_show_all_if_ambiguous(true)
            .max_history_size(MAX_HISTORY)
            .map_err(fault)?
            .build();
        let mut editor: Editor<Assistant, DefaultHistory> =
            Editor::with_config(config).map_err(fault)?;
        let mut names = Names::new(&self.context.registry, self.context.store.traces());
        names.refresh(&self.session.engine);
        names.add_functions(&self.session.engine);
        let mut assistant = Assistant::new(names, !self.sink.sandbox);
        assistant.colour = self.context.printer.colours();
        editor.set_helper(Some(assistant));
        let history = history_file();
        if let Some(path) = &history {
            // There is none yet the first time; one that cannot be read is as good as none.
            let _ = editor.load_history(path);
        }
        self.listen()?;
        if self.context.store.traces().is_empty() {
            self.context.printer.note("there are no traces yet: ccl-sql ingest PATH");
        }
        while !self.done() {
            let typed = match editor.readline(&self.prompt()) {
                Ok(typed) => typed,
                Err(ReadlineError::Interrupted | ReadlineError::Signal(_)) => continue,
                Err(ReadlineError::Eof) => break,
                Err(e) => return Err(fault(e)),
            };
            if !typed.trim().is_empty() {
                let kept = editor.add_history_entry(typed.trim_end());
                if let (Ok(true), Some(path)) = (kept, &history) {
                    // Losing a line of the history is no reason to stop.
                    let _ = editor.append_history(path);
                }
            }
            let mut splitter = Splitter::default();
            let items = splitter.feed(&typed);
            for item in &items {
                self.item(item, None);
                if self.done() || self.context.interrupt.asked() {
                    break;
                }
            }
            let is_changed = items.iter().any(|item| match &item.task {
                Task::Statement(sql) => begins_with(sql, CHANGES_NAMES),
                Task::Command(line) => line.starts_with(".read"),
            });
            if let Some(assistant) = editor.helper_mut() {
                assistant.colour = self.colour.unwrap_or(assistant.colour);
                if is_changed {
                    assistant.names.refresh(&self.session.engine);
                }
            }
        }
        Ok(())
    }

    /// The prompt, with the trace that alone is shown.
    fn prompt(&self) -> String {
        match self.chosen.as_deref() {
            Some([trace]) => format!("ccl-sql {}> ", cut(&plain_text(trace), LONGEST_TRACE)),
            Some(traces) => format!("ccl-sql {} traces> ", traces.len()),
            None => "ccl-sql> ".to_owned(),
        }
    }

    /// Ctrl-C stops a query from now on, and not the shell. At the prompt it comes as a key.
    fn listen(&self) -> Result<()> {
        let mut signals = signal_hook::iterator::Signals::new([signal_hook::consts::SIGINT])
            .map_err(|e| Error::new("io", format!("cannot listen for Ctrl-C: {e}")))?;
        let interrupt = self.context.interrupt.clone();
        std::thread::spawn(move || {
            for _ in signals.forever() {
                interrupt.ask();
            }
        });
        Ok(())
    }
}

/// `ccl-sql/history` in the state folder of XDG, which is made; None where that cannot be.
fn history_file() -> Option<PathBuf> {
    use std::os::unix::fs::DirBuilderExt;
    let absolute =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")));
    let folder = state?.join("ccl-sql");
    // The mode is that of the XDG base directory specification.
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).ok()?;
    Some(folder.join("history"))
}
