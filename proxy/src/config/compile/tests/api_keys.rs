//! The keys of a policy are shared by rules that are compiled at different times.

use std::sync::Arc;

use xds::model::{
    ApiKey, ApiKeyPolicy, ApiKeys, JwtForward, JwtSource, KeyDigest, Model, PolicySpec,
    PolicyTarget,
};

use super::sample::{gateway, model, policy, route, target};
use super::{Compiler, options, rule};
use crate::config::dns::Resolved;

#[test]
fn rules_that_change_in_different_snapshots_share_their_keys() {
    let key = ApiKey {
        digest: KeyDigest::of(b"key"),
        client: "acme".into(),
    };
    let spec = PolicySpec {
        api_keys: Some(ApiKeyPolicy {
            from: vec![JwtSource::Query("key".to_owned())],
            client_header: None,
            forward: JwtForward::Strip,
            keys: ApiKeys {
                accepted: [key].into(),
                is_incomplete: false,
            },
        }),
        ..PolicySpec::default()
    };
    let mut model = model();
    model.insert(policy("keys", PolicyTarget::Gateway(gateway()), spec).into());
    model.insert(route("shop", 0, "/", Vec::new()).into());
    model.insert(route("else", 0, "/else", Vec::new()).into());
    let mut compiler = Compiler::default();
    let mut compile = |model: &Model| {
        let snapshot = compiler.compile(model, &Resolved::default(), &options());
        ["/", "/else"].map(|path| {
            let rule = rule(&snapshot, "a", path).expect("a rule");
            let credentials = rule.credentials().expect("it has a policy");
            Arc::clone(credentials.api_keys.as_ref().expect("it has keys"))
        })
    };
    let [first, _] = compile(&model);
    for (name, prefix) in [("shop", "/"), ("else", "/else")] {
        let changed = route(name, 0, prefix, vec![(target("web", 80), 1)]);
        model.insert(changed.into());
        for keys in compile(&model) {
            assert!(Arc::ptr_eq(&first, &keys), "{name}");
        }
    }
}
