//! Scheduling priority of threads that must not compete with requests.

use rustix::process::{getpriority_process, setpriority_process};

/// Increases the niceness (`nice(1)`) of this thread and of threads it starts.
///
/// An error is ignored: the work is done at normal priority then.
pub(crate) fn lower(by: i32) {
    // On Linux this affects only the calling thread; values above 19 are clamped.
    if let Ok(niceness) = getpriority_process(None) {
        let _ = setpriority_process(None, niceness + by);
    }
}
