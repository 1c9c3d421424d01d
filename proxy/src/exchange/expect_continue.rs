//! `100 Continue`.

use crate::channel::Channel;
use crate::failure::{Failure, FailureKind};
use crate::http::h1::encode::CONTINUE;
use crate::shard::deadline::Expiry;

use super::Exchange;

impl Exchange<'_> {
    /// Sends `100 Continue` to a client that waits for it before sending its body (RFC 9110 section
    /// 10.1.1). Call it at most once, when the body is needed.
    ///
    /// # Errors
    ///
    /// The client is gone.
    pub(crate) async fn send_continue(&mut self) -> Result<(), Failure> {
        if !self.received.head.expect_continue {
            return Ok(());
        }
        let client = self.client;
        client
            .deadline
            .arm(self.bind.limits.write_idle_timeout, Expiry::Disconnect);
        let sent = match &client.stream {
            Channel::Socket(socket) => {
                let out = &mut self.work.to_client;
                out.clear();
                out.extend_from_slice(CONTINUE);
                let sent = socket.write_vec(out).await;
                out.clear();
                sent
            }
            Channel::H2(stream) => stream.send_continue(),
        };
        client.deadline.disarm();
        sent.map_err(|_| FailureKind::ClientGone.into())
    }
}
