//! A terminal, which `script` of util-linux makes: what a command shows on it, and what is typed.

use std::io::{Read as _, Write as _};
use std::num::NonZero;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::support::{Place, program};

/// Time after which what is waited for does not come.
const PATIENCE: Duration = Duration::from_secs(60);

/// A command on a terminal.
pub struct Terminal {
    child: Child,
    input: ChildStdin,
    output: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
    size: (u16, u16),
    /// Bytes up to the end of the last text that was waited for.
    seen: usize,
}

/// What a command left.
pub struct Ended {
    /// Exit code.
    pub code: Option<i32>,
    /// All that was written, with what steers the terminal.
    pub written: String,
    /// What the screen shows at the end, with what scrolled out of it.
    pub screen: String,
}

impl Terminal {
    /// Starts the program in the folder of the files, on a terminal of some lines and columns, with
    /// variables of the environment. `words` are as a shell reads them. None, which is said, where
    /// there is no `script`.
    pub fn start(
        place: &Place,
        size: (u16, u16),
        words: &str,
        variables: &[(&str, &str)],
    ) -> Option<Self> {
        let (lines, columns) = size;
        let program = program().display();
        let line =
            format!("stty rows {lines} cols {columns}; exec {program} --data ../data {words}");
        if Command::new("script").arg("--version").output().is_err() {
            let said = "skipped: `script` of util-linux is not here, so there is no terminal";
            drop(writeln!(std::io::stderr(), "{said}"));
            return None;
        }
        // What a script starts in the background ignores Ctrl-C, and with `nohup` the end of the
        // terminal, and so does what that starts.
        let mut child = Command::new("env")
            .args(["--default-signal=INT,HUP", "script", "-qefc", &line, "/dev/null"])
            .current_dir(place.input())
            .env("TERM", "xterm")
            .env("SHELL", "/bin/sh")
            .env("XDG_STATE_HOME", place.input())
            .env_remove("NO_COLOR")
            .env_remove("PAGER")
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it was there");
        let output = Arc::new(Mutex::new(Vec::new()));
        let (mut from, to) = (child.stdout.take().expect("it is piped"), output.clone());
        let reader = std::thread::spawn(move || {
            let mut piece = [0; 1 << 12];
            while let Ok(read @ 1..) = from.read(&mut piece) {
                to.lock().expect("no thread panics here").extend_from_slice(&piece[..read]);
            }
        });
        let input = child.stdin.take().expect("it is piped");
        Some(Self { child, input, output, reader: Some(reader), size, seen: 0 })
    }

    fn written(&self) -> String {
        String::from_utf8_lossy(&self.output.lock().expect("no thread panics here")).into_owned()
    }

    /// Waits for a text, behind the one that was waited for before.
    ///
    /// # Panics
    /// When it does not come.
    pub fn see(&mut self, text: &str) -> &mut Self {
        let begin = Instant::now();
        loop {
            // What has ended writes nothing more, so that is asked first.
            let ended = self.child.try_wait().is_ok_and(|status| status.is_some());
            let written = self.output.lock().expect("no thread panics here").clone();
            if let Some(at) = memchr::memmem::find(&written[self.seen..], text.as_bytes()) {
                self.seen += at + text.len();
                return self;
            }
            let said = String::from_utf8_lossy(&written);
            assert!(!ended && begin.elapsed() < PATIENCE, "no {text:?} in {said:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Types a text.
    ///
    /// # Panics
    /// When nobody reads it.
    pub fn type_in(&mut self, text: &str) -> &mut Self {
        self.input.write_all(text.as_bytes()).expect("it reads");
        self
    }

    /// Waits for the end of the command, and no longer than it may take.
    ///
    /// # Panics
    /// When it does not come.
    pub fn end(&mut self) -> Ended {
        let begin = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("it can be asked") {
                break status;
            }
            assert!(begin.elapsed() < PATIENCE, "it does not end: {:?}", self.written());
            std::thread::sleep(Duration::from_millis(5));
        };
        if let Some(reader) = self.reader.take() {
            reader.join().expect("it reads to the end");
        }
        let written = self.written();
        // As many lines as were ever written: none scrolls out.
        let lines = self.size.0.saturating_add(written.matches('\n').count() as u16);
        let size = |n| NonZero::new(n).expect("a terminal has lines and columns");
        let mut screen = vt100::Parser::new(size(lines), size(self.size.1), 0);
        screen.process(written.as_bytes());
        let rows = screen.screen().rows(0, self.size.1);
        let mut screen = rows.collect::<Vec<_>>().join("\n");
        screen.truncate(screen.trim_end().len());
        Ended { code: status.code(), written, screen }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It has ended, or a test has failed: then the command ends with its terminal.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
