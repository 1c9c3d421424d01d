//! What a process logs, line by line, for a test to wait for.

use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use super::TIMEOUT;

/// The lines so far.
#[derive(Debug, Default)]
pub(super) struct Log {
    contents: Mutex<LogContents>,
    grown: Condvar,
}

#[derive(Debug, Default)]
struct LogContents {
    text: String,
    reader: Reader,
    /// Whether nothing more will come.
    is_all: bool,
}

/// What the reader of the log does after the next line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Reader {
    #[default]
    Reads,
    /// Reads no more, and keeps the pipe.
    Stalls,
    Leaves,
}

impl Log {
    /// Changes what the reader does after the next line.
    pub(super) fn reader(&self, reader: Reader) {
        self.contents().reader = reader;
    }

    /// Follows a pipe to its end.
    pub(super) fn of(pipe: impl Read + Send + 'static) -> Arc<Self> {
        let log = Arc::new(Self::default());
        let copy = Arc::clone(&log);
        std::thread::spawn(move || copy.fill_from(BufReader::new(pipe)));
        log
    }

    /// What was logged so far.
    pub(super) fn text(&self) -> String {
        self.contents().text.clone()
    }

    /// The whole log of a process that has exited: its last lines may still be in the pipe.
    pub(super) fn whole(&self) -> String {
        let waited = self
            .grown
            .wait_timeout_while(self.contents(), TIMEOUT, |contents| !contents.is_all);
        waited.expect("no holder panics").0.text.clone()
    }

    /// Waits until the log contains the text. Returns the log up to then.
    #[track_caller]
    pub(super) fn waits_for(&self, text: &str) -> String {
        let (contents, _) = self
            .grown
            .wait_timeout_while(self.contents(), TIMEOUT, |contents| {
                !contents.text.contains(text)
            })
            .expect("no holder panics");
        // A failure with the lock held would poison it for the code that prints the log.
        let log = contents.text.clone();
        drop(contents);
        assert!(
            log.contains(text),
            "the log never contains `{text}`:\n{log}"
        );
        log
    }

    fn fill_from(&self, lines: impl BufRead) {
        for line in lines.split(b'\n').map_while(Result::ok) {
            let mut contents = self.contents();
            contents.text.push_str(&String::from_utf8_lossy(&line));
            contents.text.push('\n');
            self.grown.notify_all();
            if contents.reader == Reader::Leaves {
                break;
            }
            let stalled = |contents: &mut LogContents| contents.reader == Reader::Stalls;
            drop(self.grown.wait_while(contents, stalled));
        }
        self.contents().is_all = true;
        self.grown.notify_all();
    }

    fn contents(&self) -> MutexGuard<'_, LogContents> {
        self.contents.lock().expect("no holder panics")
    }
}
