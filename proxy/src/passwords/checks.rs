//! The checks of passwords, as policies and requests use them.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use super::User;
use super::shared::{Check, Shared, Submitted, Verdict};
use super::threads::Threads;

/// The checks of passwords of a process, with their threads. These end with it.
#[derive(Debug)]
pub struct PasswordChecks {
    shared: Arc<Shared>,
    _threads: Threads,
}

impl PasswordChecks {
    /// Starts the threads. Without them, which is logged, nothing is ever verified.
    #[must_use]
    pub fn start() -> Self {
        let shared = Arc::new(Shared::new());
        Self {
            _threads: Threads::start(&shared),
            shared,
        }
    }

    /// Whether a pair is known to be right.
    #[must_use]
    pub fn is_verified(&self, user: &User, password: &[u8], now: Instant) -> bool {
        self.shared.uses(user.pairs(password), now)
    }

    /// Submits a pair, whose user is called `name` if it is nobody, for a client: it waits with others of this namespace
    /// and this address.
    #[must_use]
    pub fn submit(
        &self,
        user: &Arc<User>,
        (name, password): (&[u8], &[u8]),
        (namespace, address): (&str, IpAddr),
    ) -> Arc<Check> {
        let check = Arc::<Check>::default();
        let submitted = Submitted {
            pair: user.pair(name, password),
            user: Arc::clone(user),
            password: password.into(),
            owner: (namespace.into(), address),
            check: Arc::clone(&check),
        };
        if self.shared.inbox.push(submitted).is_err() {
            check.end(Verdict::Unchecked);
        }
        self.shared.sleepers.wake_one();
        check
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use xds::model::{BcryptCost, PasswordHash};

    use super::*;
    use crate::limits::{VERIFIED_PASSWORD_TTL, VERIFIED_PASSWORDS};
    use crate::passwords::PairKey;

    /// A user with the password `right`, beside one that nobody knows.
    fn user(name: &str) -> Arc<User> {
        let unknown = PasswordHash::Bcrypt {
            cost: BcryptCost::new(4).expect("in range"),
            salt: [7; 16],
            digest: [7; 23],
        };
        let digest = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, b"right");
        let right = PasswordHash::Sha1(digest.as_ref().try_into().expect("20 bytes"));
        Arc::new(User::new(name, &[unknown, right]))
    }

    fn waits(check: &Check) -> Verdict {
        let began = Instant::now();
        loop {
            if let Some(verdict) = check.verdict() {
                return verdict;
            }
            assert!(
                began.elapsed() < Duration::from_mins(1),
                "a thread checks it"
            );
            thread::yield_now();
        }
    }

    #[test]
    fn a_right_pair_is_known_from_then_on_to_everybody() {
        let checks = PasswordChecks::start();
        let (alice, now) = (user("alice"), Instant::now());
        assert!(!checks.is_verified(&alice, b"right", now));
        let client = ("shop", [192, 0, 2, 1].into());
        let check = |password: &[u8]| checks.submit(&alice, (b"alice", password), client);
        assert_eq!(waits(&check(b"wrong")), Verdict::Wrong);
        assert_eq!(waits(&check(b"right")), Verdict::Right);
        assert!(checks.is_verified(&alice, b"right", now));
        assert!(!checks.is_verified(&alice, b"wrong", now));
        assert!(!checks.is_verified(&user("bob"), b"right", now));
        assert_eq!(waits(&check(b"right")), Verdict::Right);
    }

    #[test]
    fn a_pair_is_forgotten_when_nobody_has_used_it_for_long() {
        let checks = PasswordChecks::start();
        let (alice, began) = (user("alice"), Instant::now());
        let check = checks.submit(
            &alice,
            (b"alice", b"right"),
            ("shop", [192, 0, 2, 1].into()),
        );
        assert_eq!(waits(&check), Verdict::Right);
        let ttl = VERIFIED_PASSWORD_TTL.as_secs();
        let after = |seconds| {
            let now = began + Duration::from_secs(seconds);
            checks.is_verified(&alice, b"right", now)
        };
        assert!(after(ttl - 10) && after(2 * ttl - 20));
        assert!(!after(3 * ttl));
    }

    #[test]
    fn the_pairs_used_longest_ago_make_room() {
        let checks = PasswordChecks::start();
        let (shared, began) = (&checks.shared, Instant::now());
        let pair = |number: usize| PairKey::of_text(&number.to_le_bytes());
        let (shop, other): (Arc<str>, Arc<str>) = ("shop".into(), "other".into());
        let publish = |number, second| {
            let tenant = if number == 0 { &other } else { &shop };
            shared.publish(pair(number), tenant, began + Duration::from_secs(second));
        };
        for number in 0..VERIFIED_PASSWORDS {
            publish(
                number,
                match number {
                    0 => 0,
                    5 => 1,
                    _ => 10,
                },
            );
        }
        let knows = |number| shared.verified.load().contains_key(&pair(number));
        assert!(knows(5));
        publish(VERIFIED_PASSWORDS, 10);
        assert!(!knows(5) && knows(VERIFIED_PASSWORDS) && knows(4));
        assert!(knows(0), "older, but of a tenant with fewer");
        assert_eq!(shared.verified.load().len(), VERIFIED_PASSWORDS);
    }
}
