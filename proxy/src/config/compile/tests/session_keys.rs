//! The session keys of a snapshot: which ones, and what a new key compiles again.

use std::sync::Arc;

use xds::model::{Kind, Policy, PolicySpec, PolicyTarget, Resource, SessionKey, SessionKeys};

use super::sample::{gateway, model, policy, route};
use super::{Compiler, KeyOrigin, bind, options, rule};
use crate::config::Snapshot;
use crate::config::dns::Resolved;

/// Keys of these bytes, of which the first signs.
fn keys(bytes: &[u8]) -> SessionKeys {
    let keys = bytes.iter().map(|byte| SessionKey::new(&[*byte; 32]));
    let keys = keys.collect::<Result<_, _>>().expect("keys");
    SessionKeys::new(keys, 0).expect("keys")
}

/// The keys of a controller.
fn given(bytes: &[u8]) -> Policy {
    let spec = PolicySpec {
        session_keys: Some(keys(bytes)),
        ..PolicySpec::default()
    };
    policy("keys", PolicyTarget::Gateway(gateway()), spec)
}

#[track_caller]
fn assert_keys(snapshot: &Snapshot, bytes: &[u8]) {
    let ids = keys(bytes)
        .accepted()
        .iter()
        .map(SessionKey::id)
        .collect::<Vec<_>>();
    assert_eq!(format!("{:?}", snapshot.session_keys), format!("{ids:?}"));
}

#[test]
fn the_keys_of_files_precede_those_of_the_controller_and_these_a_random_one() {
    let mut model = model();
    for (origin, expected) in [(KeyOrigin::Random, b"c"), (KeyOrigin::Files, b"o")] {
        let mut compiler = Compiler::default();
        compiler.set_session_keys(origin, &keys(b"o"));
        let mut compile = |model: &_| compiler.compile(model, &Resolved::default(), &options());
        assert_keys(&compile(&model), b"o");
        let policy = given(b"c");
        model.insert(policy.clone().into());
        assert_keys(&compile(&model), expected);
        // What the controller gave last stays.
        model.remove(Kind::Policy, policy.key.as_str());
        assert_keys(&compile(&model), expected);
    }
}

#[test]
fn a_new_key_compiles_no_rule_and_no_listener_again() {
    let mut model = model();
    model.insert(route("shop", 0, "/", Vec::new()).into());
    let mut compiler = Compiler::default();
    let mut compile = |model: &_| compiler.compile(model, &Resolved::default(), &options());
    model.insert(given(b"a").into());
    let before = compile(&model);
    model.insert(given(b"ba").into());
    let after = compile(&model);
    assert_keys(&after, b"ba");
    assert!(Arc::ptr_eq(
        &before.binds[0].clone().expect("a bind"),
        &after.binds[0].clone().expect("a bind")
    ));
    let shop = |snapshot| std::ptr::from_ref(rule(snapshot, "a.test", "/").expect("a rule"));
    assert_eq!(shop(&before), shop(&after));
    assert_eq!(bind(&after).listeners.iter().count(), 1);
}

#[test]
fn a_policy_with_other_settings_keeps_them() {
    let mut model = model();
    model.insert(route("shop", 0, "/", Vec::new()).into());
    let mut both = given(b"a");
    both.spec.is_invalid = true;
    let mut compiler = Compiler::default();
    let mut compile = |model: &_| compiler.compile(model, &Resolved::default(), &options());
    for (policy, is_refused) in [(given(b"a"), false), (both, true), (given(b"b"), false)] {
        model.insert(Resource::from(policy));
        let snapshot = compile(&model);
        let rule = rule(&snapshot, "a.test", "/").expect("a rule");
        assert_eq!(rule.refused_by().is_some(), is_refused);
    }
    assert_keys(&compile(&model), b"b");
}
