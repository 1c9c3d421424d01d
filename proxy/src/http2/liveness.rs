//! Sends a PING to a silent peer that owes bytes; any received bytes count as its response.

use std::task::Context;

use h2::{Ping, PingPong};

use super::io::Link;

/// The PING of one connection.
pub(crate) struct Liveness {
    pings: Option<PingPong>,
    /// Whether the last PING is unanswered.
    ping_sent: bool,
}

impl Liveness {
    /// Using the connection's own PINGs.
    pub(crate) fn of(pings: Option<PingPong>) -> Self {
        Self {
            pings,
            ping_sent: false,
        }
    }

    /// Sends a PING if it is time to. Returns whether the connection has one to send.
    pub(crate) fn is_asked_for(&mut self, link: &Link<'_>, context: &mut Context<'_>) -> bool {
        let Some(pings) = &mut self.pings else {
            return false;
        };
        if self.ping_sent && pings.poll_pong(context).is_ready() {
            self.ping_sent = false;
        }
        if !link.takes_ping() {
            return false;
        }
        let sent = pings.send_ping(Ping::opaque()).is_ok();
        self.ping_sent |= sent;
        sent
    }
}
