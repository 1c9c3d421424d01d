//! How much a thread stands back for request cores.

use rustix::process::{getpriority_process, setpriority_process};

/// Makes this thread so much nicer than it is (`nice(1)`), and with it those that it starts.
///
/// Where that is refused it competes with requests, which is no reason not to do its work.
pub(crate) fn lower(by: i32) {
    // The thread's own, not the process's: Linux counts priorities by thread, and takes more than 19
    // for 19.
    if let Ok(niceness) = getpriority_process(None) {
        let _ = setpriority_process(None, niceness + by);
    }
}
