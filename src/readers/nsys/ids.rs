//! The numbers of processes and threads in an export.

use crate::spool::launches;

/// Processes whose names are kept.
pub const MAX_PROCESSES: usize = 10_000;

/// The low bits of a global thread id that number the thread.
pub(crate) const THREAD_BITS: i64 = 0xFF_FFFF;

/// Process and thread of global ids.
pub(crate) fn ids(process: Option<i64>, thread: Option<i64>) -> [Option<i64>; 2] {
    // An id that fills no more than the bits of the thread is no global one.
    let pid =
        |g: i64| if g.unsigned_abs() <= THREAD_BITS as u64 { g } else { (g >> 24) & THREAD_BITS };
    [process.map(pid), thread.map(|g| g & THREAD_BITS)]
}

/// The process of a global id, with the machine that it is on; all are one where device events do
/// not say theirs.
pub fn process_of(global: Option<i64>, by_process: bool) -> i64 {
    match global {
        Some(global) if by_process => global & !THREAD_BITS,
        _ => 0,
    }
}

/// Process and thread of what threads are told apart by: the global id of the thread.
pub fn thread_ids([_, thread]: [i64; 2]) -> [Option<i64>; 2] {
    let thread = launches::some(thread);
    ids(thread, thread)
}

/// The process of a global id, as the operating system numbers it.
pub fn pid_of(global: i64) -> Option<i64> {
    ids(Some(global), None)[0]
}
