//! A panic costs one connection: its task ends, its neighbours never notice.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use super::Shard;
use super::tasks::{Purpose, TaskEntry};
use crate::observe::panics;

/// Runs `task`, which is for this purpose; a panic in it ends it alone, and is counted.
pub(crate) fn fenced<F: Future<Output = ()>>(
    shard: &Rc<Shard>,
    purpose: Purpose,
    task: F,
) -> Fenced<F> {
    fenced_in(TaskEntry::new(shard, purpose), task)
}

/// As [`fenced`], of a task that has its place in the list.
pub(crate) fn fenced_in<F: Future<Output = ()>>(place: TaskEntry, task: F) -> Fenced<F> {
    Fenced { place, task }
}

pin_project_lite::pin_project! {
    /// A task behind a fence.
    pub(crate) struct Fenced<F> {
        place: TaskEntry,
        #[pin]
        task: F,
    }
}

impl<F: Future<Output = ()>> Future for Fenced<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        let _running = this.place.run();
        // What the task shares with others is made of cells, whose guards unwind with it.
        catch_unwind(AssertUnwindSafe(|| this.task.poll(context))).unwrap_or_else(|_| {
            panics::outlived();
            let shard = &this.place.shard;
            shard.counters.panics.add(1);
            tracing::error!(
                target: panics::TARGET,
                shard = shard.id,
                "a connection's task panicked and was ended; please report the message above"
            );
            Poll::Ready(())
        })
    }
}
