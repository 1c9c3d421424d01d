//! Progress of a long build on stderr: on a terminal a line that is overwritten, in a log a line
//! each minute.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// One build of a known number of steps.
pub(crate) struct Progress {
    name: &'static str,
    all: usize,
    done: usize,
    began: Instant,
    last_printed: Instant,
    pause: Duration,
    terminal: bool,
}

impl Progress {
    pub(crate) fn new(name: &'static str, all: usize) -> Self {
        let terminal = io::stderr().is_terminal();
        let now = Instant::now();
        eprintln!("{name}: building {all} packages");
        Self {
            name,
            all,
            done: 0,
            began: now,
            last_printed: now,
            pause: Duration::from_secs(if terminal { 1 } else { 60 }),
            terminal,
        }
    }

    pub(crate) fn advance(&mut self) {
        self.done += 1;
        if self.last_printed.elapsed() < self.pause {
            return;
        }
        self.last_printed = Instant::now();
        let line = format!(
            "{}: {} of {} packages, {}",
            self.name,
            self.done,
            self.all,
            time_to_go(self.done, self.all, self.began.elapsed())
        );
        if self.terminal {
            eprint!("\r{line}\x1b[K");
            let _ = io::stderr().flush();
        } else {
            eprintln!("{line}");
        }
    }

    pub(crate) fn finish(&self) {
        let start = if self.terminal { "\r" } else { "" };
        let end = if self.terminal { "\x1b[K" } else { "" };
        eprintln!(
            "{start}{}: {} s{end}",
            self.name,
            self.began.elapsed().as_secs()
        );
    }
}

/// Estimated from the packages so far. Linking comes after the last one.
fn time_to_go(done: usize, all: usize, elapsed: Duration) -> String {
    let left = all.saturating_sub(done);
    if left == 0 {
        return "linking".to_owned();
    }
    #[expect(clippy::cast_precision_loss, reason = "some thousand packages")]
    let seconds = elapsed.as_secs_f64() / done.max(1) as f64 * left as f64;
    if seconds < 60.0 {
        "less than a minute to go".to_owned()
    } else {
        format!("about {:.0} min to go", seconds / 60.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remaining_time_is_estimated_from_the_pace_so_far() {
        let minute = Duration::from_mins(1);
        assert_eq!(time_to_go(100, 600, minute), "about 5 min to go");
        assert_eq!(time_to_go(500, 600, minute), "less than a minute to go");
        assert_eq!(time_to_go(600, 600, minute), "linking");
    }

    #[test]
    fn more_packages_than_counted_are_accepted() {
        assert_eq!(time_to_go(7, 5, Duration::from_mins(1)), "linking");
        assert_eq!(time_to_go(0, 5, Duration::ZERO), "less than a minute to go");
    }
}
