//! The threads that check passwords, and what waits for them.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "they are no shards: what they share with shards is in `checks`"
)]

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tracing::error;

use super::queue::{FairQueue, Room};
use super::shared::{Check, Shared, Submitted, Verdict};
use super::{PairKey, User};
use crate::limits::{
    BCRYPT_ROUND_NANOS, MEASURED_ROUNDS, PASSWORD_CHECKS_WAITING, PASSWORD_NICENESS,
    PASSWORD_THREADS, PASSWORD_WORK_WAITING,
};

/// The threads. They end with it.
#[derive(Debug)]
pub(super) struct Threads(Arc<Shared>);

impl Threads {
    pub(super) fn start(shared: &Arc<Shared>) -> Self {
        let waiting = Arc::new(Mutex::new(Waiting::default()));
        for (number, sleeper) in shared.sleepers.threads.iter().enumerate() {
            let (shared, waiting) = (Arc::clone(shared), Arc::clone(&waiting));
            let run = move || {
                lower_priority();
                check_all(&shared, &waiting, number);
            };
            let started = thread::Builder::new()
                .name(format!("passwords-{number}"))
                .spawn(run);
            match started {
                Ok(handle) => drop(sleeper.thread.set(handle.thread().clone())),
                Err(error) => error!(
                    %error,
                    "cannot start a thread that checks passwords: users who sign in get status 503 without any; \
                     raise the limit of threads"
                ),
            }
        }
        Self(Arc::clone(shared))
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.0.sleepers.is_ending.store(true, Ordering::Relaxed);
        for sleeper in &self.0.sleepers.threads {
            if let Some(thread) = sleeper.thread.get() {
                thread.unpark();
            }
        }
    }
}

fn lower_priority() {
    if let Err(error) = rustix::process::setpriority_process(None, PASSWORD_NICENESS) {
        tracing::debug!(%error, "the threads that check passwords have the priority of shards");
    }
}

/// Checks what is submitted until the end of the process.
fn check_all(shared: &Shared, waiting: &Mutex<Waiting>, number: usize) {
    let Some(sleeper) = shared.sleepers.threads.get(number) else {
        return;
    };
    while !shared.sleepers.is_ending() {
        let next = lock(waiting).next(shared, Instant::now());
        if let Some((job, others)) = next {
            if others == Others::Wait {
                // It may have seen an empty inbox, since this thread took what was in it.
                shared.sleepers.wake_one();
            }
            let began = Instant::now();
            let right = job.user.verify(&job.password);
            let took = began.elapsed();
            lock(waiting).end(shared, &job, right, took);
            continue;
        }
        sleeper.sleeps.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if shared.inbox.is_empty() && !shared.sleepers.is_ending() {
            thread::park();
        }
        sleeper.sleeps.store(false, Ordering::Relaxed);
    }
}

fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The checks that wait for a thread, or are being made.
#[derive(Debug)]
struct Waiting {
    queue: FairQueue<Job>,
    /// Who waits for each pair.
    requesters: HashMap<PairKey, Vec<Arc<Check>>>,
    pace: Pace,
}

/// Whether checks wait that no thread makes yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Others {
    None,
    Wait,
}

/// A check that is to be made.
struct Job {
    pair: PairKey,
    user: Arc<User>,
    password: Box<[u8]>,
    tenant: Arc<str>,
}

impl Default for Waiting {
    fn default() -> Self {
        Self {
            queue: FairQueue::default(),
            requesters: HashMap::new(),
            pace: Pace(BCRYPT_ROUND_NANOS),
        }
    }
}

impl Waiting {
    /// The next check, after what was submitted meanwhile has got its place, and whether others wait.
    fn next(&mut self, shared: &Shared, now: Instant) -> Option<(Job, Others)> {
        // No more than there were: shards go on.
        for _ in 0..shared.inbox.len() {
            if let Some(submitted) = shared.inbox.pop() {
                self.take(shared, submitted, now);
            }
        }
        loop {
            let job = self.queue.pop()?;
            if self.is_wanted(&job.pair) {
                let others = if self.queue.is_empty() {
                    Others::None
                } else {
                    Others::Wait
                };
                return Some((job, others));
            }
            self.requesters.remove(&job.pair);
        }
    }

    fn take(&mut self, shared: &Shared, submitted: Submitted, now: Instant) {
        let Submitted {
            pair,
            user,
            password,
            owner,
            check,
        } = submitted;
        if shared.uses(user.pairs(&password), now) {
            check.end(Verdict::Right);
            return;
        }
        if let Some(same) = self.requesters.get_mut(&pair) {
            same.push(check);
            return;
        }
        self.requesters.insert(pair, vec![check]);
        let work = user.rounds();
        let job = Job {
            pair,
            user,
            password,
            tenant: Arc::clone(&owner.0),
        };
        for job in self.queue.push(&owner, (work, job), self.pace.room()) {
            self.tell(&job.pair, Verdict::Unchecked);
        }
    }

    /// Whether somebody waits for a check: clients may have gone.
    fn is_wanted(&self, pair: &PairKey) -> bool {
        let mut requesters = self.requesters.get(pair).into_iter().flatten();
        requesters.any(|check| Arc::strong_count(check) > 1)
    }

    fn end(&mut self, shared: &Shared, job: &Job, right: Option<PairKey>, took: Duration) {
        self.pace.measure(job.user.rounds(), took);
        let verdict = match right {
            Some(pair) => {
                // Before anybody is told, so that the next request knows it.
                shared.publish(pair, &job.tenant, Instant::now());
                Verdict::Right
            }
            None => Verdict::Wrong,
        };
        self.tell(&job.pair, verdict);
    }

    fn tell(&mut self, pair: &PairKey, verdict: Verdict) {
        for check in self.requesters.remove(pair).into_iter().flatten() {
            check.end(verdict);
        }
    }
}

/// Nanoseconds of a round of bcrypt on this machine, at its present load.
#[derive(Debug)]
struct Pace(u64);

impl Pace {
    fn measure(&mut self, rounds: u64, took: Duration) {
        if rounds < MEASURED_ROUNDS {
            return;
        }
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let own = nanos.checked_div(rounds).unwrap_or_default();
        // A mean, in which the last eight count most.
        let rest = self.0.saturating_sub(self.0 / PACE_SHARE);
        self.0 = rest.saturating_add(own / PACE_SHARE);
    }

    /// What may wait.
    fn room(&self) -> Room {
        let nanos = u64::try_from(PASSWORD_WORK_WAITING.as_nanos()).unwrap_or(u64::MAX);
        let threads = u64::try_from(PASSWORD_THREADS).unwrap_or(u64::MAX);
        Room {
            work: { nanos.saturating_mul(threads) }
                .checked_div(self.0)
                .unwrap_or(u64::MAX),
            jobs: PASSWORD_CHECKS_WAITING,
        }
    }
}

/// How many measurements a mean is over.
const PACE_SHARE: u64 = 8;

/// Without the password.
impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use xds::model::{BcryptCost, PasswordHash};

    use super::*;
    use crate::limits::VERIFIED_PASSWORD_TTL;

    #[test]
    fn what_may_wait_takes_a_second_at_the_pace_that_was_measured() {
        let mut pace = Pace(BCRYPT_ROUND_NANOS);
        let of_cost_10 = |pace: &Pace| pace.room().work / 1024;
        assert_eq!(of_cost_10(&pace), 39);
        for _ in 0..100 {
            pace.measure(1024, Duration::from_millis(200));
        }
        assert!((9..=11).contains(&of_cost_10(&pace)), "{pace:?}");
        pace.measure(1, Duration::from_secs(1));
        assert!(
            (9..=11).contains(&of_cost_10(&pace)),
            "a check of SHA-1 says nothing"
        );
    }

    /// The checks of a user, without threads.
    struct Case {
        shared: Shared,
        waiting: Waiting,
        user: Arc<User>,
    }

    impl Case {
        fn new() -> Self {
            let hash = PasswordHash::Bcrypt {
                cost: BcryptCost::new(10).expect("in range"),
                salt: [1; 16],
                digest: [2; 23],
            };
            Self {
                shared: Shared::new(),
                waiting: Waiting::default(),
                user: Arc::new(User::new("alice", &[hash])),
            }
        }

        fn submit(&mut self, password: &str, address: u8) -> Arc<Check> {
            let check = Arc::<Check>::default();
            let submitted = Submitted {
                pair: self.user.pair(b"alice", password.as_bytes()),
                user: Arc::clone(&self.user),
                password: password.as_bytes().into(),
                owner: ("shop".into(), [192, 0, 2, address].into()),
                check: Arc::clone(&check),
            };
            assert!(self.shared.inbox.push(submitted).is_ok(), "there is room");
            check
        }

        fn next(&mut self) -> Option<Job> {
            self.next_at(Instant::now())
        }

        fn next_at(&mut self, now: Instant) -> Option<Job> {
            let next = self.waiting.next(&self.shared, now);
            next.map(|(job, _)| job)
        }

        /// Ends a check; that of `right` is right.
        fn end(&mut self, job: &Job) {
            let pair = self.user.pairs(&job.password).next();
            let right = pair.filter(|_| *job.password == *b"right");
            let took = Duration::from_millis(50);
            self.waiting.end(&self.shared, job, right, took);
        }
    }

    /// A browser opens several connections with the same password.
    #[test]
    fn equal_pairs_are_checked_once() {
        let mut case = Case::new();
        let both = [case.submit("right", 1), case.submit("right", 2)];
        let job = case.next().expect("a check");
        assert!(case.next().is_none(), "one for both");
        let third = case.submit("right", 3);
        assert!(case.next().is_none(), "it is being checked");
        case.end(&job);
        for check in both.iter().chain([&third]) {
            assert_eq!(check.verdict(), Some(Verdict::Right));
        }
        let late = case.submit("right", 1);
        assert!(case.next().is_none());
        assert_eq!(late.verdict(), Some(Verdict::Right), "it is known");
        assert!(case.waiting.requesters.is_empty());
    }

    /// It would be neither known nor forgotten, and its user would wait at each request.
    #[test]
    fn a_pair_that_was_not_used_for_long_is_checked_again() {
        let mut case = Case::new();
        let first = case.submit("right", 1);
        let job = case.next().expect("a check");
        case.end(&job);
        assert_eq!(first.verdict(), Some(Verdict::Right));
        let late = Instant::now() + VERIFIED_PASSWORD_TTL + Duration::from_secs(2);
        let again = case.submit("right", 1);
        let job = case.next_at(late).expect("another check");
        assert_eq!(again.verdict(), None);
        case.end(&job);
        assert_eq!(again.verdict(), Some(Verdict::Right));
    }

    #[test]
    fn a_thread_that_takes_a_check_knows_whether_others_wait() {
        let mut case = Case::new();
        let _both = [case.submit("a", 1), case.submit("b", 1)];
        for expected in [Others::Wait, Others::None] {
            let next = case.waiting.next(&case.shared, Instant::now());
            assert_eq!(next.map(|(_, others)| others), Some(expected));
        }
    }

    #[test]
    fn nothing_is_checked_for_clients_that_have_gone() {
        let mut case = Case::new();
        drop(case.submit("a", 1));
        let check = case.submit("b", 1);
        let job = case.next().expect("a check");
        assert_eq!(&*job.password, b"b");
        case.end(&job);
        assert_eq!(check.verdict(), Some(Verdict::Wrong));
        assert!(case.waiting.requesters.is_empty());
    }

    #[test]
    fn of_a_thousand_guesses_of_one_address_those_of_a_second_wait_and_a_newcomer_is_next() {
        let mut case = Case::new();
        let guesses: Vec<_> = (0..1000)
            .map(|it| case.submit(&it.to_string(), 1))
            .collect();
        let running = case.next().expect("a check");
        let refused = guesses.iter().filter(|it| it.verdict().is_some());
        assert_eq!(refused.count(), 1000 - 39);
        let newcomer = case.submit("right", 2);
        let mut turns = 0;
        while newcomer.verdict().is_none() {
            let job = case.next().expect("a check");
            case.end(&job);
            turns += 1;
        }
        assert!(turns <= 2, "{turns}");
        assert_eq!(newcomer.verdict(), Some(Verdict::Right));
        case.end(&running);
    }
}
