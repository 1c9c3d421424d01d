//! Session resumption where client certificates are required: a ticket stands for a certificate
//! that was valid when it was verified, and may outlive it. rustls has no hook for that.

use std::sync::Arc;

use rustls::HandshakeKind;
use rustls::pki_types::UnixTime;
use rustls::server::ProducesTickets;
use rustls::server::danger::ClientCertVerifier;

use super::server::ServerTls;
use super::session::{SessionError, TlsSession};
use crate::memory::Buffer;

/// Issues tickets, but accepts none: every handshake with it is a full one.
#[derive(Debug)]
pub(super) struct IssueOnlyTickets(pub(super) Arc<dyn ProducesTickets>);

impl ProducesTickets for IssueOnlyTickets {
    fn enabled(&self) -> bool {
        self.0.enabled()
    }

    fn lifetime(&self) -> u32 {
        self.0.lifetime()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.0.encrypt(plain)
    }

    fn decrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

impl ServerTls {
    /// A session with a client whose complete first message is in `received`. If a certificate is
    /// required, that message was read already, into `spare`, which then has the rest; an earlier
    /// session is resumed only if its certificate is still acceptable. Otherwise the client has to
    /// present one again, and learns why it is rejected.
    ///
    /// # Errors
    ///
    /// The settings are unusable.
    pub(crate) fn session(
        &self,
        received: &mut Buffer,
        spare: &mut Buffer,
    ) -> Result<TlsSession, SessionError> {
        let (Some(full_handshake), Some(clients)) = (&self.full_handshake, &self.clients) else {
            return TlsSession::server(Arc::clone(&self.config));
        };
        // Records are decrypted in place, and may be needed again.
        if spare.append(received.filled()) {
            let mut session = TlsSession::server(Arc::clone(&self.config))?;
            let read = session.process(spare, &mut Buffer::default());
            if read.is_ok() && is_still_valid(&session, &**clients) {
                std::mem::swap(received, spare);
                spare.clear();
                return Ok(session);
            }
            spare.clear();
        }
        TlsSession::server(Arc::clone(full_handshake))
    }
}

/// Whether a session that is about to respond is not based on an earlier certificate, or on a valid
/// one. Unknown after a `HelloRetryRequest`.
fn is_still_valid(session: &TlsSession, clients: &dyn ClientCertVerifier) -> bool {
    let agreed = session.agreed();
    match agreed.handshake_kind() {
        Some(HandshakeKind::Full) => true,
        Some(HandshakeKind::Resumed) => agreed
            .peer_certificates()
            .and_then(<[_]>::split_first)
            .is_some_and(|(certificate, others)| {
                let now = UnixTime::now();
                clients.verify_client_cert(certificate, others, now).is_ok()
            }),
        _ => false,
    }
}
