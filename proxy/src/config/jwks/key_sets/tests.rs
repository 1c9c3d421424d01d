use std::sync::Arc;
use std::time::{Duration, Instant};

use http::StatusCode;
use xds::model::JwksLocation;

use super::{KeySets, SetId};
use crate::config::compile::RemoteKeys;
use crate::config::jwks::fetch::{FetchError, Fetched};
use crate::limits::{JWKS_FETCHES, JWKS_TTL_MAX};
use crate::policy::jwt::{KeySource, Reply};

const EMPTY: &str = r#"{"keys":[]}"#;
const OTHER: &str = r#"{"keys":[ ]}"#;

fn remote(url: &str, cache: Option<u64>) -> RemoteKeys {
    RemoteKeys {
        location: JwksLocation::Url(url.to_owned()),
        cache: cache.map(Duration::from_secs),
        source: Arc::new(KeySource::pending(None)),
        owners: vec!["tenant".into()],
    }
}

fn fetched(body: &str, max_age: Option<u64>) -> Fetched {
    Fetched {
        body: body.as_bytes().to_vec(),
        max_age: max_age.map(Duration::from_secs),
    }
}

/// One key set, and its time.
struct Fixture {
    sets: KeySets,
    remote: RemoteKeys,
    begin: Instant,
    id: SetId,
}

impl Fixture {
    /// It is being fetched.
    fn fetching(cache: Option<u64>) -> Self {
        let (mut sets, remote, begin) = (KeySets::default(), remote("u", cache), Instant::now());
        sets.set_desired(std::slice::from_ref(&remote), begin);
        assert!(!sets.settled());
        let due = sets.take_due(begin);
        let [(id, _)] = due.as_slice() else {
            panic!("one is due: {due:?}");
        };
        Self {
            id: *id,
            sets,
            remote,
            begin,
        }
    }

    fn at(&self, seconds: u64) -> Instant {
        self.begin + Duration::from_secs(seconds)
    }

    /// Records a response at a second of monotonic and of Unix time.
    fn take(&mut self, seconds: u64, fetched: Fetched) {
        let (now, unix) = (self.at(seconds), seconds.cast_signed());
        self.sets.take(self.id, Ok(fetched), now, unix);
    }

    fn fail(&mut self, seconds: u64) {
        let error = FetchError::Status(StatusCode::NOT_FOUND);
        self.sets
            .take(self.id, Err(error), self.at(seconds), seconds.cast_signed());
    }

    /// The second at which it is due.
    fn due(&self) -> Option<u64> {
        let due = self.sets.next_due()?;
        Some(due.duration_since(self.begin).as_secs())
    }

    fn version(&self, unix_time: i64) -> Option<u64> {
        self.remote.source.version(unix_time)
    }
}

#[test]
fn a_key_set_is_refetched_when_its_lifetime_ends() {
    for (cache, max_age, expected) in [
        (None, None, 300),
        (None, Some(600), 600),
        (None, Some(0), 60),
        (None, Some(1_000_000), 86_400),
        (Some(120), Some(600), 120),
        (Some(1), None, 60),
        (Some(1_000_000), None, 86_400),
    ] {
        let mut one = Fixture::fetching(cache);
        assert_eq!(one.due(), None, "one fetch at a time");
        assert!(one.sets.take_due(one.at(9)).is_empty());
        one.take(0, fetched(EMPTY, max_age));
        assert!(one.sets.settled());
        assert_eq!(one.due(), Some(expected));
        assert!(one.sets.take_due(one.at(expected - 1)).is_empty());
        assert_eq!(one.sets.take_due(one.at(expected)).len(), 1);
    }
}

#[test]
fn a_failed_fetch_keeps_the_keys_for_a_day_and_backs_off() {
    let mut one = Fixture::fetching(None);
    assert_eq!(one.version(0), None);
    one.take(0, fetched(EMPTY, None));
    let version = one.version(0);
    assert!(version.is_some());
    let mut now = 300;
    for wait in [1, 2, 4, 8, 16, 32, 60, 60] {
        one.sets.take_due(one.at(now));
        one.fail(now);
        assert_eq!(one.due(), Some(now + wait));
        now += wait;
    }
    assert_eq!(one.version(86_399), version);
    assert_eq!(one.version(86_400), None);
    one.sets.take_due(one.at(now));
    one.take(now, fetched(EMPTY, None));
    assert_eq!(one.version(86_400), version, "the same text is no change");
    assert_eq!(one.due(), Some(now + 300));
}

#[test]
fn an_invalid_key_set_counts_as_a_failure() {
    let mut one = Fixture::fetching(None);
    one.take(0, fetched("<html>", None));
    assert!(one.sets.settled());
    assert_eq!((one.version(0), one.due()), (None, Some(1)));
    one.sets.take_due(one.at(1));
    one.take(1, fetched(EMPTY, None));
    let version = one.version(1);
    one.sets.take_due(one.at(301));
    one.take(301, fetched("<html>", None));
    assert_eq!(one.version(301), version);
}

#[test]
fn a_changed_key_set_gets_a_new_version() {
    let mut one = Fixture::fetching(None);
    one.take(0, fetched(EMPTY, None));
    let before = one.version(0);
    one.sets.take_due(one.at(300));
    one.take(300, fetched(OTHER, None));
    assert_ne!(one.version(300), before);
}

/// Another text each time.
fn changed(number: u64) -> Fetched {
    let spaces = " ".repeat(usize::try_from(number).expect("a few"));
    fetched(&format!("{{\"keys\":[{spaces}]}}"), None)
}

#[test]
fn key_requests_cause_at_most_one_fetch_per_second() {
    let mut one = Fixture::fetching(None);
    one.take(0, changed(0));
    for second in 10_u64..40 {
        let request = one.remote.source.request_keys(second.cast_signed());
        assert!(request.is_some(), "at {second}");
        assert_eq!(one.sets.take_due(one.at(second)).len(), 1, "{second}");
        // The first fetches return other keys, later ones the same.
        one.take(second, changed(second.min(12)));
        one.remote.source.request_keys(second.cast_signed());
        assert_eq!(one.due(), Some(second + 1), "not immediately again");
        assert!(one.sets.take_due(one.at(second)).is_empty());
    }
}

#[test]
fn a_key_request_is_answered_only_by_a_fetch_started_after_it() {
    let mut one = Fixture::fetching(None);
    let source = Arc::clone(&one.remote.source);
    let during = source.request_keys(0).expect("soon");
    one.take(0, changed(0));
    assert_eq!(source.reply(during), Reply::Pending);
    assert_eq!(
        one.due(),
        Some(300),
        "a request that still misses a key triggers another fetch"
    );
    let after = source.request_keys(0).expect("soon");
    one.sets.take_due(one.at(1));
    assert_eq!(source.reply(after), Reply::Pending);
    one.fail(1);
    assert_eq!(
        (source.reply(during), source.reply(after)),
        (Reply::Failed, Reply::Failed)
    );
    one.sets.take_due(one.at(2));
    let last = source.request_keys(2).expect("soon");
    one.take(2, changed(0));
    assert_eq!(
        (source.reply(after), source.reply(last)),
        (Reply::Fetched, Reply::Pending)
    );
    one.sets.take_due(one.at(3));
    one.take(3, changed(0));
    assert_eq!(source.reply(last), Reply::Fetched);
}

#[test]
fn requests_do_not_wait_for_an_issuer_that_is_down() {
    let mut one = Fixture::fetching(None);
    one.take(0, changed(0));
    let source = Arc::clone(&one.remote.source);
    one.sets.take_due(one.at(300));
    for (second, worthwhile) in [(300, true), (301, true), (303, false)] {
        one.fail(second);
        assert_eq!(
            source.request_keys(second.cast_signed()).is_some(),
            worthwhile,
            "{second}"
        );
        one.sets.take_due(one.at(second + 20));
    }
    assert!(source.is_failing());
}

#[test]
fn a_key_request_does_not_wait_for_the_backoff_of_a_failed_fetch() {
    let mut one = Fixture::fetching(None);
    one.fail(0);
    one.remote.source.request_keys(0);
    assert_eq!(one.due(), Some(1));
}

#[test]
fn removed_key_sets_are_dropped_and_others_continue() {
    let begin = Instant::now();
    let (first, second) = (remote("first", None), remote("second", None));
    let mut sets = KeySets::default();
    sets.set_desired(&[first.clone(), second.clone()], begin);
    let due = sets.take_due(begin);
    assert_eq!(due.len(), 2);
    sets.set_desired(std::slice::from_ref(&second), begin);
    assert!(
        sets.take_due(begin).is_empty(),
        "the other one is being fetched"
    );
    for (id, _) in due {
        sets.take(id, Ok(fetched(EMPTY, None)), begin, 0);
    }
    assert_eq!(first.source.version(0), None);
    assert!(second.source.version(0).is_some());
}

#[test]
fn key_sets_without_current_keys_are_listed_with_the_time_since_when() {
    let begin = Instant::now();
    let (hanging, other) = (remote("hanging", None), remote("other", None));
    let mut sets = KeySets::default();
    sets.set_desired(&[hanging, other], begin);
    assert!(!sets.settled());
    let due = sets.take_due(begin);
    let fetched_at = begin + Duration::from_secs(1);
    sets.take(due[1].0, Ok(fetched(EMPTY, None)), fetched_at, 0);
    let missing = sets.missing();
    assert_eq!(missing.len(), 1, "the other one was fetched");
    assert_eq!((missing[0].since, missing[0].was_fetched), (begin, false));
    assert_eq!(missing[0].error, None, "the first fetch is in progress");
    sets.take(due[0].0, Err(FetchError::Late), fetched_at, 0);
    assert!(sets.settled());
    assert!(sets.missing()[0].error.is_some());
    assert_eq!((missing[0].failures, sets.missing()[0].failures), (0, 1));

    let again = fetched_at + JWKS_TTL_MAX;
    let due = sets.take_due(again);
    for (id, _) in &due {
        sets.take(*id, Err(FetchError::Late), again, 0);
    }
    let of_other = &sets.missing()[1];
    assert_eq!((of_other.since, of_other.was_fetched), (fetched_at, true));
}

#[test]
fn key_sets_that_hang_leave_places_for_those_of_other_namespaces() {
    let begin = Instant::now();
    let hanging = (0..JWKS_FETCHES * 2).map(|number| remote(&format!("hanging-{number}"), None));
    let mut wanted: Vec<_> = hanging.collect();
    let mut sets = KeySets::default();
    sets.set_desired(&wanted, begin);
    let hanging = sets.take_due(begin);
    assert_eq!(hanging.len(), JWKS_FETCHES / 2);
    assert_eq!(sets.next_due(), None, "nothing is due that may be fetched");

    let mut good = remote("good", None);
    good.owners = vec!["other".into()];
    wanted.push(good);
    let later = begin + Duration::from_secs(1);
    sets.set_desired(&wanted, later);
    let due = sets.take_due(later);
    let [(id, JwksLocation::Url(url))] = due.as_slice() else {
        panic!("one is fetched: {due:?}");
    };
    assert_eq!(url, "good");
    sets.take(*id, Ok(fetched(EMPTY, None)), later, 0);

    // Also if the configuration no longer has the one that hung.
    sets.set_desired(&wanted[1..], later);
    sets.take(hanging[0].0, Err(FetchError::Late), later, 0);
    assert_eq!(sets.next_due(), Some(begin), "there is a place again");
    assert_eq!(sets.take_due(later).len(), 1);
}

#[test]
fn a_key_set_that_several_namespaces_use_takes_a_place_of_any_of_them() {
    let begin = Instant::now();
    let mut wanted: Vec<_> = (0..JWKS_FETCHES)
        .map(|number| remote(&format!("hanging-{number}"), None))
        .collect();
    let mut sets = KeySets::default();
    sets.set_desired(&wanted, begin);
    sets.take_due(begin);
    let shared = wanted.last_mut().expect("there are many");
    shared.owners.push("other".into());
    sets.set_desired(&wanted, begin);
    assert_eq!(sets.take_due(begin).len(), 1);
}
