//! `gwctl config policies`: the target of each policy, its precedence, and the fields it sets.

use admin_types::dump::{Policy, PolicyTarget};
use serde_json::Value;

use super::key::Key;
use crate::table::Table;

/// One row per policy and target.
pub(super) fn table(policies: &[Policy]) -> Table<6> {
    let mut table = Table::new(["KIND", "NAMESPACE", "NAME", "TARGET", "PRECEDENCE", "SETS"]);
    for policy in policies {
        let key = Key::parse(&policy.key);
        table.row([
            key.kind.to_owned(),
            key.namespace.to_owned(),
            key.name.to_owned(),
            target(&policy.target),
            policy.spec.precedence.clone().unwrap_or_default(),
            fields(policy),
        ]);
    }
    table.sort();
    table
}

/// The target of a policy.
pub(super) fn target(target: &PolicyTarget) -> String {
    match target {
        PolicyTarget::Gateway { gateway } => format!("Gateway/{gateway}"),
        PolicyTarget::ListenerSet { listener_set } => format!("ListenerSet/{listener_set}"),
        PolicyTarget::Listener { listener } => listener.clone(),
        PolicyTarget::Route { route } => route.clone(),
        PolicyTarget::Rule { route, rule } => format!("{route}, rule {rule}"),
        PolicyTarget::Service { service } => service.clone(),
        PolicyTarget::Backend { backend } => backend.clone(),
    }
}

/// The names of the fields that a policy sets.
fn fields(policy: &Policy) -> String {
    match serde_json::to_value(&policy.spec) {
        Ok(Value::Object(fields)) => {
            let fields = fields.keys().filter(|name| *name != "precedence");
            fields.cloned().collect::<Vec<_>>().join(",")
        }
        _ => String::new(),
    }
}
