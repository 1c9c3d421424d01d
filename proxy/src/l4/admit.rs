//! Whether the rule of a connection or datagram accepts its client.

use std::net::IpAddr;

use crate::config::L4Rule;
use crate::failure::{Failure, FailureKind};
use crate::policy::client_networks;
use crate::shard::Shard;
use crate::trace::Tracer;

/// Refuses a client by the policies of a rule: before a backend is dialled, and without a session.
pub(super) fn admit(
    shard: &Shard,
    rule: &L4Rule,
    client: IpAddr,
    trace: Option<&Tracer>,
) -> Result<(), Failure> {
    if let Some(policy) = rule.refused_by.as_deref() {
        if let Some(trace) = trace {
            trace.invalid_policy(policy);
        }
        tracing::debug!(policy, "refused a client, since the policy is invalid");
        return Err(FailureKind::PolicyInvalid.into());
    }
    if rule.networks.is_empty() {
        return Ok(());
    }
    let result = client_networks::check(&rule.networks, client);
    shard.counters.networks.count(result);
    if let Some(trace) = trace {
        trace.networks(client, &rule.networks);
    }
    if let Err(outside) = result {
        let (route, why) = (&*rule.name, outside.reason());
        tracing::debug!(route, %client, why, "refused a client by its address");
    }
    Ok(result?)
}
