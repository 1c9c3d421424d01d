//! Collects the output of an HTTP/2 connection into one send.
//!
//! The `h2` crate flushes after every larger frame. Here a flush only marks the data: the driver
//! task sends what all streams have written at the end of its iteration.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::memory::{Buffer, BufferPool};
use crate::net::Stream;
use crate::shard::deadline::Deadline;

/// Bytes to send. It holds memory only while there are any.
pub(super) struct Outbox<'a> {
    stream: &'a Stream,
    pool: &'a Rc<BufferPool>,
    deadline: &'a Deadline,
    /// Write timeout, with a minimum rate.
    timeout: Option<Duration>,
    waiting: Buffer,
    operation: Option<Sending<'a>>,
    failed: Option<io::ErrorKind>,
    /// Whether the sending direction was closed.
    ended: bool,
}

type Sending<'a> = Pin<Box<dyn Future<Output = (io::Result<()>, Buffer)> + 'a>>;

impl<'a> Outbox<'a> {
    pub(super) fn new(
        stream: &'a Stream,
        pool: &'a Rc<BufferPool>,
        deadline: &'a Deadline,
        timeout: Option<Duration>,
    ) -> Self {
        Self {
            stream,
            pool,
            deadline,
            timeout,
            waiting: Buffer::default(),
            operation: None,
            failed: None,
            ended: false,
        }
    }

    /// How many bytes can be [pushed](Self::push): none while a full send is queued and another is
    /// in progress.
    pub(super) fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.check()?;
        if self.waiting.room() == 0 {
            if !self.waiting.is_empty() && self.poll_send(context)?.is_pending() {
                // The queued bytes may be in the kernel now, which makes space.
                if !self.waiting.is_empty() {
                    return Poll::Pending;
                }
            }
            self.waiting = self.pool.take();
        }
        Poll::Ready(Ok(self.waiting.room()))
    }

    /// Adds bytes within the available space.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let pushed = self.waiting.append(bytes);
        debug_assert!(pushed, "there was room");
    }

    /// Polls until everything is sent.
    pub(super) fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            self.check()?;
            if let Some(operation) = &mut self.operation {
                let (sent, buffer) = ready!(operation.as_mut().poll(context));
                self.operation = None;
                self.deadline.disarm();
                self.failed = sent.err().map(|error| error.kind());
                self.pool.put(buffer);
            } else if self.waiting.is_empty() {
                return Poll::Ready(Ok(()));
            } else {
                self.deadline.arm_write(self.timeout, None);
                let (stream, mut buffer) = (self.stream, std::mem::take(&mut self.waiting));
                self.operation = Some(Box::pin(async move {
                    let all = 0..buffer.len();
                    let sent = stream.write(&mut buffer, all).await;
                    (sent, buffer)
                }));
            }
        }
    }

    /// Sends everything and closes the sending direction.
    pub(super) fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(context))?;
        if !std::mem::replace(&mut self.ended, true) {
            self.deadline.arm_write(self.timeout, None);
            let stream = self.stream;
            self.operation = Some(Box::pin(async move {
                stream.shutdown_write().await;
                (Ok(()), Buffer::default())
            }));
        }
        self.poll_send(context)
    }

    fn check(&self) -> io::Result<()> {
        self.failed.map_or(Ok(()), |kind| Err(kind.into()))
    }
}

impl Drop for Outbox<'_> {
    fn drop(&mut self) {
        self.pool.put(std::mem::take(&mut self.waiting));
    }
}
