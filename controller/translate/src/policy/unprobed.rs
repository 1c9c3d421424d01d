//! What the health check of a policy does not ask.

use xds::model::{PolicySpec, PolicyTarget, Transport};

use crate::engine::unit::UnitReader;
use crate::status::problem::Problem;
use crate::status::reason::Reason;

/// That ports of a target that routes use are not checked: a datagram has no answer that a probe could wait for.
pub(super) fn unprobed(
    reader: &UnitReader<'_>,
    target: &PolicyTarget,
    spec: &PolicySpec,
) -> Option<Problem> {
    spec.health_check.as_ref().filter(|it| it.port.is_none())?;
    let PolicyTarget::Service(service) = target else {
        return None;
    };
    let mut ports = reader.ports_in_use(service);
    ports.retain(|port| port.transport == Transport::Udp);
    ports.sort_unstable_by_key(|port| port.number);
    let named: Vec<String> = ports.iter().map(|it| it.number.to_string()).collect();
    if named.is_empty() {
        return None;
    }
    let named = named.join(", ");
    let message = format!(
        "the endpoints of the Service's ports of UDP ({named}) are not checked, since a datagram has no answer to wait for: set \
         port to one of TCP at which the pods answer the check"
    );
    Some(Problem::new(Reason::Invalid, "spec.healthCheck", message))
}
