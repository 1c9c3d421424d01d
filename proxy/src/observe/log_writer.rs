//! Passes log lines from the shards to a file descriptor that may be slow, blocked or closed.
//!
//! A shard fills its own chunk and passes it, when full or on a tick, to a writer thread. Chunks
//! circulate: the steady state does not allocate. When the writer falls behind, there is no spare
//! chunk, and the lines of the shard's chunk are dropped and counted. A shard never waits.

#![expect(
    clippy::disallowed_methods,
    reason = "the writer has a thread of its own to park"
)]

use std::io::Write;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::Duration;

use crossbeam::channel::{Receiver, RecvTimeoutError, Sender, bounded};
use crossbeam::queue::ArrayQueue;

use crate::limits::{LOG_CHUNK_BYTES, LOG_LINE_ROOM_BYTES, LOG_QUEUED_CHUNKS};

/// A chunk of lines.
#[derive(Debug)]
struct Chunk {
    bytes: Vec<u8>,
    lines: u64,
}

impl Chunk {
    fn new() -> Self {
        Self {
            bytes: Vec::with_capacity(LOG_CHUNK_BYTES),
            lines: 0,
        }
    }

    fn clear(&mut self) {
        self.lines = 0;
        self.bytes.clear();
        // One long line must not hold memory permanently.
        self.bytes.shrink_to(LOG_CHUNK_BYTES);
    }
}

/// State shared by shards and writer.
#[derive(Debug)]
pub struct LogQueue {
    full: ArrayQueue<Chunk>,
    spare: ArrayQueue<Chunk>,
    dropped: AtomicU64,
    writer: OnceLock<Thread>,
    writer_sleeps: AtomicBool,
    stopping: AtomicBool,
}

impl LogQueue {
    /// A queue for all shards.
    #[must_use]
    pub fn new() -> Arc<Self> {
        let spare = ArrayQueue::new(LOG_QUEUED_CHUNKS);
        while spare.push(Chunk::new()).is_ok() {}
        Arc::new(Self {
            full: ArrayQueue::new(LOG_QUEUED_CHUNKS),
            spare,
            dropped: AtomicU64::new(0),
            writer: OnceLock::new(),
            writer_sleeps: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
        })
    }

    /// Lines dropped so far, because the writer fell behind or failed.
    #[must_use]
    pub fn dropped_lines(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    fn drop_lines(&self, lines: u64) {
        self.dropped.fetch_add(lines, Ordering::Relaxed);
    }

    fn wake_writer(&self) {
        // Pairs with the writer's fence: it sees the chunk, or we see that it sleeps.
        fence(Ordering::SeqCst);
        if self.writer_sleeps.swap(false, Ordering::Relaxed)
            && let Some(writer) = self.writer.get()
        {
            writer.unpark();
        }
    }
}

/// The log of one shard.
#[derive(Debug)]
pub struct LogSink {
    chunk: Chunk,
    queue: Arc<LogQueue>,
}

impl LogSink {
    /// A sink for one shard.
    #[must_use]
    pub fn new(queue: Arc<LogQueue>) -> Self {
        Self {
            chunk: Chunk::new(),
            queue,
        }
    }

    /// Appends the line that `write` writes.
    pub fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.chunk.bytes);
        self.chunk.lines += 1;
        if self.chunk.bytes.len() + LOG_LINE_ROOM_BYTES > LOG_CHUNK_BYTES {
            self.flush();
        }
    }

    /// Passes the current chunk on, so that no line waits for others. Call it on a tick.
    pub fn flush(&mut self) {
        if self.chunk.lines == 0 {
            return;
        }
        let Some(spare) = self.queue.spare.pop() else {
            self.queue.drop_lines(self.chunk.lines);
            self.chunk.clear();
            return;
        };
        let full = mem::replace(&mut self.chunk, spare);
        // There are as many chunks besides the shards' own as the queue has slots.
        if let Err(full) = self.queue.full.push(full) {
            self.queue.drop_lines(full.lines);
        }
        self.queue.wake_writer();
    }
}

impl Drop for LogSink {
    fn drop(&mut self) {
        self.flush();
    }
}

/// Writes the queued lines of all shards to the output, on its own thread.
#[derive(Debug)]
pub struct LogWriter {
    queue: Arc<LogQueue>,
    /// Closed when the thread has ended.
    ended: Receiver<()>,
}

impl LogWriter {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// The system cannot start a thread.
    pub fn spawn(
        queue: Arc<LogQueue>,
        output: impl Write + Send + 'static,
    ) -> std::io::Result<Self> {
        let (running, ended) = bounded(0);
        let shared = Arc::clone(&queue);
        let thread = thread::Builder::new()
            .name("access-log".to_owned())
            .spawn(move || write_all(&shared, output, running))?;
        // Set here and not by the thread, so that no wake-up can precede it.
        let _ = queue.writer.set(thread.thread().clone());
        Ok(Self { queue, ended })
    }

    /// Writes what is queued and ends the thread; gives up after `timeout`, since a blocked output
    /// must not keep the process alive. Returns whether all was written.
    #[must_use]
    pub fn stop(self, timeout: Duration) -> bool {
        self.queue.stopping.store(true, Ordering::Relaxed);
        self.queue.writer_sleeps.store(true, Ordering::Relaxed);
        self.queue.wake_writer();
        self.ended.recv_timeout(timeout) == Err(RecvTimeoutError::Disconnected)
    }
}

/// Writes chunks until stopped. A failed write loses its lines, but does not end the thread: a
/// reader that closed the pipe (EPIPE) may be replaced.
fn write_all(queue: &LogQueue, mut output: impl Write, running: Sender<()>) {
    loop {
        while let Some(mut chunk) = queue.full.pop() {
            let written = output.write_all(&chunk.bytes).and_then(|()| output.flush());
            if written.is_err() {
                queue.drop_lines(chunk.lines);
            }
            chunk.clear();
            // It came from the spare ones, so there is space.
            let _ = queue.spare.push(chunk);
        }
        if queue.stopping.load(Ordering::Relaxed) && queue.full.is_empty() {
            break;
        }
        queue.writer_sleeps.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if queue.full.is_empty() && !queue.stopping.load(Ordering::Relaxed) {
            thread::park();
        }
        queue.writer_sleeps.store(false, Ordering::Relaxed);
    }
    drop(running);
}

#[cfg(test)]
mod tests;
