//! Tasks of streams, reused for later streams: a stream's future has kilobytes, and spawning a task
//! copies it four times.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};

use super::{Opened, ServedStream};
use crate::memory::FreeList;
use crate::shard::fence::fenced_in;
use crate::shard::tasks::TaskEntry;

/// A stream to serve.
pub(super) struct Job {
    pub(super) place: TaskEntry,
    pub(super) served: ServedStream,
    pub(super) opened: Opened,
}

/// The idle stream tasks of a shard.
#[derive(Default)]
pub(crate) struct StreamTasks(FreeList<Rc<IdleSlot>>);

/// The slot in which an idle task waits for its next stream.
#[derive(Default)]
struct IdleSlot {
    job: RefCell<Option<Job>>,
    /// Wakes the idle task.
    waker: RefCell<Option<Waker>>,
    /// Whether the task should end.
    over: Cell<bool>,
}

impl StreamTasks {
    /// Serves a stream in an idle task, or in a new one.
    pub(super) fn serve(&self, job: Job) {
        if let Some(slot) = self.0.take() {
            slot.job.replace(Some(job));
            if let Some(waker) = slot.waker.take() {
                waker.wake();
            }
        } else {
            let slot = IdleSlot {
                job: RefCell::new(Some(job)),
                ..IdleSlot::default()
            };
            monoio::spawn(Rc::new(slot).work());
        }
    }

    /// Ends all but a few of the tasks not used since the last call. Returns how many.
    pub(crate) fn trim(&self) -> usize {
        self.0.trim(|slot| slot.end())
    }
}

impl Drop for StreamTasks {
    fn drop(&mut self) {
        while let Some(slot) = self.0.take() {
            slot.end();
        }
    }
}

impl IdleSlot {
    /// Ends the task waiting here and frees it at once: an idle task is held only by its waker,
    /// which it owns. A stale waker of an earlier stream finds the task ended.
    fn end(&self) {
        self.over.set(true);
        drop(self.waker.take());
    }

    async fn work(self: Rc<Self>) {
        while let Some(job) = self.next().await {
            let downstream = Rc::clone(&job.served.downstream);
            {
                let run = pin!(job.served.run(job.opened));
                fenced_in(job.place, run).await;
            }
            downstream.stream_tasks.0.put(Rc::clone(&self));
        }
    }

    async fn next(&self) -> Option<Job> {
        poll_fn(|context| {
            if self.job.borrow().is_none() && !self.over.get() {
                self.waker.replace(Some(context.waker().clone()));
                return Poll::Pending;
            }
            Poll::Ready(self.job.take())
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;
    use std::time::Duration;

    use monoio::{LegacyDriver, RuntimeBuilder};

    use super::{IdleSlot, StreamTasks};

    #[test]
    fn idle_stream_tasks_are_freed_by_trim_and_drop() {
        let mut runtime = RuntimeBuilder::<LegacyDriver>::new()
            .enable_timer()
            .build()
            .expect("epoll");
        runtime.block_on(async {
            let tasks = StreamTasks::default();
            let slots: Vec<_> = (0..3).map(|_| Rc::<IdleSlot>::default()).collect();
            let weak_slots: Vec<_> = slots.iter().map(Rc::downgrade).collect();
            for slot in slots {
                monoio::spawn(Rc::clone(&slot).work());
                tasks.0.put(slot);
            }
            let waits = |slot: Rc<IdleSlot>| slot.waker.borrow().is_some();
            while !weak_slots
                .iter()
                .all(|slot| slot.upgrade().is_some_and(waits))
            {
                monoio::time::sleep(Duration::from_millis(1)).await;
            }
            let alive = || {
                weak_slots
                    .iter()
                    .filter(|slot| slot.strong_count() > 0)
                    .count()
            };
            assert_eq!((tasks.trim(), alive()), (0, 3));
            let used = tasks.0.take().expect("one of them");
            tasks.0.put(used);
            assert_eq!((tasks.trim(), alive()), (2, 1), "they were unused");
            drop(tasks);
            assert_eq!(alive(), 0);
        });
    }
}
