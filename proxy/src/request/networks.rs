//! Networks of clients, the first policies of a rule: a preflight is refused too.

use std::sync::Arc;

use crate::exchange::{Exchange, Matched};
use crate::failure::{ConnectionAction, Failure};
use crate::policy::client_networks::{self, ClientNetworks};

impl<'a> Exchange<'a> {
    /// Refuses the request if its client's address is in no network that the rule accepts. It is the address
    /// of the access log: behind PROXY protocol and trusted hops.
    pub(super) fn check_networks(&self, matched: &Matched<'a>) -> Result<(), Failure> {
        self.check_by_networks(&matched.rule.networks)
    }

    /// Why a request whose head cannot be read is rejected: because overriding networks of the Gateway do not accept
    /// its client, if so, as whatever else it sends, or else for this failure. Of a rejected head no field is kept:
    /// behind a trusted hop, its client is that hop.
    pub(super) fn refusal_or(&self, failure: Failure) -> Failure {
        let policies = self.bind.head_policies.as_deref();
        match policies {
            Some(policies) if failure.kind.connection_action() != ConnectionAction::Reset => {
                let refused = self.check_by_networks(&policies.networks);
                refused.err().unwrap_or(failure)
            }
            _ => failure,
        }
    }

    /// Refuses the request if one of these policies does not accept the address of its client.
    pub(super) fn check_by_networks(
        &self,
        policies: &[Arc<ClientNetworks>],
    ) -> Result<(), Failure> {
        if policies.is_empty() {
            return Ok(());
        }
        let client = self.client_address();
        let result = client_networks::check(policies, client);
        self.shard.counters.networks.count(result);
        if let Some(trace) = &self.record.trace {
            trace.networks(client, policies);
        }
        if let Err(outside) = result {
            let route = self.record.rule.map(|rule| &*rule.name);
            let why = outside.reason();
            tracing::debug!(route, %client, why, "refused a client by its address");
        }
        Ok(result?)
    }
}
