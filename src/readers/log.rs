//! Findings: what was odd in a file, counted by code, with the place where it came first.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Severity {
    /// Worth knowing; nothing is lost.
    Info,
    /// Part of an event, or an event, is lost.
    Loss,
    /// The source as a whole is damaged.
    Error,
}

impl Severity {
    /// The word in `ingest_log.severity`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Loss => "loss",
            Self::Error => "error",
        }
    }
}

/// One row of `ingest_log`, without its file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Stable name.
    pub code: Cow<'static, str>,
    /// How bad.
    pub severity: Severity,
    /// How often.
    pub count: u64,
    /// Byte of the uncompressed file where it came first.
    pub first_offset: Option<u64>,
    /// The message: the fact, and how it was treated.
    pub message: String,
}

/// The findings of one file (or of a trace as a whole).
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Log {
    /// One per code, in order of first occurrence.
    pub findings: Vec<Finding>,
}

impl Log {
    /// Counts a finding; the message is built at its first occurrence only.
    pub fn add(
        &mut self,
        severity: Severity,
        code: &'static str,
        offset: Option<u64>,
        message: impl FnOnce() -> String,
    ) {
        self.add_many(severity, code, 1, offset, message);
    }

    /// Counts a finding that came `count` times.
    pub fn add_many(
        &mut self,
        severity: Severity,
        code: impl Into<Cow<'static, str>>,
        count: u64,
        offset: Option<u64>,
        message: impl FnOnce() -> String,
    ) {
        if count == 0 {
            return;
        }
        let code = code.into();
        match self.findings.iter_mut().find(|f| f.code == code) {
            Some(finding) => finding.count += count,
            None => self.findings.push(Finding {
                code,
                severity,
                count,
                first_offset: offset,
                message: message(),
            }),
        }
    }

    /// Adds a finding whose message is its own: other messages of the code are other findings.
    pub fn say(&mut self, severity: Severity, code: &'static str, count: u64, message: String) {
        self.findings.push(Finding {
            code: code.into(),
            severity,
            count,
            first_offset: None,
            message,
        });
    }

    /// Adds the findings of a later part of the same file.
    pub fn append(&mut self, later: Self) {
        for f in later.findings {
            let message = f.message;
            self.add_many(f.severity, f.code, f.count, f.first_offset, || message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_keeps_the_first_place() {
        let mut log = Log::default();
        log.add(Severity::Loss, "ts-missing", Some(7), || "first".into());
        log.add(Severity::Loss, "ts-missing", Some(9), || "second".into());
        assert_eq!(log.findings.len(), 1);
        let f = &log.findings[0];
        assert_eq!((f.count, f.first_offset, f.message.as_str()), (2, Some(7), "first"));
    }
}
