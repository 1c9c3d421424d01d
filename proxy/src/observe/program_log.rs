//! Passes the program log to stderr, which may be slow, blocked or closed.
//!
//! Shards log too, and so does the thread that answers probes: none of them may block on stderr.
//! Lines are queued and written by a thread; those that do not fit are dropped, and a later line
//! states how many.

#![expect(
    clippy::disallowed_types,
    reason = "the lock is held to copy a line, never to write, and a thread of its own waits"
)]

use std::io::{self, Write};
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use crossbeam::channel::{Receiver, RecvTimeoutError, Sender, bounded};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};

use crate::limits::{LOG_STOP_TIMEOUT, PROGRAM_LOG_BYTES, PROGRAM_LOG_KEPT_BYTES};

/// Output format of the program log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// Plain text
    #[default]
    Text,
    /// JSON Lines
    Json,
}

/// The queue of lines that `tracing` writes to.
#[derive(Debug, Default)]
pub struct ProgramLog {
    format: LogFormat,
    pending: Mutex<Pending>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Pending {
    lines: Vec<u8>,
    dropped: u64,
    stopping: bool,
}

struct PendingLines {
    lines: Vec<u8>,
    /// Number of dropped lines after them.
    dropped: u64,
}

impl ProgramLog {
    /// A log with this format.
    #[must_use]
    pub fn new(format: LogFormat) -> Self {
        Self {
            format,
            ..Self::default()
        }
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for lines, and takes them in exchange for an empty buffer; `None` at the end.
    fn take(&self, empty: Vec<u8>) -> Option<PendingLines> {
        let waiting = self.changed.wait_while(self.pending(), |pending| {
            pending.lines.is_empty() && !pending.stopping
        });
        let mut pending = waiting.unwrap_or_else(PoisonError::into_inner);
        let lines = mem::replace(&mut pending.lines, empty);
        let dropped = mem::take(&mut pending.dropped);
        (!lines.is_empty()).then_some(PendingLines { lines, dropped })
    }

    fn drop_lines(&self, lines: u64) {
        self.pending().dropped += lines;
    }
}

impl Write for &ProgramLog {
    /// Queues a complete line, or drops it.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut pending = self.pending();
        if pending.lines.len() + line.len() > PROGRAM_LOG_BYTES {
            pending.dropped += 1;
        } else {
            pending.lines.extend_from_slice(line);
            self.changed.notify_one();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes queued log lines to the output, on its own thread.
#[derive(Debug)]
pub struct ProgramLogWriter {
    log: Arc<ProgramLog>,
    thread: ThreadId,
    /// Closed when the thread has ended.
    ended: Receiver<()>,
}

impl ProgramLogWriter {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// The system cannot start a thread.
    pub fn spawn(log: Arc<ProgramLog>, output: impl Write + Send + 'static) -> io::Result<Self> {
        let (running, ended) = bounded(0);
        let shared = Arc::clone(&log);
        let thread = thread::Builder::new()
            .name("program-log".to_owned())
            .spawn(move || write_all(&shared, output, running))?;
        let thread = thread.thread().id();
        Ok(Self { log, thread, ended })
    }

    /// The writer thread, the only one that may block on the output.
    #[must_use]
    pub fn thread(&self) -> ThreadId {
        self.thread
    }

    /// Writes what is left and ends the thread; gives up after `timeout`, since a blocked output
    /// must not keep the process alive. Returns whether all was written.
    fn stop(&self, timeout: Duration) -> bool {
        self.log.pending().stopping = true;
        self.log.changed.notify_one();
        self.ended.recv_timeout(timeout) == Err(RecvTimeoutError::Disconnected)
    }
}

impl Drop for ProgramLogWriter {
    /// Waits briefly for the last lines: if the main thread panicked, they say so.
    fn drop(&mut self) {
        // There is no other place to report the loss.
        let _ = self.stop(LOG_STOP_TIMEOUT);
    }
}

/// Writes until stopped. A failed write loses its lines, but does not end the thread: a full disk
/// may have space again.
fn write_all(log: &ProgramLog, mut output: impl Write, running: Sender<()>) {
    let mut empty = Vec::new();
    while let Some(PendingLines { mut lines, dropped }) = log.take(empty) {
        let taken = lines.len();
        if dropped > 0 {
            lines.extend_from_slice(loss(log.format, dropped).as_bytes());
        }
        let written = output.write_all(&lines).and_then(|()| output.flush());
        if written.is_err() {
            lines.truncate(taken);
            log.drop_lines(dropped + count(&lines));
        }
        lines.clear();
        lines.shrink_to(PROGRAM_LOG_KEPT_BYTES);
        empty = lines;
    }
    drop(running);
}

/// The line that states how many others were dropped, formatted like those of `tracing`. It
/// bypasses `tracing`, whose filter might suppress it and whose queue is full.
fn loss(format: LogFormat, lines: u64) -> String {
    let mut time = String::new();
    // Writing to memory cannot fail.
    let _ = SystemTime.format_time(&mut Writer::new(&mut time));
    match format {
        LogFormat::Text => format!("{time}  WARN {LOSS_TARGET}: {LINES_LOST} lines={lines}\n"),
        LogFormat::Json => format!(
            "{{\"timestamp\":\"{time}\",\"level\":\"WARN\",\"fields\":{{\"message\":\"{LINES_LOST}\",\
             \"lines\":{lines}}},\"target\":\"{LOSS_TARGET}\"}}\n"
        ),
    }
}

const LINES_LOST: &str = "lines of this log were dropped because stderr was blocked";
const LOSS_TARGET: &str = module_path!();

fn count(lines: &[u8]) -> u64 {
    lines.split_inclusive(|byte| *byte == b'\n').count() as u64
}

#[cfg(test)]
mod tests;
