use std::time::Duration;

use http::HeaderName;
use xds::model::{
    CookiePath, Scheme, SessionKey, SessionKeys, SessionLifetime, SessionPersistence, SessionToken,
};

use super::{KeyAge, Keyring, PersistentSession, SessionSearch, cookies, write_token};
use crate::config::EndpointIdentity;

const NOW: u32 = 1_800_000_000;

/// Keys of these bytes, the newest first, of which one signs.
fn keyring(keys: &[u8], signing: usize) -> Keyring {
    let keys = keys.iter().map(|byte| SessionKey::new(&[*byte; 32]));
    let keys = keys.collect::<Result<_, _>>().expect("keys");
    Keyring::new(&SessionKeys::new(keys, signing).expect("keys"))
}

fn keys() -> Keyring {
    keyring(b"k", 0)
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

fn carrier() -> SessionToken {
    policy(None, None).token
}

fn token(session: PersistentSession) -> Vec<u8> {
    sealed_with(session, &keys())
}

fn sealed_with(session: PersistentSession, keys: &Keyring) -> Vec<u8> {
    let mut token = Vec::new();
    session.seal(&carrier(), keys, &mut token);
    token
}

/// The session in the fields of a request.
fn carried(fields: &[&[u8]], policy: &SessionPersistence, now: u32) -> Option<PersistentSession> {
    let keys = keys();
    SessionSearch::new(&keys, now).carried(fields.iter().copied(), policy)
}

fn opened(token: &[u8], keys: &Keyring) -> Option<PersistentSession> {
    PersistentSession::open(token, &carrier(), keys)
}

#[test]
fn a_session_token_round_trips() {
    let token = token(session());
    assert_eq!(token.len(), 122);
    assert_eq!(opened(&token, &keys()), Some(session()));
}

#[test]
fn a_token_is_valid_for_its_cookie_or_header_alone() {
    let named = |name: &str| SessionToken::Cookie {
        name: name.to_owned(),
        path: CookiePath::default(),
        lifetime: SessionLifetime::Session,
    };
    let header = SessionToken::Header(HeaderName::from_static("gw"));
    let open =
        |carrier: &SessionToken| PersistentSession::open(&token(session()), carrier, &keys());
    assert_eq!(open(&named("gw")), Some(session()));
    for other in [named("gw2"), named("g"), header] {
        assert_eq!(open(&other), None, "{other:?}");
    }
}

#[test]
fn tokens_hold_while_keys_are_replaced() {
    let with = |key_age| {
        Some(PersistentSession {
            key_age,
            ..session()
        })
    };
    let old = sealed_with(session(), &keyring(b"a", 0));
    // The next key is accepted, and does not sign yet.
    let accepting = keyring(b"ba", 1);
    assert_eq!(opened(&old, &accepting), with(KeyAge::Current));
    assert_eq!(sealed_with(session(), &accepting), old);
    // It signs, and a replica that does not know that accepts its tokens.
    let signing = keyring(b"ba", 0);
    let new = sealed_with(session(), &signing);
    assert_ne!(new, old);
    assert_eq!(opened(&new, &accepting), with(KeyAge::Current));
    assert_eq!(opened(&new, &signing), with(KeyAge::Current));
    assert_eq!(opened(&old, &signing), with(KeyAge::Replaced));
    // The old one is forgotten.
    assert_eq!(opened(&old, &keyring(b"b", 0)), None);
}

#[test]
fn a_token_of_a_replaced_key_is_issued_again_for_the_same_session() {
    let old = opened(
        &sealed_with(session(), &keyring(b"a", 0)),
        &keyring(b"ba", 0),
    );
    let old = old.expect("it is accepted");
    let renewed = old
        .renewed(&policy(Some(60), None), NOW + 5)
        .expect("a new token");
    assert_eq!((renewed.endpoint, renewed.began), (old.endpoint, old.began));
    assert_eq!(renewed.key_age, KeyAge::Current);
    assert_eq!(renewed.renewed(&policy(Some(60), None), NOW + 6), None);
}

#[test]
fn without_a_key_no_token_is_given_or_accepted() {
    let none = Keyring::default();
    assert_eq!(sealed_with(session(), &none), b"");
    assert_eq!(opened(&token(session()), &none), None);
}

#[test]
fn few_tokens_of_a_request_are_verified() {
    let (policy, junk) = (policy(None, None), |count| b"gw=junk; ".repeat(count));
    let valid = [b"gw=", &*token(session())].concat();
    let after = |count: usize| [junk(count), valid.clone()].concat();
    assert_eq!(carried(&[&after(7)], &policy, NOW), Some(session()));
    assert_eq!(carried(&[&after(8)], &policy, NOW), None);
    // In several fields.
    assert_eq!(
        carried(&[&junk(4), &after(3)], &policy, NOW),
        Some(session())
    );
    assert_eq!(carried(&[&junk(4), &after(4)], &policy, NOW), None);
    // For several backends; a valid one may be that of another backend.
    let keys = keys();
    let mut search = SessionSearch::new(&keys, NOW);
    for _ in 0..20 {
        let found = search.carried([&*valid].into_iter(), &policy);
        assert_eq!(found, Some(session()));
    }
    for _ in 0..2 {
        assert_eq!(search.carried([&*junk(4)].into_iter(), &policy), None);
    }
    assert_eq!(search.carried([&*valid].into_iter(), &policy), None);
}

#[test]
fn few_headers_of_a_request_are_verified() {
    let policy = SessionPersistence {
        token: SessionToken::Header(HeaderName::from_static("x-session")),
        ..policy(None, None)
    };
    let mut valid = Vec::new();
    session().seal(&policy.token, &keys(), &mut valid);
    let after = |count: usize| [vec![&b"junk"[..]; count], vec![&valid]].concat();
    assert_eq!(carried(&after(7), &policy, NOW), Some(session()));
    assert_eq!(carried(&after(8), &policy, NOW), None);
}

#[test]
fn a_changed_token_or_one_of_another_key_is_invalid() {
    let token = token(session());
    assert_eq!(opened(&token, &keyring(b"o", 0)), None);
    for at in 0..token.len() {
        let mut forged = token.clone();
        forged[at] = if forged[at] == b'0' { b'1' } else { b'0' };
        assert_eq!(opened(&forged, &keys()), None, "digit {at}");
        assert_eq!(opened(&token[..at], &keys()), None, "cut at {at}");
    }
    assert_eq!(opened(&token.to_ascii_uppercase(), &keys()), None);
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
    assert_eq!(carried(&[&field], &policy, NOW), Some(session()));
    assert_eq!(carried(&[&field], &policy, NOW + 11), None);
}

#[test]
fn a_header_carries_the_bare_token() {
    let policy = SessionPersistence {
        token: SessionToken::Header(HeaderName::from_static("x-session")),
        ..policy(None, None)
    };
    let mut value = Vec::new();
    write_token(&session(), &policy, Scheme::Https, &keys(), NOW, &mut value);
    assert_eq!(value.len(), token(session()).len());
    assert_eq!(carried(&[&value], &policy, NOW), Some(session()));
}

#[test]
fn cookie_attributes_follow_policy_and_scheme() {
    let sealed = String::from_utf8(token(session())).expect("hex");
    let cookie = |policy: &SessionPersistence, scheme, now| {
        let mut out = Vec::new();
        write_token(&session(), policy, scheme, &keys(), now, &mut out);
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
