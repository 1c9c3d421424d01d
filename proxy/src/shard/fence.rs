//! Isolates panics: one ends its task, and no other.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use super::Shard;
use super::tasks::{Purpose, TaskEntry};
use crate::observe::panics;

/// Runs `task` of this kind; a panic ends only this task, and is counted.
pub(crate) fn fenced<F: Future<Output = ()>>(
    shard: &Rc<Shard>,
    purpose: Purpose,
    task: F,
) -> Fenced<F> {
    fenced_in(TaskEntry::new(shard, purpose), task)
}

/// As [`fenced`], for a task that is registered already.
pub(crate) fn fenced_in<F: Future<Output = ()>>(place: TaskEntry, task: F) -> Fenced<F> {
    Fenced { place, task }
}

pin_project_lite::pin_project! {
    /// A task with panic isolation.
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
        // State shared with other tasks is made of cells, whose guards unwind with it.
        catch_unwind(AssertUnwindSafe(|| this.task.poll(context))).unwrap_or_else(|_| {
            panics::record_caught();
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
