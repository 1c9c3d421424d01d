//! What a token costs: one that this shard has verified before, and a first one by algorithm; and what
//! rules on its claims cost.
//!
//! The token is of an identity provider's usual size, a little over a kibibyte.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use proxy::http::head::{Field, Fields, Span};
use proxy::http::known::KnownHeader;
use proxy::policy::authentication::{Authentication, Presented};
use proxy::policy::authorization::{Authorization, Subject};
use proxy::policy::effective_fields::{EffectiveFields, PolicyView};
use proxy::policy::forwarded::HeaderTrust;
use proxy::policy::jwt::{
    Authenticator, ClaimsUse, KeySet, KeySource, Provenance, TokenCache, TokenSources,
};
use serde_json::json;
use xds::model::{
    AuthorizationPolicy, AuthorizationRule, ClaimHeader, JwtExpiry, JwtForward, JwtKeys, JwtMode,
    JwtPolicy, JwtProvider,
};

#[expect(dead_code, reason = "tests make more kinds of tokens")]
#[path = "../tests/support/tokens.rs"]
mod tokens;

use tokens::{Signer, key_set};

const NOW: i64 = 1_800_000_000;

/// A policy, and a request that satisfies it.
struct Case {
    policy: Arc<Authenticator>,
    fields: Fields,
    head: String,
}

impl Case {
    fn new(signer: &Signer, use_of_claims: ClaimsUse) -> Self {
        let keys = KeySet::parse(
            key_set(&[signer.jwk("key")]).as_bytes(),
            Provenance::Configured,
        );
        let policy = JwtPolicy {
            mode: JwtMode::Strict,
            realm: None,
            providers: vec![JwtProvider {
                name: "issuer".to_owned(),
                issuer: "https://issuer.test/realms/main".to_owned(),
                audiences: vec!["account".to_owned()],
                keys: JwtKeys::Inline(String::new()),
                from: Vec::new(),
                forward: JwtForward::Keep,
                clock_skew: None,
                expiry: JwtExpiry::Required,
                claims_to_headers: vec![ClaimHeader {
                    claim: "sub".to_owned(),
                    header: http::HeaderName::from_static("x-user"),
                }],
            }],
        };
        let source = Arc::new(KeySource::constant(keys.expect("a key set")));
        let claims = json!({
            "iss": "https://issuer.test/realms/main",
            "sub": "0c9e8f0e-7a7e-4c59-9a55-1d4f6f1f3b10",
            "aud": ["account", "broker"],
            "exp": NOW + 300,
            "iat": NOW,
            "scope": "openid email profile",
            "group": "admins",
            "realm_access": {"roles": vec!["default-roles-main"; 18]},
        });
        let token = signer.signs("key", &claims);
        let head = format!("AuthorizationBearer {token}");
        let span = |start, end| Span::new(start, end).expect("below 64 KiB");
        let mut fields = Fields::default();
        fields.push(Field {
            name: span(0, 13),
            value: span(13, head.len()),
            known: KnownHeader::Authorization,
        });
        Self {
            policy: Arc::new(Authenticator::compile(&policy, [source], use_of_claims)),
            fields,
            head,
        }
    }

    fn sources(&self) -> TokenSources<'_> {
        TokenSources {
            fields: &self.fields,
            bytes: self.head.as_bytes(),
            query: None,
        }
    }

    fn authenticate(&self, cache: &mut TokenCache) -> bool {
        let sources = black_box(self.sources());
        let passed = self.policy.authenticate(sources, NOW, cache);
        passed.is_ok_and(|passed| passed.subject().is_some())
    }
}

/// A policy that lets through who satisfies one of these conditions.
fn allow(conditions: impl IntoIterator<Item = String>) -> Authorization {
    let rules = conditions.into_iter().map(|when| AuthorizationRule {
        name: String::new(),
        when,
    });
    Authorization::compile(
        "TrafficPolicy/a/b",
        &AuthorizationPolicy {
            deny: Vec::new(),
            allow: rules.collect(),
        },
    )
}

fn jwt(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("jwt");
    let case = Case::new(&Signer::rsa(), ClaimsUse::Headers);
    let mut cache = TokenCache::default();
    assert!(case.authenticate(&mut cache));
    group.bench_function(format!("cached, {} bytes", case.head.len()), |bencher| {
        bencher.iter(|| assert!(case.authenticate(&mut cache)));
    });
    for signer in [
        Signer::rsa(),
        Signer::p256(),
        Signer::p384(),
        Signer::ed25519(),
    ] {
        let case = Case::new(&signer, ClaimsUse::Headers);
        group.bench_function(format!("first, {}", signer.algorithm()), |bencher| {
            bencher.iter(|| assert!(case.authenticate(&mut TokenCache::default())));
        });
    }
}

fn tokens_alone(case: &Case) -> Authentication {
    Authentication {
        jwt: Some(Arc::clone(&case.policy)),
        basic_auth: None,
        api_keys: None,
        requires_all: false,
        claims_use: ClaimsUse::Rules,
    }
}

fn authorization(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("authorization");
    let case = Case::new(&Signer::p256(), ClaimsUse::Rules);
    let mut cache = TokenCache::default();
    let sender = case.policy.authenticate(case.sources(), NOW, &mut cache);
    let by = tokens_alone(&case);
    let sender = by.admit(Presented {
        token: Some(sender.expect("the token is good")),
        ..Presented::default()
    });
    let sender = sender.expect("it suffices");
    let of_group = |name: &str| format!("claims.group == '{name}'");
    let last_of_ten = (0..9).map(|other| of_group(&format!("group-{other}")));
    for (name, policy) in [
        ("true", allow(["true".to_owned()])),
        ("a claim", allow([of_group("admins")])),
        (
            "the last of ten claims",
            allow(last_of_ten.chain([of_group("admins")])),
        ),
        (
            "a claim, method and path",
            allow([format!(
                "{} && request.method == 'GET' && request.path.startsWith('/api/')",
                of_group("admins")
            )]),
        ),
        (
            "a role of eighteen, and a header",
            allow([
                "!('x-debug' in request.headers) && 'default-roles-main' in claims.realm_access.roles"
                    .to_owned(),
            ]),
        ),
    ] {
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let subject = Subject {
                    method: b"GET",
                    host: "shop.example.com",
                    path: "/api/v1/items/42",
                    fields: EffectiveFields {
                        fields: &case.fields,
                        bytes: case.head.as_bytes(),
                        header_trust: HeaderTrust::Untrusted,
                        principal: Some(&sender),
                        own: b"",
                        grants: None,
                        view: PolicyView::Effective,
                    },
                    client: IpAddr::V4(Ipv4Addr::LOCALHOST),
                    claims: sender.claims(),
                };
                let attributes = policy.attributes(black_box(subject));
                assert_eq!(policy.evaluate(&attributes).result, Ok(()));
            });
        });
    }
}

criterion_group!(benches, jwt, authorization);
criterion_main!(benches);
