use std::io::{self, Write};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossbeam::channel::{Receiver, Sender, unbounded};

use super::{LogQueue, LogSink, LogWriter};
use crate::limits::{LOG_CHUNK_BYTES, LOG_QUEUED_CHUNKS};

const TIMEOUT: Duration = Duration::from_secs(30);
const LINE: &[u8] = b"one line of the log\n";

/// An output whose writes have scripted results.
struct Output {
    answers: Receiver<io::Result<()>>,
    written: Sender<Vec<u8>>,
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Without further scripted results, writes succeed.
        self.answers.recv().unwrap_or(Ok(()))?;
        let _ = self.written.send(bytes.to_vec());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Fixture {
    queue: Arc<LogQueue>,
    shard: LogSink,
    writer: LogWriter,
    answers: Sender<io::Result<()>>,
    written: Receiver<Vec<u8>>,
}

fn fixture() -> Fixture {
    let (answers, answers_in) = unbounded();
    let (written_out, written) = unbounded();
    let queue = LogQueue::new();
    let output = Output {
        answers: answers_in,
        written: written_out,
    };
    let writer = LogWriter::spawn(Arc::clone(&queue), output).expect("a thread");
    Fixture {
        shard: LogSink::new(Arc::clone(&queue)),
        queue,
        writer,
        answers,
        written,
    }
}

fn append(shard: &mut LogSink, lines: usize) {
    for _ in 0..lines {
        shard.append(|out| out.extend_from_slice(LINE));
    }
}

#[test]
fn lines_are_written_complete_and_in_order() {
    let mut fixture = fixture();
    drop(fixture.answers);
    for number in 0..5_000 {
        fixture.shard.append(|out| {
            let _ = writeln!(out, "{number}");
        });
    }
    drop(fixture.shard);
    assert!(fixture.writer.stop(TIMEOUT));
    let lines = 5_000 - fixture.queue.dropped_lines();
    let text: Vec<u8> = fixture.written.iter().flatten().collect();
    let text = String::from_utf8(text).expect("digits");
    let numbers: Vec<u32> = text.lines().map(|n| n.parse().expect("a number")).collect();
    assert!(numbers.is_sorted());
    assert_eq!(numbers.len() as u64, lines);
}

#[test]
fn flushing_sends_a_partial_chunk() {
    let mut fixture = fixture();
    fixture.shard.flush();
    append(&mut fixture.shard, 1);
    fixture.answers.send(Ok(())).expect("the writer lives");
    fixture.shard.flush();
    assert_eq!(fixture.written.recv_timeout(TIMEOUT).as_deref(), Ok(LINE));
    drop(fixture.answers);
    assert!(fixture.writer.stop(TIMEOUT));
}

#[test]
fn a_stuck_writer_drops_lines_and_does_not_block() {
    let mut fixture = fixture();
    let chunks = LOG_QUEUED_CHUNKS + 50;
    for _ in 0..chunks {
        append(&mut fixture.shard, 1);
        fixture.shard.flush();
    }
    let queued_lines = LOG_QUEUED_CHUNKS as u64;
    assert_eq!(fixture.queue.dropped_lines(), chunks as u64 - queued_lines);
    assert!(
        !fixture.writer.stop(Duration::from_millis(1)),
        "it is stuck"
    );
    // The reader continues: queued chunks are written and reused.
    drop(fixture.answers);
    let lines: usize = fixture
        .written
        .iter()
        .map(|chunk| chunk.len() / LINE.len())
        .sum();
    assert_eq!(lines as u64, queued_lines);
}

#[test]
fn a_failed_write_drops_only_its_own_lines() {
    let mut fixture = fixture();
    for answer in [Ok(()), Err(io::ErrorKind::BrokenPipe.into()), Ok(())] {
        append(&mut fixture.shard, 2);
        fixture.shard.flush();
        fixture.answers.send(answer).expect("the writer lives");
    }
    drop(fixture.answers);
    assert!(fixture.writer.stop(TIMEOUT));
    assert_eq!(fixture.queue.dropped_lines(), 2);
    assert_eq!(fixture.written.iter().count(), 2);
}

#[test]
fn many_shards_share_one_writer() {
    let mut fixture = fixture();
    drop(fixture.answers);
    append(&mut fixture.shard, 1_000);
    drop(fixture.shard);
    thread::scope(|scope| {
        for _ in 0..4 {
            let mut shard = LogSink::new(Arc::clone(&fixture.queue));
            scope.spawn(move || append(&mut shard, 1_000));
        }
    });
    assert!(fixture.writer.stop(TIMEOUT));
    let written: usize = fixture.written.iter().map(|chunk| chunk.len()).sum();
    let lines = (written / LINE.len()) as u64;
    assert_eq!(lines + fixture.queue.dropped_lines(), 5_000);
}

#[test]
fn chunks_are_reused_without_growing() {
    let mut fixture = fixture();
    drop(fixture.answers);
    fixture
        .shard
        .append(|out| out.resize(4 * LOG_CHUNK_BYTES, b'x'));
    for _ in 0..10 * LOG_QUEUED_CHUNKS {
        append(&mut fixture.shard, 1);
        fixture.shard.flush();
    }
    assert!(fixture.writer.stop(TIMEOUT));
    let mut spare = 0;
    while let Some(chunk) = fixture.queue.spare.pop() {
        assert!(chunk.bytes.capacity() <= LOG_CHUNK_BYTES);
        spare += 1;
    }
    assert_eq!(spare, LOG_QUEUED_CHUNKS);
}
