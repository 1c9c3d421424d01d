//! A write timeout for connections.

use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use crate::limits::WRITE_TIMEOUT;

/// A stream whose writes fail after [`WRITE_TIMEOUT`] without progress.
pub(super) struct WriteTimeout<T> {
    stream: T,
    /// Runs while a write is pending.
    timeout: Pin<Box<Sleep>>,
    is_waiting: bool,
}

impl<T: AsyncWrite + Unpin> WriteTimeout<T> {
    pub(super) fn new(stream: T) -> Self {
        Self {
            stream,
            timeout: Box::pin(sleep(WRITE_TIMEOUT)),
            is_waiting: false,
        }
    }

    /// Polls a write operation, and fails where it has been pending for too long.
    fn bounded<R>(
        &mut self,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut T>, &mut Context<'_>) -> Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        let written = write(Pin::new(&mut self.stream), context);
        if written.is_ready() {
            self.is_waiting = false;
            return written;
        }
        if !std::mem::replace(&mut self.is_waiting, true) {
            self.timeout.as_mut().reset(Instant::now() + WRITE_TIMEOUT);
        }
        ready!(self.timeout.as_mut().poll(context));
        Poll::Ready(Err(ErrorKind::TimedOut.into()))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for WriteTimeout<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.bounded(context, |stream, context| stream.poll_write(context, bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.bounded(context, AsyncWrite::poll_flush)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.bounded(context, AsyncWrite::poll_shutdown)
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::time::Instant;

    use super::WriteTimeout;
    use crate::limits::WRITE_TIMEOUT;

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build();
        runtime.expect("a runtime").block_on(test);
    }

    #[test]
    fn a_write_without_progress_times_out() {
        run(async {
            let (ours, _theirs) = tokio::io::duplex(16);
            let mut ours = WriteTimeout::new(ours);
            let started = Instant::now();
            let error = ours.write_all(&[0; 17]).await.expect_err("nothing reads");
            assert_eq!(error.kind(), ErrorKind::TimedOut);
            assert_eq!(started.elapsed(), WRITE_TIMEOUT);
        });
    }

    #[test]
    fn a_slow_reader_does_not_time_out() {
        run(async {
            let (ours, mut theirs) = tokio::io::duplex(16);
            let mut ours = WriteTimeout::new(ours);
            let reads = async {
                for _ in 0..10 {
                    tokio::time::sleep(WRITE_TIMEOUT / 2).await;
                    theirs.read_exact(&mut [0; 16]).await.expect("bytes");
                }
            };
            let (written, ()) = tokio::join!(async { ours.write_all(&[0; 160]).await }, reads);
            written.expect("something reads");
        });
    }
}
