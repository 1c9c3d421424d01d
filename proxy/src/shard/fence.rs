//! A panic costs one connection: its task ends, its neighbours never notice.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use super::Shard;

/// Runs `task`; a panic in it ends it alone, and is counted.
pub(crate) fn fenced<F: Future<Output = ()>>(shard: Rc<Shard>, task: F) -> Fenced<F> {
    Fenced { shard, task }
}

pin_project_lite::pin_project! {
    /// A task behind a fence.
    pub(crate) struct Fenced<F> {
        shard: Rc<Shard>,
        #[pin]
        task: F,
    }
}

impl<F: Future<Output = ()>> Future for Fenced<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        // What the task shares with others is made of cells, whose guards unwind with it.
        match catch_unwind(AssertUnwindSafe(|| this.task.poll(context))) {
            Ok(poll) => poll,
            Err(_) => {
                this.shard.counters.panics.add(1);
                tracing::error!(
                    shard = this.shard.id,
                    "a connection's task panicked and was ended; please report the message above"
                );
                Poll::Ready(())
            }
        }
    }
}
