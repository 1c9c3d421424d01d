//! Rewrites of paths beyond what a Gateway has room for.

use serde_json::json;
use translate::Object;
use translate::budgets::Budget;
use xds::model::{PathRewriteRule, Substitution};

use super::{apply, metadata, policies, refused, route, translator};
use crate::support::{GATEWAY_API, admitted, gateway};

fn policy(number: usize, pattern: &str) -> Object {
    let value = json!({
        "metadata": metadata("noisy", &format!("p-{number:02}"), number),
        "spec": {
            "targetRefs": [
                {"group": GATEWAY_API, "kind": "HTTPRoute", "name": format!("r-{number:02}")},
            ],
            "pathRewrite": {"pattern": pattern, "substitution": "/"},
        },
    });
    admitted("gateway-system.io", "TrafficPolicy", value)
}

const LARGE: &str = "[a-z]{200}[0-9]{200}";

/// Proxies keep each compiled. A backend must not get paths that it does not expect.
#[test]
fn rewrites_beyond_the_budget_of_a_gateway_are_refused_and_close_their_routes() {
    let nothing = Substitution::parse("/").expect("a substitution");
    let rule = PathRewriteRule::parse(LARGE, nothing).expect("an expression");
    let bytes = rule.compiled_bytes() as u64;
    assert!(bytes > 10 << 10, "{bytes}");
    for (budget, limit) in [
        (Budget::GatewayPathRewrites, 2),
        (Budget::GatewayPathRewriteBytes, 2 * bytes),
    ] {
        let mut translator = translator(budget, limit);
        let mut objects = vec![gateway(1)];
        for number in 0..3 {
            objects.push(route("noisy", number));
            objects.push(policy(number, LARGE));
        }
        let delta = apply(&mut translator, objects);
        assert_eq!(
            refused(&delta),
            ["noisy/p-02".to_owned()].into(),
            "{budget}"
        );
        let closed = policies(&delta).into_iter().filter(|it| it.spec.is_invalid);
        assert_eq!(closed.count(), 1, "{budget}");
    }
}
