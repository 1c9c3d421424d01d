//! Both ends of a TLS session, whose records are cut, held back, bent and exchanged as the input
//! says. What is read is always the beginning of what was written, and all of it where nobody
//! meddled.

use std::sync::{Arc, LazyLock};

use proxy::memory::Buffer;
use proxy::tls::session::TlsSession;
use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// Plays `data`, a step a byte.
pub(crate) fn check(data: &[u8]) {
    let mut ends = Ends::begin();
    for byte in data {
        ends.step(byte & 7, usize::from(byte >> 3));
    }
    ends.deliver_all();
    for end in [&ends.client, &ends.server] {
        assert!(
            end.written.starts_with(&end.peer_read),
            "what was read was written"
        );
    }
    if !ends.meddled {
        for end in [&ends.client, &ends.server] {
            assert!(!end.failed, "nobody meddled");
            assert!(end.written == end.peer_read, "all of it is read");
        }
    }
}

struct Ends {
    client: End,
    server: End,
    meddled: bool,
    /// Whether the server has said that nothing more comes.
    closed: bool,
}

/// One end, and what goes from it to the other.
struct End {
    session: TlsSession,
    incoming: Buffer,
    plain: Buffer,
    /// Records on their way to the other end.
    under_way: Vec<u8>,
    written: Vec<u8>,
    /// What the other end has read.
    peer_read: Vec<u8>,
    failed: bool,
}

impl End {
    fn new(session: TlsSession) -> Self {
        Self {
            session,
            incoming: Buffer::with_room(),
            plain: Buffer::with_room(),
            under_way: Vec::new(),
            written: Vec::new(),
            peer_read: Vec::new(),
            failed: false,
        }
    }

    fn write(&mut self, count: usize) {
        let bytes: Vec<u8> = (0..=255)
            .cycle()
            .skip(self.written.len() % 256)
            .take(count)
            .collect();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let mut out = Buffer::with_room();
            let Ok(sealed) = self.session.seal(rest, &mut self.incoming, &mut out) else {
                return;
            };
            self.written.extend_from_slice(&rest[..sealed]);
            self.under_way.extend_from_slice(out.filled());
            rest = &rest[sealed..];
        }
    }

    /// Takes bytes of the other end; what came of them is that end's `peer_read`.
    fn take(&mut self, bytes: &[u8], read: &mut Vec<u8>) {
        for piece in bytes.chunks(8 * 1024) {
            self.incoming.make_room();
            if !self.incoming.append(piece) {
                self.failed = true;
            }
            loop {
                self.plain.clear();
                let processed = self.session.process(&mut self.incoming, &mut self.plain);
                read.extend_from_slice(self.plain.filled());
                self.under_way.extend(self.session.take_outgoing());
                match processed {
                    Ok(0) if !self.session.has_more() => break,
                    Ok(_) => {}
                    Err(_) => {
                        self.failed = true;
                        return;
                    }
                }
            }
        }
    }
}

impl Ends {
    fn begin() -> Self {
        let (client, server) = &*CONFIGS;
        let name = ServerName::try_from("a.test").expect("a name");
        let client = TlsSession::client(Arc::clone(client), name).expect("a sound configuration");
        let server = TlsSession::server(Arc::clone(server)).expect("a sound configuration");
        let mut ends = Self {
            client: End::new(client),
            server: End::new(server),
            meddled: false,
            closed: false,
        };
        let begun = ends
            .client
            .session
            .process(&mut Buffer::default(), &mut Buffer::with_room());
        begun.expect("it begins");
        ends.client
            .under_way
            .extend(ends.client.session.take_outgoing());
        ends
    }

    fn step(&mut self, step: u8, count: usize) {
        match step {
            0 => self.deliver_to_server(count * count + 1),
            1 => self.deliver_to_client(count * count + 1),
            2 => self.client.write(count * count * 40),
            3 => self.server.write(count * count * 40),
            4 => self.deliver_all(),
            5 => self.bend(count),
            6 => self.exchange(count),
            _ => {
                if self.meddled {
                    return;
                }
                self.closed = true;
                self.server.session.close(&mut self.server.incoming);
                let notice = self.server.session.take_outgoing();
                self.server.under_way.extend(notice);
            }
        }
    }

    fn deliver_to_server(&mut self, count: usize) {
        let count = count.min(self.client.under_way.len());
        let bytes: Vec<u8> = self.client.under_way.drain(..count).collect();
        self.server.take(&bytes, &mut self.client.peer_read);
    }

    fn deliver_to_client(&mut self, count: usize) {
        let count = count.min(self.server.under_way.len());
        let bytes: Vec<u8> = self.server.under_way.drain(..count).collect();
        self.client.take(&bytes, &mut self.server.peer_read);
    }

    fn deliver_all(&mut self) {
        while !(self.client.under_way.is_empty() && self.server.under_way.is_empty()) {
            self.deliver_to_server(usize::MAX);
            self.deliver_to_client(usize::MAX);
        }
    }

    /// Changes a bit of what goes to the server, unless that has closed: debug builds of rustls take
    /// an alert after a goodbye for a mistake of their own.
    fn bend(&mut self, count: usize) {
        if self.closed {
            return;
        }
        let at = count * self.client.under_way.len() / 32;
        if let Some(byte) = self.client.under_way.get_mut(at) {
            *byte ^= 1 << (count % 8);
            self.meddled = true;
        }
    }

    /// Lets a part of what goes to the client overtake another.
    fn exchange(&mut self, count: usize) {
        let bytes = &mut self.server.under_way;
        let at = count * bytes.len() / 32;
        if at > 0 {
            bytes.rotate_left(at);
            self.meddled = true;
        }
    }
}

static CONFIGS: LazyLock<(Arc<ClientConfig>, Arc<ServerConfig>)> = LazyLock::new(|| {
    let made = rcgen::generate_simple_self_signed(["a.test".to_owned()]).expect("a certificate");
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let mut roots = RootCertStore::empty();
    roots
        .add(made.cert.der().clone())
        .expect("our own certificate");
    let provider = Arc::new(ring::default_provider());
    let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("ring speaks them")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let server = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring speaks them")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], PrivateKeyDer::from(key))
        .expect("a key that fits");
    (Arc::new(client), Arc::new(server))
});
