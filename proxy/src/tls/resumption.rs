//! Which earlier sessions are taken up where clients have to show a certificate: a ticket stands for
//! one that was good when it was shown, and may outlive it. rustls asks nobody about that.

use std::sync::Arc;

use rustls::HandshakeKind;
use rustls::pki_types::UnixTime;
use rustls::server::ProducesTickets;
use rustls::server::danger::ClientCertVerifier;

use super::server::ServerTls;
use super::session::{Session, SessionError};
use crate::memory::Buffer;

/// Seals tickets, and opens none: a handshake by it proves everything anew.
#[derive(Debug)]
pub(super) struct Unopened(pub(super) Arc<dyn ProducesTickets>);

impl ProducesTickets for Unopened {
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
    /// A session with a client whose whole first message is in `received`. Where a certificate is
    /// required, that was read already, into `spare`, which then has what is left; an earlier session
    /// is taken up only if its certificate would be let in now. Otherwise the client has to show it
    /// once more, or another one: it learns what is wrong, and a renewed one gets in.
    ///
    /// # Errors
    /// The configuration cannot be used.
    pub(crate) fn session(
        &self,
        received: &mut Buffer,
        spare: &mut Buffer,
    ) -> Result<Session, SessionError> {
        let (Some(anew), Some(clients)) = (&self.anew, &self.clients) else {
            return Session::server(Arc::clone(&self.config));
        };
        // Records are opened in place, and may be needed once more.
        if spare.append(received.filled()) {
            let mut session = Session::server(Arc::clone(&self.config))?;
            let read = session.process(spare, &mut Buffer::default());
            if read.is_ok() && is_sound(&session, &**clients) {
                std::mem::swap(received, spare);
                spare.clear();
                return Ok(session);
            }
            spare.clear();
        }
        Session::server(Arc::clone(anew))
    }
}

/// Whether a session that is about to answer rests on no certificate of before, or on one that is
/// good. After a `HelloRetryRequest` it is not known yet.
fn is_sound(session: &Session, clients: &dyn ClientCertVerifier) -> bool {
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
