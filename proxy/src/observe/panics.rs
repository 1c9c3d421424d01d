//! Logs panics through the program log, which never blocks.
//!
//! By default the panicking thread writes to stderr itself. With a blocked stderr, a shard would
//! hang there, since its fence is reached only afterwards.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::Cell;
use std::panic::{self, PanicHookInfo};
use std::thread;

use tracing::error;
use tracing::field::display;

use super::program_log::ProgramLogWriter;

/// Log target of panics and of the messages about their consequences.
pub const TARGET: &str = "proxy::panic";

thread_local! {
    /// Whether this thread is unwinding from a panic.
    static UNWINDING: Cell<bool> = const { Cell::new(false) };
}

/// Logs panics through the program log from now on. Two kinds are written directly by their thread:
/// a panic of the log writer itself, and a panic while unwinding, which ends the process.
pub fn log_panics(writer: &ProgramLogWriter) {
    let writer = writer.thread();
    let default_hook = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        let is_nested = UNWINDING.replace(true);
        if is_nested || thread::current().id() == writer {
            default_hook(panic);
        } else {
            log_panic(panic);
        }
    }));
}

/// Call it after catching a panic.
pub(crate) fn record_caught() {
    UNWINDING.set(false);
}

fn log_panic(panic: &PanicHookInfo<'_>) {
    let thread = thread::current();
    let message = panic.payload_as_str().unwrap_or("its message is not text");
    let location = panic.location().map(ToString::to_string);
    let location = location.as_deref().unwrap_or("an unknown location");
    // Empty unless RUST_BACKTRACE is set.
    let backtrace = Backtrace::capture();
    let backtrace = (backtrace.status() == BacktraceStatus::Captured).then(|| display(backtrace));
    error!(
        target: TARGET,
        thread = thread.name(),
        backtrace,
        "panicked at {location}: {message}"
    );
}
