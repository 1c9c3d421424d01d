//! Sessions of datagrams, against a list that does the same slowly.

use std::time::Duration;

use proxy::l4::sessions::{Bounds, Sessions, TableFull};
use proxy::shard::wheel::Tick;

const BOUNDS: Bounds = Bounds {
    max: 8,
    idle: Duration::from_mins(1),
    yields_after: Duration::from_secs(5),
};

/// The same, plainly: every session in the order of its last move.
#[derive(Default)]
struct Plain(Vec<Entry>);

#[derive(Clone, Copy)]
struct Entry {
    key: u8,
    value: usize,
    moved: Tick,
    answered: bool,
}

impl Plain {
    fn position(&self, key: u8) -> Option<usize> {
        self.0.iter().position(|entry| entry.key == key)
    }

    fn moves(&mut self, key: u8, now: Tick, answered: bool) -> Option<usize> {
        let mut entry = self.0.remove(self.position(key)?);
        entry.moved = now;
        entry.answered |= answered;
        self.0.push(entry);
        Some(entry.value)
    }

    fn make_room(&mut self, now: Tick) -> Result<Option<usize>, TableFull> {
        if self.0.len() < BOUNDS.max {
            return Ok(None);
        }
        let quiet = |entry: &Entry| entry.moved.after(BOUNDS.yields_after) <= now;
        let unanswered = self.0.iter().position(|entry| !entry.answered);
        let at = unanswered.or_else(|| self.0.iter().position(|e| e.answered && quiet(e)));
        Ok(Some(self.0.remove(at.ok_or(TableFull)?).value))
    }

    fn expire(&mut self, now: Tick) -> Vec<usize> {
        let idle = |entry: &mut Entry| entry.moved.after(BOUNDS.idle) <= now;
        self.0
            .extract_if(.., idle)
            .map(|entry| entry.value)
            .collect()
    }
}

/// Checks `data` as a list of calls: two bytes each, what to do after which time, and whose.
pub(crate) fn check(data: &[u8]) {
    let mut sessions = Sessions::new(BOUNDS);
    let mut plain = Plain::default();
    let mut seconds = 0;
    for (value, call) in data.chunks_exact(2).enumerate() {
        let (what, key) = (call[0] % 5, call[1] % 16);
        seconds += u64::from(call[0] / 5) % 32;
        let now = Tick::at(Duration::from_secs(seconds));
        match what {
            0 => assert_eq!(
                sessions.touch(&key, now).copied(),
                plain.moves(key, now, false)
            ),
            1 => assert_eq!(
                sessions.record_response(&key, now),
                plain.moves(key, now, true).is_some()
            ),
            2 => {
                let removed = plain.position(key).map(|at| plain.0.remove(at).value);
                assert_eq!(sessions.remove(&key), removed);
            }
            3 => {
                let mut ended: Vec<_> = std::iter::from_fn(|| sessions.expire(now)).collect();
                let mut expected = plain.expire(now);
                ended.sort_unstable();
                expected.sort_unstable();
                assert_eq!(ended, expected);
            }
            _ => {
                let room = sessions.make_room(now);
                assert_eq!(room, plain.make_room(now));
                if room.is_ok() {
                    sessions.insert(key, value, now);
                    plain.0.retain(|entry| entry.key != key);
                    plain.0.push(Entry {
                        key,
                        value,
                        moved: now,
                        answered: false,
                    });
                }
            }
        }
        assert_eq!(sessions.len(), plain.0.len());
        assert!(sessions.len() <= BOUNDS.max);
    }
    let mut rest: Vec<_> = sessions.drain().collect();
    rest.sort_unstable();
    let mut expected: Vec<_> = plain.0.iter().map(|entry| entry.value).collect();
    expected.sort_unstable();
    assert_eq!(rest, expected);
}
