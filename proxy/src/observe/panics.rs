//! How a panic is told: by a line of the program's log, which waits for nobody.
//!
//! The standard library has the thread that panics write to stderr itself. While stderr is stuck, a
//! shard would stand still there for good, since its fence is reached only after that.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::Cell;
use std::panic::{self, PanicHookInfo};
use std::thread;

use tracing::error;
use tracing::field::display;

use super::program_log::ProgramLogWriter;

/// What filters of the log know a panic by, and what is said of its consequences: one without the
/// other would be of little use.
pub const TARGET: &str = "proxy::panic";

thread_local! {
    /// Whether this thread has panicked and not outlived it.
    static UNWINDING: Cell<bool> = const { Cell::new(false) };
}

/// Has panics told by the log from here on. Told by the thread itself, which may wait, are one of the
/// thread that writes the log, since nobody else would write it, and one amid another, since the
/// process ends before anybody else does.
pub fn tell_by_log(writer: &ProgramLogWriter) {
    let writer = writer.thread();
    let tell_at_once = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        let amid_another = UNWINDING.replace(true);
        if amid_another || thread::current().id() == writer {
            tell_at_once(panic);
        } else {
            tell(panic);
        }
    }));
}

/// To be called by who has caught a panic and goes on.
pub(crate) fn outlived() {
    UNWINDING.set(false);
}

fn tell(panic: &PanicHookInfo<'_>) {
    let thread = thread::current();
    let said = panic.payload_as_str().unwrap_or("what it said is no text");
    let location = panic.location().map(ToString::to_string);
    let location = location.as_deref().unwrap_or("an unknown place");
    // None unless RUST_BACKTRACE asks for it.
    let backtrace = Backtrace::capture();
    let backtrace = (backtrace.status() == BacktraceStatus::Captured).then(|| display(backtrace));
    error!(
        target: TARGET,
        thread = thread.name(),
        backtrace,
        "panicked at {location}: {said}"
    );
}
