use std::time::Duration;

use http::HeaderName;
use ring::hmac;
use xds::model::{CookiePath, Scheme, SessionLifetime, SessionPersistence, SessionToken};

use super::{PersistentSession, carried, cookies, write_token};
use crate::config::EndpointIdentity;

const NOW: u32 = 1_800_000_000;

fn key(secret: &[u8]) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, secret)
}

fn policy(absolute: Option<u64>, idle: Option<u64>) -> SessionPersistence {
    SessionPersistence {
        token: SessionToken::Cookie {
            name: "gw".to_owned(),
            path: CookiePath::default(),
            lifetime: SessionLifetime::Session,
        },
        absolute_timeout: absolute.map(Duration::from_secs),
        idle_timeout: idle.map(Duration::from_secs),
    }
}

fn session() -> PersistentSession {
    PersistentSession::begin(
        EndpointIdentity::new("Service/default/a", "10.0.0.1:80"),
        NOW,
    )
}

fn token(session: PersistentSession) -> Vec<u8> {
    let mut token = Vec::new();
    session.seal(&key(b"k"), &mut token);
    token
}

#[test]
fn a_session_token_round_trips() {
    let token = token(session());
    assert_eq!(token.len(), 114);
    assert_eq!(PersistentSession::open(&token, &key(b"k")), Some(session()));
}

#[test]
fn a_changed_token_or_one_of_another_key_is_invalid() {
    let token = token(session());
    assert_eq!(PersistentSession::open(&token, &key(b"other")), None);
    for at in 0..token.len() {
        let mut forged = token.clone();
        forged[at] = if forged[at] == b'0' { b'1' } else { b'0' };
        assert_eq!(
            PersistentSession::open(&forged, &key(b"k")),
            None,
            "digit {at}"
        );
        assert_eq!(
            PersistentSession::open(&token[..at], &key(b"k")),
            None,
            "cut at {at}"
        );
    }
    assert_eq!(
        PersistentSession::open(&token.to_ascii_uppercase(), &key(b"k")),
        None
    );
}

#[test]
fn endpoint_identities_distinguish_backends_and_addresses() {
    let identity = EndpointIdentity::new("Service/a/b", "10.0.0.1:80");
    assert_ne!(
        identity,
        EndpointIdentity::new("Service/a/b", "10.0.0.1:81")
    );
    assert_ne!(
        identity,
        EndpointIdentity::new("Service/a/c", "10.0.0.1:80")
    );
    assert_ne!(
        identity,
        EndpointIdentity::new("Service/a/b1", "0.0.0.1:80")
    );
}

#[test]
fn sessions_end_after_the_absolute_or_the_idle_timeout() {
    for (absolute, idle, used, now, is_valid) in [
        (None, None, 0, u32::MAX - NOW, true),
        (Some(60), None, 0, 60, true),
        (Some(60), None, 59, 61, false),
        (None, Some(10), 50, 60, true),
        (None, Some(10), 50, 61, false),
        (Some(100), Some(10), 95, 101, false),
    ] {
        let mut session = session();
        session.used = NOW + used;
        let case = (absolute, idle, used, now);
        assert_eq!(
            session.is_valid(&policy(absolute, idle), NOW + now),
            is_valid,
            "{case:?}"
        );
    }
}

#[test]
fn clock_skew_between_replicas_ends_no_session() {
    assert!(session().is_valid(&policy(Some(1), Some(1)), NOW - 5));
}

#[test]
fn the_token_is_reissued_only_with_an_idle_timeout() {
    assert_eq!(session().renewed(&policy(Some(60), None), NOW + 5), None);
    assert_eq!(session().renewed(&policy(None, Some(60)), NOW), None);
    let renewed = session().renewed(&policy(None, Some(60)), NOW + 5);
    let expected = PersistentSession {
        used: NOW + 5,
        ..session()
    };
    assert_eq!(renewed, Some(expected));
}

#[test]
fn cookies_are_found_by_their_whole_name() {
    for (field, expected) in [
        ("gw=1", vec!["1"]),
        ("a=b; gw=1; c=d", vec!["1"]),
        ("gw=1; gw=2", vec!["1", "2"]),
        ("xgw=1; gwx=2; gw", vec![]),
        ("gw=\"q\";gw=a=b", vec!["q", "a=b"]),
        ("gw=; GW=1", vec![""]),
        ("", vec![]),
        (";;=;", vec![]),
    ] {
        let found: Vec<_> = cookies(field.as_bytes(), b"gw").collect();
        let expected: Vec<_> = expected.iter().map(|v| v.as_bytes()).collect();
        assert_eq!(found, expected, "{field:?}");
    }
}

#[test]
fn a_valid_session_is_found_among_expired_and_foreign_cookies() {
    let policy = policy(None, Some(10));
    let stale = PersistentSession::begin(session().endpoint, NOW - 11);
    let field = [
        b"gw=junk; gw=",
        &*token(stale),
        b"; gw=",
        &*token(session()),
    ]
    .concat();
    assert_eq!(carried(&field, &policy, &key(b"k"), NOW), Some(session()));
    assert_eq!(carried(&field, &policy, &key(b"k"), NOW + 11), None);
}

#[test]
fn a_header_carries_the_bare_token() {
    let policy = SessionPersistence {
        token: SessionToken::Header(HeaderName::from_static("x-session")),
        ..policy(None, None)
    };
    let mut value = Vec::new();
    write_token(
        &session(),
        &policy,
        Scheme::Https,
        &key(b"k"),
        NOW,
        &mut value,
    );
    assert_eq!(value, token(session()));
    assert_eq!(carried(&value, &policy, &key(b"k"), NOW), Some(session()));
}

#[test]
fn cookie_attributes_follow_policy_and_scheme() {
    let sealed = String::from_utf8(token(session())).expect("hex");
    let cookie = |policy: &SessionPersistence, scheme, now| {
        let mut out = Vec::new();
        write_token(&session(), policy, scheme, &key(b"k"), now, &mut out);
        String::from_utf8(out).expect("ASCII")
    };
    assert_eq!(
        cookie(&policy(Some(60), None), Scheme::Http, NOW),
        format!("gw={sealed}; Path=/; HttpOnly; SameSite=Lax")
    );
    let permanent = SessionPersistence {
        token: SessionToken::Cookie {
            name: "gw".to_owned(),
            path: CookiePath::parse("/shop").expect("a path"),
            lifetime: SessionLifetime::Permanent,
        },
        ..policy(Some(60), Some(30))
    };
    assert_eq!(
        cookie(&permanent, Scheme::Https, NOW + 20),
        format!("gw={sealed}; Path=/shop; HttpOnly; SameSite=Lax; Secure; Max-Age=40")
    );
}
