//! A socket of a machine, and the Gateway that owns it.

use std::collections::HashMap;
use std::num::NonZeroU16;

use xds::model::Transport;

use super::socket;
use super::socket::GatewayPort;
use crate::engine::fact::Fact;
use crate::engine::unit::{Changes, State, Unit, UnitReader};
use crate::units::SocketUnit;

impl Unit for SocketUnit {
    /// Gateways without the socket, each with its owner.
    type Output = HashMap<GatewayPort, GatewayPort>;

    fn compute(&self, reader: &UnitReader<'_>) -> Option<Self::Output> {
        let claims = reader.claims.sockets.at(&(self.0, self.1))?;
        Some(socket::find_conflicts(claims))
    }

    fn publish(
        &self,
        old: Option<&Self::Output>,
        new: Option<&Self::Output>,
        changes: &mut Changes<'_>,
    ) {
        let conflicts = |output: Option<&Self::Output>| output.cloned().unwrap_or_default();
        if conflicts(old) != conflicts(new) {
            changes.fact(Fact::Socket(self.0, self.1));
        }
    }

    fn is_alive(&self, state: &State) -> bool {
        state.claims.sockets.at(&(self.0, self.1)).is_some()
    }
}

impl<'a> UnitReader<'a> {
    /// The owner of a socket, instead of a port of a Gateway.
    pub(crate) fn socket_holder(
        &self,
        (transport, number): (Transport, NonZeroU16),
        port: &GatewayPort,
    ) -> Option<&'a GatewayPort> {
        self.depend_on(Fact::Socket(transport, number));
        let conflicts = self.tables.get(&SocketUnit(transport, number))?;
        conflicts.get(port)
    }
}
