//! Giving way: a task whose sockets never let it wait lets the others run, now and then.
//!
//! epoll's driver answers from what the kernel has buffered, so such a task would go on for ever. A
//! task that wakes itself goes to the front of monoio's queue, and one that another task wakes keeps
//! the queue from running empty, which is what timers wait for. So whoever gives way waits for a
//! socket that rings: the driver looks at all sockets and at the clock before it does. On io_uring
//! every operation is a wait like that, and nobody who has begun one has to give way. Whoever works
//! without operations, as splice(2) does, [waits a turn](Turns::wait_a_turn) on either driver; who
//! has more to begin than a turn should hold [comes back](Turns::come_back).
//!
//! epoll's driver also forgets that a socket was read to its end: a read that comes too early is
//! tried in vain, and once more when there is something. So a read of what cannot be there yet is
//! [put off](Turns::put_off) for a turn, where enough others are.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use monoio::io::AsyncReadRent;

use crate::machine::driver::Waits;

/// Who gives way on a shard.
pub(crate) struct Turns {
    /// Rung by the first who waits.
    bell: UnixStream,
    waits: Waits,
    waiting: RefCell<Vec<Waker>>,
    turn: Cell<u64>,
    /// System calls that putting reads off has spared, less those that it took; reads are put off
    /// while it pays for a turn.
    spared: Cell<u32>,
    /// Reads that were not put off since the last one that was.
    at_once: Cell<u32>,
}

/// System calls of a turn that nothing but a read that was put off asked for: the bell is rung and
/// read, in vain the second time, and the driver looks at the sockets without waiting.
const TURN_COST: u32 = 4;
/// After so many reads that were not put off, some are, to see whether that pays by now.
const TRY_EVERY: u32 = 256;
/// What seeing that may cost: four turns, which is 2 % of what so many reads and their sends take.
const TRY_COST: u32 = 4 * TURN_COST;
/// What was spared long ago does not count: a shard that is busy no longer notices within so many
/// calls.
const SPARED_AT_MOST: u32 = 256;

impl Turns {
    /// For a runtime that waits like this; with the bell's other end, which is to be
    /// [answered](Self::answer).
    ///
    /// # Errors
    /// No descriptors are left.
    pub(crate) fn new(waits: Waits) -> io::Result<(Rc<Self>, UnixStream)> {
        let (bell, ringing) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        ringing.set_nonblocking(waits == Waits::ForReadiness)?;
        let turns = Self {
            bell,
            waits,
            waiting: RefCell::default(),
            turn: Cell::new(0),
            spared: Cell::new(0),
            at_once: Cell::new(0),
        };
        Ok((Rc::new(turns), ringing))
    }

    /// Wakes those who wait whenever the bell rings.
    ///
    /// # Errors
    /// The runtime cannot take the socket.
    pub(crate) async fn answer(self: Rc<Self>, ringing: UnixStream) -> io::Result<()> {
        let mut ringing = monoio::net::UnixStream::from_std(ringing)?;
        let (mut rings, mut going_on) = (vec![0_u8; 8], Vec::new());
        loop {
            let result;
            (result, rings) = ringing.read(rings).await;
            if result? == 0 {
                return Ok(());
            }
            self.turn.set(self.turn.get().wrapping_add(1));
            std::mem::swap(&mut going_on, &mut self.waiting.borrow_mut());
            going_on.drain(..).for_each(Waker::wake);
        }
    }

    /// Lets the shard's other tasks run, and its timers, where an operation of the runtime would not
    /// do so anyway.
    pub(crate) async fn give_way(&self) {
        if self.waits == Waits::ForReadiness {
            self.wait_a_turn().await;
        }
    }

    /// Lets the shard's other tasks run, and its timers, on either driver.
    pub(crate) async fn wait_a_turn(&self) {
        let turn = self.turn.get();
        let mut waits = false;
        poll_fn(|context| {
            if self.turn.get() != turn {
                return Poll::Ready(());
            }
            if !std::mem::replace(&mut waits, true) {
                self.come_back(context);
            }
            Poll::Pending
        })
        .await;
    }

    /// Reads what is the answer to bytes sent a moment ago, and so cannot be there yet: in the next
    /// turn, as long as that spares more calls than the turns take.
    pub(crate) async fn put_off<T>(&self, mut read: Pin<&mut impl Future<Output = T>>) -> T {
        if !self.puts_off() {
            return read.await;
        }
        self.wait_a_turn().await;
        match poll_fn(|context| Poll::Ready(read.as_mut().poll(context))).await {
            Poll::Ready(read) => {
                self.spared.set((self.spared.get() + 1).min(SPARED_AT_MOST));
                read
            }
            Poll::Pending => read.await,
        }
    }

    fn puts_off(&self) -> bool {
        if self.waits == Waits::ForCompletion {
            return false;
        }
        if self.spared.get() < TURN_COST {
            self.at_once.set(self.at_once.get() + 1);
            if self.at_once.get() < TRY_EVERY {
                return false;
            }
            self.at_once.set(0);
            self.spared.set(TRY_COST);
        }
        if self.waiting.borrow().is_empty() {
            self.spared.set(self.spared.get() - TURN_COST);
        }
        true
    }

    /// Another one after whoever [comes back](Self::come_back) was woken.
    pub(crate) fn number(&self) -> u64 {
        self.turn.get()
    }

    /// Has a task that is about to wait woken once the others have had their turn, on either driver.
    pub(crate) fn come_back(&self, context: &Context<'_>) {
        let mut waiting = self.waiting.borrow_mut();
        if waiting.is_empty() {
            // It is read to its end before it rings again, so there is room for a byte.
            let _ = (&self.bell).write(&[1]);
        }
        waiting.push(context.waker().clone());
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::{Future, poll_fn};
    use std::io::Read;
    use std::mem;
    use std::pin::pin;
    use std::rc::Rc;
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    use monoio::{LegacyDriver, RuntimeBuilder};

    use super::Turns;
    use crate::machine::driver::Waits;

    #[test]
    fn who_gives_way_lets_timers_and_other_tasks_run() {
        let mut runtime = RuntimeBuilder::<LegacyDriver>::new()
            .enable_timer()
            .build()
            .expect("epoll");
        let (timers, tasks) = runtime.block_on(async {
            let (turns, ringing) = Turns::new(Waits::ForReadiness).expect("descriptors");
            monoio::spawn(Rc::clone(&turns).answer(ringing));
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
                    others.give_way().await;
                    counted.set(counted.get() + 1);
                }
            });
            // It ends because the others get their turn, or not at all.
            while timers.get() < 3 || tasks.get() < 100 {
                turns.give_way().await;
            }
            (timers.get(), tasks.get())
        });
        assert!(timers >= 3 && tasks >= 100);
    }

    /// The turns that pass while so many tasks read so often; whether what they read is there when
    /// they have waited for one.
    fn turns_of(tasks: usize, reads: usize, is_there: bool) -> u64 {
        let mut runtime = RuntimeBuilder::<LegacyDriver>::new()
            .build()
            .expect("epoll");
        runtime.block_on(async {
            let (turns, ringing) = Turns::new(Waits::ForReadiness).expect("descriptors");
            monoio::spawn(Rc::clone(&turns).answer(ringing));
            let tasks: Vec<_> = (0..tasks)
                .map(|_| {
                    let turns = Rc::clone(&turns);
                    monoio::spawn(async move {
                        for _ in 0..reads {
                            let mut is_there = is_there;
                            let read = pin!(poll_fn(|context| {
                                if mem::replace(&mut is_there, true) {
                                    return Poll::Ready(());
                                }
                                context.waker().wake_by_ref();
                                Poll::Pending
                            }));
                            turns.put_off(read).await;
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
    fn reads_are_put_off_where_that_spares_calls() {
        let often = 2048;
        assert!(turns_of(16, often, true) > 1024);
        assert!(turns_of(16, often, false) < 1024, "what comes too late");
        assert!(turns_of(1, often, true) < 128, "a turn for one read");
    }

    #[test]
    fn on_io_uring_only_those_without_operations_wait_a_turn() {
        let (turns, mut ringing) = Turns::new(Waits::ForCompletion).expect("descriptors");
        let mut context = Context::from_waker(Waker::noop());
        let given = pin!(turns.give_way());
        assert!(given.poll(&mut context).is_ready());
        let waited = pin!(turns.wait_a_turn());
        assert!(waited.poll(&mut context).is_pending());
        ringing.read_exact(&mut [0]).expect("the bell was rung");
    }
}
