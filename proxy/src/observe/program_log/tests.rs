use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use crossbeam::channel::{Receiver, Sender, unbounded};

use super::{LINES_LOST, LOSS_TARGET, ProgramLog, ProgramLogWriter, loss};
use crate::limits::PROGRAM_LOG_BYTES;
use crate::observe::program_log::LogFormat;

const TIMEOUT: Duration = Duration::from_secs(30);

/// An output whose every write waits for a scripted result.
struct Output {
    answers: Receiver<io::Result<()>>,
    written: Sender<Vec<u8>>,
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A write is reported before its result is returned, so that a test knows the state of the
        // writer.
        let _ = self.written.send(bytes.to_vec());
        self.answers.recv().unwrap_or(Ok(()))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Fixture {
    log: Arc<ProgramLog>,
    /// Dropped before the writer, so that every further write succeeds.
    answers: Sender<io::Result<()>>,
    written: Receiver<Vec<u8>>,
    writer: ProgramLogWriter,
}

fn fixture() -> Fixture {
    let (answers, answers_in) = unbounded();
    let (written_out, written) = unbounded();
    let output = Output {
        answers: answers_in,
        written: written_out,
    };
    let log = Arc::new(ProgramLog::default());
    let writer = ProgramLogWriter::spawn(Arc::clone(&log), output).expect("a thread");
    Fixture {
        log,
        answers,
        written,
        writer,
    }
}

fn log(fixture: &Fixture, line: &[u8]) {
    (&*fixture.log).write_all(line).expect("it never fails");
}

/// Waits for the next write. Returns its text.
fn writes(fixture: &Fixture) -> String {
    let written = fixture.written.recv_timeout(TIMEOUT).expect("a write");
    String::from_utf8(written).expect("text")
}

/// Logs this many lines more than the queue holds.
fn floods(fixture: &Fixture, more: usize) {
    let line = [&[b'x'; 1023][..], b"\n"].concat();
    for _ in 0..LINES + more {
        log(fixture, &line);
    }
}

/// Lines of a flood that fit into the queue.
const LINES: usize = PROGRAM_LOG_BYTES / 1024;

/// The number in the last line.
fn reported(written: &str) -> usize {
    let line = written.lines().last().expect("a line");
    let (message, lines) = line.split_once(" lines=").expect("it reports");
    assert!(message.ends_with(LINES_LOST), "{line}");
    lines.parse().expect("a number")
}

#[test]
fn lines_are_written_in_order_and_flushed_on_stop() {
    let fixture = fixture();
    for line in ["one\n", "two\n", "three\n"] {
        log(&fixture, line.as_bytes());
    }
    drop(fixture.answers);
    assert!(fixture.writer.stop(TIMEOUT));
    let output: Vec<u8> = fixture.written.iter().flatten().collect();
    assert_eq!(output, b"one\ntwo\nthree\n");
}

#[test]
fn a_blocked_output_blocks_no_caller_and_its_queue_is_bounded() {
    let fixture = fixture();
    log(&fixture, b"first\n");
    assert_eq!(writes(&fixture), "first\n");
    floods(&fixture, 5);
    assert_eq!(fixture.log.pending().lines.len(), PROGRAM_LOG_BYTES);
    assert_eq!(fixture.log.pending().dropped, 5);
    assert!(!fixture.writer.stop(Duration::ZERO), "it is stuck");
}

#[test]
fn each_write_during_a_flood_reports_the_dropped_lines() {
    let fixture = fixture();
    log(&fixture, b"first\n");
    assert_eq!(writes(&fixture), "first\n");
    for dropped in [5, 1, 7] {
        // Each flood begins before the previous write ends, so there is never room for a line.
        floods(&fixture, dropped);
        fixture.answers.send(Ok(())).expect("it listens");
        let written = writes(&fixture);
        assert_eq!(reported(&written), dropped);
        assert_eq!(written.lines().count(), LINES + 1);
    }
    log(&fixture, b"last\n");
    fixture.answers.send(Ok(())).expect("it listens");
    assert_eq!(writes(&fixture), "last\n");
}

#[test]
fn a_failed_write_keeps_the_count_of_dropped_lines() {
    let fixture = fixture();
    let broken = || Err(io::Error::from(io::ErrorKind::BrokenPipe));
    log(&fixture, b"first\n");
    writes(&fixture);
    floods(&fixture, 5);
    fixture.answers.send(broken()).expect("it listens");
    assert_eq!(reported(&writes(&fixture)), 1 + 5);
    fixture.answers.send(broken()).expect("it listens");
    log(&fixture, b"found\n");
    let found = writes(&fixture);
    assert_eq!(
        (found.lines().next(), reported(&found)),
        (Some("found"), 1 + 5 + LINES)
    );
}

#[test]
fn the_line_about_dropped_lines_has_the_usual_format() {
    for format in [LogFormat::Text, LogFormat::Json] {
        let log = Arc::new(ProgramLog::default());
        let like = tracing_subscriber::fmt()
            .with_writer(Arc::clone(&log))
            .with_ansi(false);
        let warn = || tracing::warn!(target: LOSS_TARGET, lines = 7, "{LINES_LOST}");
        match format {
            LogFormat::Text => tracing::subscriber::with_default(like.finish(), warn),
            LogFormat::Json => tracing::subscriber::with_default(like.json().finish(), warn),
        }
        let like = String::from_utf8(log.pending().lines.clone()).expect("text");
        let without_time = |line: &str| line.replace(|c: char| c.is_ascii_digit(), "0");
        assert_eq!(without_time(&loss(format, 7)), without_time(&like));
        assert!(loss(format, 7).contains('7'));
    }
}

#[test]
fn dropping_the_writer_flushes_the_last_lines() {
    let fixture = fixture();
    log(&fixture, b"the last\n");
    drop(fixture.answers);
    drop(fixture.writer);
    assert_eq!(
        fixture.written.try_iter().flatten().collect::<Vec<_>>(),
        b"the last\n"
    );
}

#[test]
fn a_failing_output_drops_lines_and_does_not_end_the_thread() {
    let fixture = fixture();
    let broken = io::Error::from(io::ErrorKind::BrokenPipe);
    fixture.answers.send(Err(broken)).expect("it listens");
    log(&fixture, b"lost\nlost as well\n");
    fixture.written.recv_timeout(TIMEOUT).expect("it was tried");
    log(&fixture, b"found\n");
    let found = writes(&fixture);
    assert!(found.starts_with("found\n"), "{found}");
    assert_eq!(reported(&found), 2);
    drop(fixture.answers);
    assert!(fixture.writer.stop(TIMEOUT));
}
