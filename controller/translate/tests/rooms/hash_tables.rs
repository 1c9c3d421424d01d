//! Tables of hashes beyond what a Gateway has room for.

use serde_json::json;
use translate::Object;
use translate::budgets::Budget;

use super::{apply, metadata, policies, refused, route_to, translator};
use crate::support::{admitted, gateway};

fn policy(number: usize) -> Object {
    let value = json!({
        "metadata": metadata("noisy", &format!("p-{number:02}"), number),
        "spec": {
            "targetRefs": [{"group": "", "kind": "Service", "name": format!("s-{number:02}")}],
            "balance": {"hash": {"by": [{"header": "x"}], "table": 65537}},
        },
    });
    admitted("gateway-system.io", "TrafficPolicy", value)
}

fn service(number: usize) -> Object {
    let value = json!({
        "metadata": metadata("noisy", &format!("s-{number:02}"), number),
        "spec": {"ports": [{"port": 80}]},
    });
    admitted("", "Service", value)
}

/// Each table takes memory of every proxy. Without one, requests are served as without a policy.
#[test]
fn hash_tables_beyond_the_budget_of_a_gateway_are_refused_and_close_nothing() {
    for (budget, limit) in [
        (Budget::GatewayHashTables, 2),
        (Budget::GatewayHashTableBytes, 2 * 2 * 65_537),
    ] {
        let mut translator = translator(budget, limit);
        let mut objects = vec![gateway(1)];
        for number in 0..3 {
            let backend = json!({"name": format!("s-{number:02}"), "port": 80});
            objects.push(route_to("noisy", number, &backend));
            objects.push(service(number));
            objects.push(policy(number));
        }
        let delta = apply(&mut translator, objects);
        assert_eq!(
            refused(&delta),
            ["noisy/p-02".to_owned()].into(),
            "{budget}"
        );
        let sent = policies(&delta);
        assert_eq!(sent.len(), 2, "{budget}");
        assert!(sent.iter().all(|it| !it.spec.is_invalid));
    }
}
