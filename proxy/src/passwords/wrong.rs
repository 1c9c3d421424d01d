//! The pairs that a shard has found to be wrong: who repeats one gets its refusal without a check.

use std::fmt;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::{PairKey, User};
use crate::limits::{
    WRONG_PASSWORD_SETS, WRONG_PASSWORD_TTL, WRONG_PASSWORD_TTL_MAX, WRONG_PASSWORD_WAYS,
};

/// Wrong pairs, each of one client address: the password that is wrong today may be right tomorrow, and others are not
/// concerned.
#[derive(Default)]
pub struct WrongPasswords {
    /// Allocated with the first.
    slots: Vec<Option<Entry>>,
}

#[derive(Clone, Copy)]
struct Entry {
    pair: PairKey,
    until: Instant,
    /// How long it was refused without a check at last.
    span: Duration,
}

impl WrongPasswords {
    /// What identifies a pair of a client, whose user is called `name` if it is nobody.
    #[must_use]
    pub fn pair(user: &User, name: &[u8], password: &[u8], address: IpAddr) -> PairKey {
        let address = match address {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        PairKey::of(&user.pair(name, password), &address.octets(), b"")
    }

    /// Whether a pair is refused without a check.
    #[must_use]
    pub fn has(&self, pair: &PairKey, now: Instant) -> bool {
        let set = self.slots.iter().skip(first_slot(pair));
        let mut set = set.take(WRONG_PASSWORD_WAYS).flatten();
        set.any(|entry| entry.pair == *pair && now < entry.until)
    }

    /// Records that a pair is wrong: for a second, and each further time for twice as long.
    pub fn record(&mut self, pair: PairKey, now: Instant) {
        if self.slots.is_empty() {
            let slots = WRONG_PASSWORD_SETS.saturating_mul(WRONG_PASSWORD_WAYS);
            self.slots.resize(slots, None);
        }
        let set = self.slots.iter_mut().skip(first_slot(&pair));
        let slot = set.take(WRONG_PASSWORD_WAYS).min_by_key(|slot| match slot {
            Some(old) if old.pair == pair => (0, None),
            None => (1, None),
            Some(old) => (2, Some(old.until)),
        });
        let Some(slot) = slot else {
            return;
        };
        let span = match slot {
            Some(old) if old.pair == pair => old.span.saturating_mul(2).min(WRONG_PASSWORD_TTL_MAX),
            _ => WRONG_PASSWORD_TTL,
        };
        *slot = Some(Entry {
            pair,
            until: now.checked_add(span).unwrap_or(now),
            span,
        });
    }
}

/// The first slot of the set of a pair.
fn first_slot(pair: &PairKey) -> usize {
    let [first, second, ..] = pair.bytes();
    let set = usize::from(u16::from_le_bytes([first, second])).checked_rem(WRONG_PASSWORD_SETS);
    set.unwrap_or_default().saturating_mul(WRONG_PASSWORD_WAYS)
}

impl fmt::Debug for WrongPasswords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WrongPasswords")
    }
}

#[cfg(test)]
mod tests {
    use xds::model::PasswordHash;

    use super::*;

    #[test]
    fn who_repeats_a_wrong_password_is_refused_for_longer_each_time() {
        let mut wrong = WrongPasswords::default();
        let user = User::new("alice", &[PasswordHash::Sha1([1; 20])]);
        let pair = |password: &[u8], last: u8| {
            WrongPasswords::pair(&user, b"alice", password, [192, 0, 2, last].into())
        };
        let (own, mut now) = (pair(b"a", 1), Instant::now());
        for seconds in [1, 2, 4, 8, 16, 30, 30] {
            assert!(!wrong.has(&own, now), "{seconds}");
            wrong.record(own, now);
            let last = now + Duration::from_millis(seconds * 1000 - 1);
            assert!(wrong.has(&own, last), "{seconds}");
            now += Duration::from_secs(seconds);
        }
        wrong.record(own, now);
        // Neither another password nor another client.
        assert!(!wrong.has(&pair(b"b", 1), now) && !wrong.has(&pair(b"a", 2), now));
    }

    #[test]
    fn a_flood_of_wrong_passwords_is_forgotten_without_growing() {
        let (mut wrong, began) = (WrongPasswords::default(), Instant::now());
        let key = |number: u32| PairKey::of_text(&number.to_le_bytes());
        for number in 0..10_000 {
            wrong.record(key(number), began + Duration::from_secs(number.into()));
        }
        assert_eq!(wrong.slots.len(), WRONG_PASSWORD_SETS * WRONG_PASSWORD_WAYS);
        assert!(wrong.has(&key(9_999), began + Duration::from_secs(9_999)));
    }
}
