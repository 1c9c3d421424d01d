//! `gwctl config policies`: the target of each policy, its precedence, and the fields it sets.

use admin_types::dump::{Policy, PolicyTarget};

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
            policy.precedence().unwrap_or_default().to_owned(),
            fields(policy),
        ]);
    }
    table.sort();
    table
}

/// The target of a policy.
pub(crate) fn target(target: &PolicyTarget) -> String {
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
    let fields = policy.spec.keys().map(String::as_str);
    let fields = fields.filter(|name| *name != "precedence");
    fields.collect::<Vec<_>>().join(",")
}
