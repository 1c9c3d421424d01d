use std::sync::Arc;

use http::{HeaderName, HeaderValue};
use jsonwebtoken::Algorithm;
use ring::hmac;
use serde_json::{Value, json};
use xds::model::{
    ClaimHeader, HeaderEdit, JwtExpiry, JwtForward, JwtKeys, JwtMode, JwtPolicy, JwtProvider,
    JwtSource,
};

use super::{Authenticator, TokenSources};
use crate::failure::FailureKind;
use crate::http::head::Fields;
use crate::http::known::KnownHeader;
use crate::policy::headers::HeaderEdits;
use crate::policy::jwt::ClaimsUse;
use crate::policy::jwt::{Bearer, KeySet, KeySource, Provenance, Refusal, TokenCache, TokenError};
use crate::policy::sample::{fields, written};

const SECRET: [u8; 32] = [7; 32];
const NOW: i64 = 1_000;

fn base64(bytes: impl AsRef<[u8]>) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes)
}

fn token(claims: &Value) -> String {
    let algorithm = format!("{:?}", Algorithm::HS256);
    let header = json!({"alg": algorithm}).to_string();
    let message = format!("{}.{}", base64(header), base64(claims.to_string()));
    let key = hmac::Key::new(hmac::HMAC_SHA256, &SECRET);
    let signature = hmac::sign(&key, message.as_bytes());
    format!("{message}.{}", base64(signature))
}

fn alice() -> String {
    token(&json!({"iss": "i", "sub": "alice", "exp": 2_000, "role": "admin"}))
}

fn provider() -> JwtProvider {
    JwtProvider {
        name: "p".to_owned(),
        issuer: "i".to_owned(),
        audiences: Vec::new(),
        keys: JwtKeys::Inline(String::new()),
        from: Vec::new(),
        forward: JwtForward::Strip,
        clock_skew: None,
        expiry: JwtExpiry::Required,
        claims_to_headers: vec![
            claim("sub", "x-user"),
            claim("role", "x-role"),
            claim("missing", "x-missing"),
        ],
    }
}

fn claim(claim: &str, header: &'static str) -> ClaimHeader {
    ClaimHeader {
        claim: claim.to_owned(),
        header: HeaderName::from_static(header),
    }
}

fn compile(mode: JwtMode, provider: JwtProvider) -> Authenticator {
    let keys = json!({"keys": [{"kty": "oct", "k": base64(SECRET)}]}).to_string();
    let keys = KeySet::parse(keys.as_bytes(), Provenance::Configured).expect("a key set");
    let policy = JwtPolicy {
        mode,
        realm: None,
        providers: vec![provider],
    };
    Authenticator::compile(
        &policy,
        [Arc::new(KeySource::constant(keys))],
        ClaimsUse::Headers,
    )
}

fn sources<'a>(fields: &'a (Fields, Vec<u8>), query: Option<&'a str>) -> TokenSources<'a> {
    TokenSources {
        fields: &fields.0,
        bytes: &fields.1,
        query,
    }
}

fn reason(result: Result<Bearer<'_>, TokenError>) -> Option<Refusal> {
    result.err().map(|denied| denied.refusal)
}

#[test]
fn optional_allows_requests_without_a_token_but_not_with_a_bad_one() {
    let optional = compile(JwtMode::Optional, provider());
    let good = format!("Bearer {}", alice());
    for (value, expected) in [
        (None, Ok(None)),
        (Some("Basic dTpw"), Ok(None)),
        (Some(good.as_str()), Ok(Some("alice"))),
        (Some("Bearer"), Err(Refusal::Malformed)),
        (Some("Bearer x"), Err(Refusal::Malformed)),
        (Some("Bearer e30.e30."), Err(Refusal::Malformed)),
        (Some(""), Err(Refusal::Malformed)),
    ] {
        let lines: Vec<_> = value
            .iter()
            .map(|value| ("Authorization", *value))
            .collect();
        let head = fields(&lines);
        let mut cache = TokenCache::default();
        let accepted = optional.authenticate(sources(&head, None), NOW, &mut cache);
        let accepted = accepted.map_err(|denied| denied.refusal);
        let subject = accepted.as_ref().map(|accepted| accepted.subject());
        assert_eq!(subject, expected.as_ref().copied(), "{value:?}");
    }
    let head = fields(&[]);
    let strict = compile(JwtMode::Strict, provider());
    let refused = strict.authenticate(sources(&head, None), NOW, &mut TokenCache::default());
    assert_eq!(reason(refused), Some(Refusal::Missing));
}

#[test]
fn claims_become_headers_and_forged_ones_are_removed() {
    let policy = compile(JwtMode::Optional, provider());
    let bearer = format!("Bearer {}", alice());
    let head = fields(&[("Authorization", bearer.as_str()), ("X-User", "root")]);
    let mut cache = TokenCache::default();
    for time in 0..2 {
        let accepted = policy.authenticate(sources(&head, None), NOW, &mut cache);
        let accepted = accepted.expect("a good token");
        let lines = written(|out| accepted.write_claims(None, out));
        assert_eq!(lines, "x-user: alice\r\nx-role: admin\r\n", "{time}");
        let stripped = accepted.stripped().expect("its place");
        assert!(stripped.is_field(KnownHeader::Authorization, b"Authorization"));
    }
    let nobody = fields(&[]);
    let accepted = policy.authenticate(sources(&nobody, None), NOW, &mut cache);
    let accepted = accepted.expect("no token is needed");
    assert!(accepted.stripped().is_none());
    for (name, dropped) in [
        ("x-user", true),
        ("X-USER", true),
        ("X_User", true),
        ("x-missing", true),
        ("x-users", false),
        ("x-other", false),
    ] {
        assert_eq!(policy.claims_header(name.as_bytes()), dropped, "{name}");
    }
    assert_eq!(written(|out| accepted.write_claims(None, out)), "");
}

#[test]
fn header_edits_apply_after_claim_headers() {
    let policy = compile(JwtMode::Strict, provider());
    let bearer = format!("Bearer {}", alice());
    let head = fields(&[("Authorization", bearer.as_str())]);
    let mut cache = TokenCache::default();
    let accepted = policy
        .authenticate(sources(&head, None), NOW, &mut cache)
        .expect("good");
    let name = HeaderName::from_static;
    let edit = HeaderEdit {
        set: vec![(name("x-user"), HeaderValue::from_static("somebody"))],
        add: vec![(name("x-role"), HeaderValue::from_static("more"))],
        remove: Vec::new(),
    };
    let edits = HeaderEdits::compose(&[Some(&edit)]);
    let lines = written(|out| accepted.write_claims(Some(&edits), out));
    assert_eq!(lines, "x-role: admin\r\n");
}

#[test]
fn a_kept_token_stays_in_its_place() {
    let mut keeping = provider();
    keeping.forward = JwtForward::Keep;
    keeping.from = vec![
        JwtSource::Query("t".to_owned()),
        JwtSource::Cookie("t".to_owned()),
    ];
    let policy = compile(JwtMode::Strict, keeping);
    assert!(policy.reads_target());
    let query = format!("t={}", alice());
    let head = fields(&[("Cookie", "a=1")]);
    let mut cache = TokenCache::default();
    let sources = sources(&head, Some(&query));
    let accepted = policy.authenticate(sources, NOW, &mut cache).expect("good");
    assert!(accepted.stripped().is_none());
}

#[test]
fn tokens_in_two_places_are_ambiguous() {
    let mut several = provider();
    several.from = vec![
        JwtSource::Query("t".to_owned()),
        JwtSource::Cookie("t".to_owned()),
    ];
    let policy = compile(JwtMode::Optional, several);
    let (query, cookie) = (format!("t={}", alice()), format!("t={}", alice()));
    let head = fields(&[("Cookie", cookie.as_str())]);
    let mut cache = TokenCache::default();
    let twice = policy.authenticate(sources(&head, Some(&query)), NOW, &mut cache);
    assert_eq!(reason(twice), Some(Refusal::Ambiguous));
    let once = policy
        .authenticate(sources(&head, None), NOW, &mut cache)
        .expect("good");
    let stripped = once.stripped().expect("its place");
    assert!(stripped.is_field(KnownHeader::Cookie, b"Cookie"));
}

#[test]
fn a_provider_reads_tokens_only_from_its_locations() {
    let keys = json!({"keys": [{"kty": "oct", "k": base64(SECRET)}]}).to_string();
    let keys = || {
        let keys = KeySet::parse(keys.as_bytes(), Provenance::Configured).expect("a key set");
        Arc::new(KeySource::constant(keys))
    };
    let mut cookies = provider();
    cookies.from = vec![JwtSource::Cookie("t".to_owned())];
    let mut bearers = provider();
    bearers.issuer = "j".to_owned();
    let policy = JwtPolicy {
        mode: JwtMode::Strict,
        realm: None,
        providers: vec![cookies, bearers],
    };
    let policy = Authenticator::compile(&policy, [keys(), keys()], ClaimsUse::Headers);
    let mut cache = TokenCache::default();
    let cookie = format!("t={}", alice());
    let head = fields(&[("Cookie", cookie.as_str())]);
    assert!(
        policy
            .authenticate(sources(&head, None), NOW, &mut cache)
            .is_ok()
    );
    // It is cached by now, and yet refused elsewhere.
    let bearer = format!("Bearer {}", alice());
    let head = fields(&[("Authorization", bearer.as_str())]);
    let refused = policy.authenticate(sources(&head, None), NOW, &mut cache);
    assert_eq!(reason(refused), Some(Refusal::Issuer));
}

#[test]
fn a_realm_cannot_break_the_challenge_line() {
    for (realm, expected) in [
        (None, "gateway"),
        (Some("my api"), "my api"),
        (Some(r#"a"b\c"#), r#"a\"b\\c"#),
        (Some("a\r\nX: 1"), "aX: 1"),
    ] {
        let policy = JwtPolicy {
            mode: JwtMode::Strict,
            realm: realm.map(str::to_owned),
            providers: Vec::new(),
        };
        let policy = Authenticator::compile(&policy, [], ClaimsUse::Headers);
        let line = |kind| policy.challenge(kind).map(String::from_utf8_lossy);
        let expected = format!("WWW-Authenticate: Bearer realm=\"{expected}\"");
        let challenge = line(FailureKind::NoToken).expect("it is asked for");
        assert_eq!(challenge, format!("{expected}\r\n"));
        let refused = line(FailureKind::Unauthenticated).expect("it is refused");
        assert_eq!(refused, format!("{expected}, error=\"invalid_token\"\r\n"));
        assert_eq!(line(FailureKind::NoTokenKeys), None);
    }
}
