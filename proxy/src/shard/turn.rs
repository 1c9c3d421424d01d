//! Yielding: lets other tasks run when a task's sockets never make it wait.
//!
//! epoll's driver completes operations from what the kernel has buffered, so such a task would run
//! forever. A task that wakes itself goes to the front of monoio's queue, and one woken by another
//! task keeps the queue from running empty, which timers wait for. So a yielding task waits for its
//! wake socket: the driver checks all sockets and the clock before that one. On io_uring every
//! operation waits like that, so that no yield is needed after one. A task without operations, as
//! with splice(2), [waits a turn](Turns::wait_for_next_turn) on either driver; one with more work than
//! fits into an iteration [waits for the next one](Turns::wake_next_turn).
//!
//! epoll's driver does not remember that a socket was drained: a read that comes too early fails, and is
//! repeated when there is something. So a read of what cannot have arrived is
//! [postponed](Turns::postpone) for an iteration, if enough others are.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use monoio::io::AsyncReadRent;

use crate::machine::driver::WaitMode;

/// The yielding tasks of a shard.
pub(crate) struct Turns {
    /// Written by the first waiter.
    wake_socket: UnixStream,
    waits: WaitMode,
    waiting: RefCell<Vec<Waker>>,
    turn: Cell<u64>,
    /// System calls saved by postponing reads, minus those spent on it; reads are postponed while
    /// it is positive.
    spared: Cell<u32>,
    /// Reads not postponed since the last one that was.
    at_once: Cell<u32>,
}

/// System calls of an iteration only for a postponed read: the wake socket is written and read, in vain
/// the second time, and the driver polls without waiting.
const TURN_COST: u32 = 4;
/// After this many reads that were not postponed, some are, to find out whether it pays by now.
const TRIAL_INTERVAL: u32 = 256;
/// Budget for measuring: four iterations, 2 % of the calls of as many reads and their sends.
const TRIAL_COST: u32 = 4 * TURN_COST;
/// Upper limit of the savings: a shard that is no longer busy notices within this many calls.
const MAX_SPARED: u32 = 256;

impl Turns {
    /// For a runtime that waits like this; with the other end of the wake socket, to pass to [`Self::answer`].
    ///
    /// # Errors
    ///
    /// No descriptors are left.
    pub(crate) fn new(waits: WaitMode) -> io::Result<(Rc<Self>, UnixStream)> {
        let (wake_socket, wake_receiver) = UnixStream::pair()?;
        wake_socket.set_nonblocking(true)?;
        wake_receiver.set_nonblocking(waits == WaitMode::ForReadiness)?;
        let turns = Self {
            wake_socket,
            waits,
            waiting: RefCell::default(),
            turn: Cell::new(0),
            spared: Cell::new(0),
            at_once: Cell::new(0),
        };
        Ok((Rc::new(turns), wake_receiver))
    }

    /// Wakes the waiters whenever the wake socket is written to.
    ///
    /// # Errors
    ///
    /// The runtime cannot adopt the socket.
    pub(crate) async fn run(self: Rc<Self>, wake_receiver: UnixStream) -> io::Result<()> {
        let mut wake_receiver = monoio::net::UnixStream::from_std(wake_receiver)?;
        let (mut bytes, mut going_on) = (vec![0_u8; 8], Vec::new());
        loop {
            let result;
            (result, bytes) = wake_receiver.read(bytes).await;
            if result? == 0 {
                return Ok(());
            }
            self.turn.set(self.turn.get().wrapping_add(1));
            std::mem::swap(&mut going_on, &mut self.waiting.borrow_mut());
            going_on.drain(..).for_each(Waker::wake);
        }
    }

    /// Yields to the shard's other tasks and timers, unless operations of the runtime do so anyway.
    pub(crate) async fn yield_turn(&self) {
        if self.waits == WaitMode::ForReadiness {
            self.wait_for_next_turn().await;
        }
    }

    /// Yields to the shard's other tasks and timers, on either driver.
    pub(crate) async fn wait_for_next_turn(&self) {
        let turn = self.turn.get();
        let mut waits = false;
        poll_fn(|context| {
            if self.turn.get() != turn {
                return Poll::Ready(());
            }
            if !std::mem::replace(&mut waits, true) {
                self.wake_next_turn(context);
            }
            Poll::Pending
        })
        .await;
    }

    /// Postpones a read of the response to bytes just sent, which cannot have arrived yet: to the
    /// next iteration, as long as that saves system calls. `read` is of what has arrived by then. `None`
    /// if it was not postponed, or has found nothing: it has to wait.
    pub(crate) async fn postpone<T>(&self, read: impl FnOnce() -> Option<T>) -> Option<T> {
        if !self.should_postpone() {
            return None;
        }
        self.wait_for_next_turn().await;
        let read = read();
        let spared = self.spared.get();
        self.spared.set(match &read {
            Some(_) => (spared + 1).min(MAX_SPARED),
            // The read that waits tries it once more.
            None => spared.saturating_sub(1),
        });
        read
    }

    fn should_postpone(&self) -> bool {
        if self.waits == WaitMode::ForCompletion {
            return false;
        }
        if self.spared.get() < TURN_COST {
            self.at_once.set(self.at_once.get() + 1);
            if self.at_once.get() < TRIAL_INTERVAL {
                return false;
            }
            self.at_once.set(0);
            self.spared.set(TRIAL_COST);
        }
        if self.waiting.borrow().is_empty() {
            self.spared.set(self.spared.get() - TURN_COST);
        }
        true
    }

    /// Wakes a task that is about to wait once the others have had their turn, on either driver.
    pub(crate) fn wake_next_turn(&self, context: &Context<'_>) {
        let mut waiting = self.waiting.borrow_mut();
        if waiting.is_empty() {
            // The wake socket is drained before it is written to again, so there is space for a byte.
            let _ = (&self.wake_socket).write(&[1]);
        }
        waiting.push(context.waker().clone());
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::Future;
    use std::io::Read;
    use std::pin::pin;
    use std::rc::Rc;
    use std::task::{Context, Waker};
    use std::time::Duration;

    use monoio::{LegacyDriver, RuntimeBuilder};

    use super::Turns;
    use crate::machine::driver::WaitMode;

    #[test]
    fn a_yielding_task_lets_timers_and_other_tasks_run() {
        let mut runtime = RuntimeBuilder::<LegacyDriver>::new()
            .enable_timer()
            .build()
            .expect("epoll");
        let (timers, tasks) = runtime.block_on(async {
            let (turns, wake_receiver) = Turns::new(WaitMode::ForReadiness).expect("descriptors");
            monoio::spawn(Rc::clone(&turns).run(wake_receiver));
            let (timers, tasks) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
            let counted = Rc::clone(&timers);
            monoio::spawn(async move {
                loop {
                    monoio::time::sleep(Duration::from_millis(1)).await;
                    counted.set(counted.get() + 1);
                }
            });
            let (counted, others) = (Rc::clone(&tasks), Rc::clone(&turns));
            monoio::spawn(async move {
                loop {
                    others.yield_turn().await;
                    counted.set(counted.get() + 1);
                }
            });
            // It ends only if the other tasks get their turn.
            while timers.get() < 3 || tasks.get() < 100 {
                turns.yield_turn().await;
            }
            (timers.get(), tasks.get())
        });
        assert!(timers >= 3 && tasks >= 100);
    }

    /// Number of turns that pass while this many tasks read this often. `is_there` tells whether
    /// the data has arrived when the turn is over.
    fn turns_of(tasks: usize, reads: usize, is_there: bool) -> u64 {
        let mut runtime = RuntimeBuilder::<LegacyDriver>::new()
            .build()
            .expect("epoll");
        runtime.block_on(async {
            let (turns, wake_receiver) = Turns::new(WaitMode::ForReadiness).expect("descriptors");
            monoio::spawn(Rc::clone(&turns).run(wake_receiver));
            let tasks: Vec<_> = (0..tasks)
                .map(|_| {
                    let turns = Rc::clone(&turns);
                    monoio::spawn(async move {
                        for _ in 0..reads {
                            let _ = turns.postpone(|| is_there.then_some(())).await;
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await;
            }
            turns.turn.get()
        })
    }

    #[test]
    fn reads_are_deferred_if_that_saves_system_calls() {
        let often = 2048;
        assert!(turns_of(16, often, true) > 1024);
        assert!(
            turns_of(16, often, false) < 1024,
            "data that arrives too late"
        );
        assert!(turns_of(1, often, true) < 128, "a turn for one read");
    }

    #[test]
    fn on_io_uring_only_tasks_without_operations_wait_for_a_turn() {
        let (turns, mut wake_receiver) = Turns::new(WaitMode::ForCompletion).expect("descriptors");
        let mut context = Context::from_waker(Waker::noop());
        let yielded = pin!(turns.yield_turn());
        assert!(yielded.poll(&mut context).is_ready());
        let waited = pin!(turns.wait_for_next_turn());
        assert!(waited.poll(&mut context).is_pending());
        wake_receiver.read_exact(&mut [0]).expect("a wake-up");
    }
}
