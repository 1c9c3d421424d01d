//! Networks of clients, the first policies of a rule: a preflight is refused too.

use crate::exchange::{Exchange, Matched};
use crate::failure::Failure;
use crate::policy::client_networks;

impl<'a> Exchange<'a> {
    /// Refuses the request if its client's address is in no network that the rule accepts. It is the address
    /// of the access log: behind PROXY protocol and trusted hops.
    pub(super) fn check_networks(&self, matched: &Matched<'a>) -> Result<(), Failure> {
        let policies = &*matched.rule.networks;
        if policies.is_empty() {
            return Ok(());
        }
        let received = self.received;
        let (fields, bytes) = (&received.head.fields, received.bytes.as_slice());
        let client = self.bind.trust.client(&self.client.hop, fields, bytes);
        let result = client_networks::check(policies, client);
        self.shard.counters.networks.count(result);
        if let Some(trace) = &self.record.trace {
            trace.networks(client, result);
        }
        if let Err(outside) = result {
            let (route, why) = (&*matched.rule.name, outside.reason());
            tracing::debug!(route, %client, why, "refused a client by its address");
        }
        Ok(result?)
    }
}
