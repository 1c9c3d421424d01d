//! How much a thread stands back for request cores.

use rustix::process::setpriority_process;

/// Gives this thread a lower priority (`nice(1)`), and with it those that it starts.
///
/// Where that is refused it competes with requests, which is no reason not to do its work.
pub(crate) fn lower(niceness: i32) {
    // The thread's own, not the process's: Linux counts priorities by thread.
    let _ = setpriority_process(None, niceness);
}
