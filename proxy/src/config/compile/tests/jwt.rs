//! Which JWT policy applies, and what is kept of it when something else changes.

use std::sync::Arc;

use xds::model::{
    JwksLocation, JwtExpiry, JwtForward, JwtKeys, JwtMode, JwtPolicy, JwtProvider, Model,
    PolicySpec, PolicyTarget,
};

use super::sample::{gateway, host, listener, model, policy, route, target};
use super::{Compiler, compile, options, rule};
use crate::config::dns::Resolved;
use crate::failure::FailureKind;

/// A policy that demands tokens of an issuer with these keys.
pub(super) fn jwt(issuer: &str, keys: JwtKeys) -> PolicySpec {
    PolicySpec {
        jwt: Some(JwtPolicy {
            mode: JwtMode::Strict,
            realm: Some(issuer.to_owned()),
            providers: vec![JwtProvider {
                name: "provider".to_owned(),
                issuer: issuer.to_owned(),
                audiences: Vec::new(),
                keys,
                from: Vec::new(),
                forward: JwtForward::Strip,
                clock_skew: None,
                expiry: JwtExpiry::Required,
                claims_to_headers: Vec::new(),
            }],
        }),
        ..PolicySpec::default()
    }
}

fn fetched(url: &str) -> JwtKeys {
    JwtKeys::Remote {
        location: JwksLocation::Url(url.to_owned()),
        cache: None,
    }
}

#[test]
fn the_most_specific_jwt_policy_applies_alone() {
    let mut model = model();
    model.insert(route("shop", 0, "/", vec![(target("web", 80), 1)]).into());
    model.insert(route("else", 0, "/else", Vec::new()).into());
    let realm = |model: &Model, path| {
        let snapshot = compile(model);
        let policy = rule(&snapshot, "a", path)?.authenticator().cloned();
        let challenge = policy.as_deref()?.challenge(FailureKind::NoToken)?;
        Some(String::from_utf8_lossy(challenge).into_owned())
    };
    assert_eq!(realm(&model, "/"), None);
    let route = PolicyTarget::Route {
        kind: "HTTPRoute".to_owned(),
        object: host("shop"),
    };
    for (name, target) in [
        ("1", PolicyTarget::Gateway(gateway())),
        ("2", PolicyTarget::Listener(listener("http", None).key)),
        ("3", route),
    ] {
        model.insert(policy(name, target, jwt(name, fetched("http://keys.test/"))).into());
        let found = realm(&model, "/").expect("a policy");
        assert!(found.contains(&format!("realm=\"{name}\"")), "{found}");
    }
    let found = realm(&model, "/else").expect("a policy");
    assert!(found.contains("realm=\"2\""), "{found}");
}

#[test]
fn jwt_policies_and_key_sources_are_kept_across_unrelated_changes() {
    let mut model = model();
    model.insert(route("shop", 0, "/", Vec::new()).into());
    model.insert(route("else", 0, "/else", Vec::new()).into());
    let spec = jwt("i", fetched("http://keys.test/"));
    model.insert(policy("jwt", PolicyTarget::Gateway(gateway()), spec).into());
    let mut compiler = Compiler::default();
    let mut compile = |model: &Model| {
        let snapshot = compiler.compile(model, &Resolved::default(), &options());
        let of = |path| rule(&snapshot, "a", path).and_then(|rule| rule.authenticator().cloned());
        let remote = compiler.remote_keys().iter();
        let sources: Vec<_> = remote.map(|remote| Arc::clone(&remote.source)).collect();
        (of("/"), of("/else"), sources)
    };
    let (Some(first), Some(shared), sources) = compile(&model) else {
        panic!("both have a policy");
    };
    assert!(Arc::ptr_eq(&first, &shared));
    model.insert(route("more", 0, "/more", Vec::new()).into());
    let (again, _, same) = compile(&model);
    assert!(again.is_some_and(|again| Arc::ptr_eq(&again, &first)));
    assert!(Arc::ptr_eq(&sources[0], &same[0]) && same.len() == 1);
    // Another policy with the same source of keys.
    let spec = jwt("j", fetched("http://keys.test/"));
    model.insert(policy("jwt", PolicyTarget::Gateway(gateway()), spec).into());
    let (other, _, same) = compile(&model);
    assert!(other.is_some_and(|other| !Arc::ptr_eq(&other, &first)));
    assert!(Arc::ptr_eq(&sources[0], &same[0]) && same.len() == 1);
    // Inline keys are not fetched; if they are unreadable, every request is rejected.
    let spec = jwt("j", JwtKeys::Inline("[".to_owned()));
    model.insert(policy("jwt", PolicyTarget::Gateway(gateway()), spec).into());
    let (inline, _, none) = compile(&model);
    assert!(inline.is_some() && none.is_empty());
}
