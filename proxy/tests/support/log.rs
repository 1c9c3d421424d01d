//! What a process says, line by line, for a test to wait for.

use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Condvar, Mutex};

use super::PATIENCE;

/// The lines so far.
#[derive(Debug, Default)]
pub(super) struct Log {
    text: Mutex<String>,
    grown: Condvar,
}

impl Log {
    /// Follows a pipe to its end.
    pub(super) fn of(pipe: impl Read + Send + 'static) -> Arc<Self> {
        let log = Arc::new(Self::default());
        let copy = Arc::clone(&log);
        std::thread::spawn(move || copy.fill_from(BufReader::new(pipe)));
        log
    }

    /// What was said so far.
    pub(super) fn text(&self) -> String {
        self.text.lock().expect("no holder panics").clone()
    }

    /// Waits until the words are said; all of it up to there.
    #[track_caller]
    pub(super) fn waits_for(&self, words: &str) -> String {
        let guard = self.text.lock().expect("no holder panics");
        let (text, _) = self
            .grown
            .wait_timeout_while(guard, PATIENCE, |text| !text.contains(words))
            .expect("no holder panics");
        // A failure with the lock held would poison it for whoever prints the log.
        let log = text.clone();
        drop(text);
        assert!(log.contains(words), "the log never says `{words}`:\n{log}");
        log
    }

    fn fill_from(&self, lines: impl BufRead) {
        for line in lines.split(b'\n').map_while(Result::ok) {
            let mut text = self.text.lock().expect("no holder panics");
            text.push_str(&String::from_utf8_lossy(&line));
            text.push('\n');
            self.grown.notify_all();
        }
    }
}
