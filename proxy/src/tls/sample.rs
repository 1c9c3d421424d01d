//! Both ends of a session in memory, for tests.

use super::session::{SessionError, TlsSession};
use crate::memory::Buffer;

/// One end, with the bytes received and not decrypted yet, and the plaintext read.
pub(super) struct End {
    pub(super) session: TlsSession,
    pub(super) incoming: Buffer,
    pub(super) plain: Buffer,
}

impl End {
    pub(super) fn new(session: TlsSession) -> Self {
        Self {
            session,
            incoming: Buffer::with_room(),
            plain: Buffer::with_room(),
        }
    }

    /// Passes bytes of the other end in pieces of this size; returns the response.
    pub(super) fn takes(&mut self, bytes: &[u8], cut: usize) -> Result<Vec<u8>, SessionError> {
        let mut outgoing = Vec::new();
        for piece in bytes.chunks(cut) {
            self.incoming.make_room();
            assert!(self.incoming.append(piece), "a reader that keeps up");
            let processed = self.session.process(&mut self.incoming, &mut self.plain);
            outgoing.extend(self.session.take_outgoing());
            processed?;
        }
        Ok(outgoing)
    }

    pub(super) fn seals(&mut self, plain: &[u8]) -> Vec<u8> {
        let mut records = Vec::new();
        let mut rest = plain;
        while !rest.is_empty() {
            let mut out = Buffer::with_room();
            let sealed = self.session.seal(rest, &mut self.incoming, &mut out);
            rest = &rest[sealed.expect("an open session")..];
            records.extend_from_slice(out.filled());
        }
        records
    }

    pub(super) fn closes(&mut self) -> Vec<u8> {
        self.session.close(&mut self.incoming);
        self.session.take_outgoing()
    }

    pub(super) fn seal_fails(&mut self) -> bool {
        let mut out = Buffer::with_room();
        self.session
            .seal(b"x", &mut self.incoming, &mut out)
            .is_err()
            && out.is_empty()
    }
}

/// Completes a handshake, with messages in pieces of this size.
pub(super) fn handshake(
    client: &mut End,
    server: &mut End,
    cut: usize,
) -> Result<(), SessionError> {
    client
        .session
        .process(&mut Buffer::default(), &mut client.plain)?;
    let mut to_server = client.session.take_outgoing();
    while !to_server.is_empty() {
        let to_client = server.takes(&to_server, cut)?;
        to_server = client.takes(&to_client, cut)?;
    }
    Ok(())
}
