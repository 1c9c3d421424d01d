//! Sends what a connection and its streams have written: once per turn, one send in progress.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::session::Session;
use crate::net::Stream;
use crate::shard::deadline::Deadline;

/// The sending side of a connection's socket.
pub(crate) struct Outbox<'a> {
    stream: &'a Stream,
    deadline: &'a Deadline,
    /// Write timeout, with a minimum rate.
    timeout: Option<Duration>,
    operation: Option<Sending<'a>>,
    failed: Option<io::ErrorKind>,
}

type Sending<'a> = Pin<Box<dyn Future<Output = (io::Result<()>, Vec<u8>)> + 'a>>;

impl<'a> Outbox<'a> {
    pub(crate) fn new(
        stream: &'a Stream,
        deadline: &'a Deadline,
        timeout: Option<Duration>,
    ) -> Self {
        Self {
            stream,
            deadline,
            timeout,
            operation: None,
            failed: None,
        }
    }

    /// Polls until everything was sent.
    ///
    /// # Errors
    ///
    /// The peer accepts no more.
    pub(crate) fn poll_flush(
        &mut self,
        context: &mut Context<'_>,
        session: &Session,
    ) -> Poll<io::Result<()>> {
        loop {
            if let Some(kind) = self.failed {
                // Whoever waits for room in the output does not wait for a peer that takes nothing.
                drop(session.take_output());
                return Poll::Ready(Err(kind.into()));
            }
            if let Some(operation) = &mut self.operation {
                let (sent, bytes) = ready!(operation.as_mut().poll(context));
                self.operation = None;
                self.deadline.disarm();
                self.failed = sent.err().map(|error| error.kind());
                session.put_output(bytes);
                continue;
            }
            let Some(mut bytes) = session.take_output() else {
                return Poll::Ready(Ok(()));
            };
            self.deadline.arm_write(self.timeout, None);
            let stream = self.stream;
            self.operation = Some(Box::pin(async move {
                let sent = stream.write_vec(&mut bytes).await;
                (sent, bytes)
            }));
        }
    }
}
