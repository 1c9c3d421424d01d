//! Asks a peer that owes us bytes for a sign of life: a PING, whose answer counts as any bytes do.

use std::task::Context;

use h2::{Ping, PingPong};

use super::io::Link;

/// Who asks on one connection.
pub(crate) struct Liveness {
    pings: Option<PingPong>,
    /// Whether the answer to the last PING has not come.
    asked: bool,
}

impl Liveness {
    /// By the connection's own PINGs.
    pub(crate) fn of(pings: Option<PingPong>) -> Self {
        Self {
            pings,
            asked: false,
        }
    }

    /// Asks, where it is time to. Whether there is a PING for the connection to send.
    pub(crate) fn is_asked_for(&mut self, link: &Link<'_>, context: &mut Context<'_>) -> bool {
        let Some(pings) = &mut self.pings else {
            return false;
        };
        if self.asked && pings.poll_pong(context).is_ready() {
            self.asked = false;
        }
        if !link.takes_ping() {
            return false;
        }
        let sent = pings.send_ping(Ping::opaque()).is_ok();
        self.asked |= sent;
        sent
    }
}
