//! What a process says, line by line, for a test to wait for.

use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use super::PATIENCE;

/// The lines so far.
#[derive(Debug, Default)]
pub(super) struct Log {
    said: Mutex<LogContents>,
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
    /// Has the reader do so from the next line on.
    pub(super) fn reader(&self, reader: Reader) {
        self.said().reader = reader;
    }

    /// Follows a pipe to its end.
    pub(super) fn of(pipe: impl Read + Send + 'static) -> Arc<Self> {
        let log = Arc::new(Self::default());
        let copy = Arc::clone(&log);
        std::thread::spawn(move || copy.fill_from(BufReader::new(pipe)));
        log
    }

    /// What was said so far.
    pub(super) fn text(&self) -> String {
        self.said().text.clone()
    }

    /// What a process that has ended has said: the last of it may still be in the pipe.
    pub(super) fn whole(&self) -> String {
        let waited = self
            .grown
            .wait_timeout_while(self.said(), PATIENCE, |said| !said.is_all);
        waited.expect("no holder panics").0.text.clone()
    }

    /// Waits until the words are said; all of it up to there.
    #[track_caller]
    pub(super) fn waits_for(&self, words: &str) -> String {
        let (said, _) = self
            .grown
            .wait_timeout_while(self.said(), PATIENCE, |said| !said.text.contains(words))
            .expect("no holder panics");
        // A failure with the lock held would poison it for whoever prints the log.
        let log = said.text.clone();
        drop(said);
        assert!(log.contains(words), "the log never says `{words}`:\n{log}");
        log
    }

    fn fill_from(&self, lines: impl BufRead) {
        for line in lines.split(b'\n').map_while(Result::ok) {
            let mut said = self.said();
            said.text.push_str(&String::from_utf8_lossy(&line));
            said.text.push('\n');
            self.grown.notify_all();
            if said.reader == Reader::Leaves {
                break;
            }
            let stalled = |said: &mut LogContents| said.reader == Reader::Stalls;
            drop(self.grown.wait_while(said, stalled));
        }
        self.said().is_all = true;
        self.grown.notify_all();
    }

    fn said(&self) -> MutexGuard<'_, LogContents> {
        self.said.lock().expect("no holder panics")
    }
}
