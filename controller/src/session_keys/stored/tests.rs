use std::time::Duration;

use jiff::Timestamp;
use xds::model::SessionKey;

use super::{Inputs, InvalidKeys, KEY_LIFETIME, KeySource, Step, StoredKeys};

const HOUR: Duration = Duration::from_hours(1);

fn key(byte: u8) -> SessionKey {
    SessionKey::new(&[byte; 32]).expect("a key")
}

fn start() -> Timestamp {
    "2026-11-30T12:00:00Z".parse().expect("a time")
}

fn after(time: Duration) -> Timestamp {
    start() + time
}

/// Nothing is due.
fn inputs(source: &KeySource, now: Timestamp) -> Inputs<'_> {
    Inputs {
        source,
        is_asked_for: false,
        is_applied: false,
        token_lifetime: HOUR,
        now,
    }
}

/// The next step, where chance gives this key.
fn next(keys: &StoredKeys, inputs: &Inputs<'_>, random: u8) -> Option<(StoredKeys, Step)> {
    keys.next(inputs, || Some(key(random)))
}

#[track_caller]
fn assert_keys(keys: &StoredKeys, accepted: &[u8], signing: u8) {
    let keys = keys.for_proxies().expect("they are valid");
    let first_bytes: Vec<u8> = keys.accepted().iter().map(|it| it.secret()[0]).collect();
    assert_eq!(first_bytes, accepted);
    assert_eq!(first_bytes[keys.signing()], signing);
}

#[test]
fn a_key_is_replaced_after_thirty_days_when_every_proxy_has_the_next() {
    let own = KeySource::Own;
    let keys = StoredKeys::first(key(1), start());
    assert_keys(&keys, &[1], 1);
    let almost = after(KEY_LIFETIME / 30 * 29);
    assert_eq!(next(&keys, &inputs(&own, almost), 2), None);
    let due = after(KEY_LIFETIME);
    let (keys, step) = next(&keys, &inputs(&own, due), 2).expect("it is old");
    assert_eq!((step, keys.waits_since()), (Step::Announced, Some(due)));
    assert_keys(&keys, &[2, 1], 1);
    // However long proxies take.
    let later = after(KEY_LIFETIME * 3);
    assert_eq!(next(&keys, &inputs(&own, later), 3), None);
    let applied = Inputs {
        is_applied: true,
        ..inputs(&own, later)
    };
    let (keys, step) = next(&keys, &applied, 3).expect("all have it");
    assert_eq!((step, keys.waits_since()), (Step::Switched, None));
    assert_keys(&keys, &[2, 1], 2);
    let within = inputs(&own, later + HOUR);
    assert_eq!(next(&keys, &within, 3), None);
    let past = inputs(&own, later + HOUR + Duration::from_secs(1));
    let (keys, step) = next(&keys, &past, 3).expect("no token of it is valid");
    assert_eq!(step, Step::Forgotten);
    assert_keys(&keys, &[2], 2);
}

#[test]
fn only_a_replaced_key_of_this_age_counts_as_replaced() {
    let own = KeySource::Own;
    let keys = StoredKeys::first(key(1), start());
    let (keys, _) = next(&keys, &inputs(&own, after(KEY_LIFETIME)), 2).expect("it is old");
    assert!(
        !keys.has_replaced(HOUR, after(KEY_LIFETIME * 2)),
        "it signs"
    );
    let applied = Inputs {
        is_applied: true,
        ..inputs(&own, after(KEY_LIFETIME))
    };
    let (keys, _) = next(&keys, &applied, 3).expect("all have it");
    let hour_later = after(KEY_LIFETIME + HOUR);
    assert!(!keys.has_replaced(HOUR, hour_later));
    assert!(keys.has_replaced(HOUR, hour_later + Duration::from_secs(1)));
}

#[test]
fn another_key_is_made_once_when_it_is_asked_for() {
    let own = KeySource::Own;
    let keys = StoredKeys::first(key(1), start());
    let asked = Inputs {
        is_asked_for: true,
        ..inputs(&own, after(HOUR))
    };
    let (keys, _) = next(&keys, &asked, 2).expect("it was asked for");
    assert_keys(&keys, &[2, 1], 1);
    assert_eq!(
        next(&keys, &asked, 3),
        None,
        "the last one does not sign yet"
    );
}

#[test]
fn the_key_of_a_user_is_announced_like_another() {
    let given = |byte| KeySource::Given(key(byte));
    let keys = StoredKeys::first(key(1), start());
    let (keys, _) = next(&keys, &inputs(&given(2), start()), 9).expect("it is new");
    assert_keys(&keys, &[2, 1], 1);
    // It is never replaced by chance, and stays where it cannot be read.
    let late = after(KEY_LIFETIME * 2);
    for source in [given(2), KeySource::Unknown] {
        assert_eq!(next(&keys, &inputs(&source, late), 9), None);
    }
    // The user had a mistake in it.
    let (keys, _) = next(&keys, &inputs(&given(3), start()), 9).expect("it is new");
    assert_keys(&keys, &[3, 1], 1);
    // And takes it back.
    let (keys, _) = next(&keys, &inputs(&given(1), start()), 9).expect("it is new");
    assert_keys(&keys, &[1], 1);
    assert_eq!(next(&keys, &inputs(&given(1), late), 9), None);
}

#[test]
fn a_key_that_comes_back_is_there_once() {
    let given = |byte| KeySource::Given(key(byte));
    let mut keys = StoredKeys::first(key(1), start());
    for byte in [2, 1] {
        let source = given(byte);
        (keys, _) = next(&keys, &inputs(&source, start()), 9).expect("it is new");
        let applied = Inputs {
            is_applied: true,
            ..inputs(&source, start())
        };
        (keys, _) = next(&keys, &applied, 9).expect("all have it");
    }
    assert_keys(&keys, &[1, 2], 1);
}

#[test]
fn at_most_eight_keys_are_kept() {
    let mut keys = StoredKeys::first(key(1), start());
    for byte in 2..=20 {
        let source = KeySource::Given(key(byte));
        (keys, _) = next(&keys, &inputs(&source, start()), 0).expect("it is new");
        let applied = Inputs {
            is_applied: true,
            ..inputs(&source, start())
        };
        (keys, _) = next(&keys, &applied, 0).expect("all have it");
    }
    assert_keys(&keys, &[20, 19, 18, 17, 16, 15, 14, 13], 20);
}

#[test]
fn without_random_numbers_the_keys_stay() {
    let keys = StoredKeys::first(key(1), start());
    let own = KeySource::Own;
    assert_eq!(keys.next(&inputs(&own, after(KEY_LIFETIME)), || None), None);
}

#[test]
fn keys_are_read_as_they_were_written() {
    let keys = StoredKeys::first(key(1), start());
    let source = KeySource::Given(key(2));
    let (keys, _) = next(&keys, &inputs(&source, after(HOUR)), 0).expect("it is new");
    assert_eq!(StoredKeys::parse(Some(&keys.entry())), Ok(keys));
}

#[test]
fn damaged_keys_are_rejected_without_being_quoted() {
    let entry = |roles: &[&str]| {
        let keys = roles.iter().map(|role| {
            format!(
                r#"{{"key": "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2U=", "role": "{role}", "since": "2026-11-30T12:00:00Z"}}"#
            )
        });
        format!("[{}]", keys.collect::<Vec<_>>().join(", "))
    };
    assert!(
        StoredKeys::parse(Some(entry(&["Accepted", "Signing", "Replaced"]).as_bytes())).is_ok()
    );
    let valid = entry(&["Signing"]);
    let nine = entry(&[&["Signing"][..], &["Replaced"; 8]].concat());
    for (content, expected) in [
        (None, InvalidKeys::Missing),
        (Some(valid.replace("c2U=", "c2U")), InvalidKeys::Key(0)),
        (
            Some(valid.replace("c2VjcmV0c2VjcmV0", "c2Vj")),
            InvalidKeys::Key(0),
        ),
        (Some(entry(&[])), InvalidKeys::Order),
        (Some(entry(&["Accepted"])), InvalidKeys::Order),
        (Some(entry(&["Signing", "Signing"])), InvalidKeys::Order),
        (Some(entry(&["Signing", "Accepted"])), InvalidKeys::Order),
        (
            Some(entry(&["Accepted", "Accepted", "Signing"])),
            InvalidKeys::Order,
        ),
        (Some(nine), InvalidKeys::Order),
    ] {
        let parsed = StoredKeys::parse(content.as_deref().map(str::as_bytes));
        assert_eq!(parsed, Err(expected), "{content:?}");
    }
    for content in [
        "",
        "secret",
        r#"["secret"]"#,
        r#"[{"key": {"a": "secret"}}]"#,
        &entry(&["secret"]),
    ] {
        let error = StoredKeys::parse(Some(content.as_bytes())).expect_err("it is damaged");
        assert!(matches!(error, InvalidKeys::Json(..)), "{error}");
        assert!(!format!("{error} {error:?}").contains("secret"), "{error}");
    }
}

#[test]
fn keys_are_shown_by_their_ids_alone() {
    let secret = b"a secret that nobody may ever see";
    let keys = StoredKeys::first(SessionKey::new(secret).expect("a key"), start());
    let shown = format!("{keys:?} {keys:#?}");
    assert!(
        !shown.contains("secret") && !shown.contains("YSBzZWNy"),
        "{shown}"
    );
    assert!(shown.contains("Signing"), "{shown}");
}
