//! Both ends of a session, with the records between them split, corrupted and delayed.

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ProtocolVersion, RootCertStore, ServerConfig, SupportedProtocolVersion,
};

use super::{SessionError, TlsSession};
use crate::limits::BUFFER_BYTES;
use crate::memory::Buffer;
use crate::tls::sample::{End, handshake};

fn configs(version: &'static SupportedProtocolVersion) -> (Arc<ClientConfig>, Arc<ServerConfig>) {
    let generated =
        rcgen::generate_simple_self_signed(["a.test".to_owned()]).expect("a certificate");
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(
        generated.signing_key.serialize_der(),
    ));
    let certificate = generated.cert.der().clone();
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).expect("our own certificate");
    let provider = Arc::new(ring::default_provider());
    let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[version])
        .expect("ring speaks it")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let server = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .expect("ring speaks it")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("a key that fits");
    (Arc::new(client), Arc::new(server))
}

/// Both ends before the first byte.
fn pair_before_handshake(version: &'static SupportedProtocolVersion) -> (End, End) {
    let (client, server) = configs(version);
    let name = ServerName::try_from("a.test").expect("a name");
    let client = TlsSession::client(client, name).expect("a configuration");
    let server = TlsSession::server(server).expect("a configuration");
    (End::new(client), End::new(server))
}

/// Both ends after a handshake whose bytes came in pieces of this size.
fn connected_pair(version: &'static SupportedProtocolVersion, cut: usize) -> (End, End) {
    let (mut client, mut server) = pair_before_handshake(version);
    handshake(&mut client, &mut server, cut).expect("a valid handshake");
    for end in [&client, &server] {
        assert!(!end.session.agreed().is_handshaking());
    }
    (client, server)
}

const VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS12, &TLS13];

#[test]
fn handshake_and_data_do_not_depend_on_the_sizes_of_reads() {
    for version in VERSIONS {
        for cut in 1..=64 {
            let (mut client, mut server) = connected_pair(version, cut);
            let records = client.seals(b"a question");
            server.takes(&records, cut).expect("valid records");
            assert_eq!(server.plain.filled(), b"a question", "in pieces of {cut}");
            let records = [
                server.seals(b"an "),
                server.seals(b"answer"),
                server.closes(),
            ]
            .concat();
            client.takes(&records, cut).expect("valid records");
            assert_eq!(client.plain.filled(), b"an answer", "in pieces of {cut}");
            assert!(client.session.is_at_end());
            assert!(
                client.incoming.is_empty(),
                "nothing is kept of records that were opened"
            );
        }
    }
}

#[test]
fn the_negotiated_version_is_the_one_both_peers_support() {
    let version = |version| {
        connected_pair(version, BUFFER_BYTES)
            .1
            .session
            .agreed()
            .protocol_version()
    };
    assert_eq!(version(&TLS12), Some(ProtocolVersion::TLSv1_2));
    assert_eq!(version(&TLS13), Some(ProtocolVersion::TLSv1_3));
}

#[test]
fn a_full_buffer_is_sealed_in_few_records_and_opened() {
    for version in VERSIONS {
        let (mut client, mut server) = connected_pair(version, BUFFER_BYTES);
        let sent: Vec<u8> = (0..=250).cycle().take(BUFFER_BYTES).collect();
        let records = client.seals(&sent);
        assert!(records.len() < sent.len() + 256, "{} bytes", records.len());
        server.takes(&records, 10_000).expect("valid records");
        assert!(server.plain.filled() == sent);
    }
}

#[test]
fn plaintext_without_space_stays_queued() {
    let (mut client, mut server) = connected_pair(&TLS13, BUFFER_BYTES);
    let records = [
        client.seals(&[b'x'; 3000]),
        client.seals(&[b'y'; 3000]),
        client.closes(),
    ]
    .concat();
    assert!(server.incoming.append(&records));
    let all = server.plain.room();
    assert!(server.plain.append(&vec![0; all - 1000]));
    let mut process = |plain: &mut Buffer| {
        server
            .session
            .process(&mut server.incoming, plain)
            .expect("valid records")
    };
    assert_eq!(process(&mut server.plain), 1000);
    assert_eq!(process(&mut server.plain), 0, "it is full");
    server.plain.consume(all - 1000);
    assert_eq!(server.plain.filled(), [b'x'; 1000]);
    let mut next = Buffer::with_room();
    assert!(next.append(&vec![0; all - 2500]));
    assert_eq!(
        process(&mut next),
        2500,
        "the first record's rest, and some of the second"
    );
    let mut last = Buffer::with_room();
    assert_eq!(process(&mut last), 2500);
    assert_eq!(last.filled(), [b'y'; 2500]);
    assert!(server.session.is_at_end());
}

#[test]
fn a_session_that_cannot_read_can_still_write() {
    let (mut client, mut server) = connected_pair(&TLS13, BUFFER_BYTES);
    let records = [client.seals(&[b'x'; 3000]), client.seals(&[b'y'; 3000])].concat();
    assert!(server.incoming.append(&records));
    let mut full = Buffer::with_room();
    let all = full.room();
    assert!(full.append(&vec![0; all - 1]));
    server
        .session
        .process(&mut server.incoming, &mut full)
        .expect("valid records");
    assert!(server.session.has_more());
    let answer = server.seals(b"answer");
    client.takes(&answer, BUFFER_BYTES).expect("valid records");
    assert_eq!(client.plain.filled(), b"answer");
    server
        .session
        .process(&mut server.incoming, &mut server.plain)
        .expect("valid records");
    assert_eq!(server.plain.len(), 5999);
}

#[test]
fn a_corrupt_record_ends_the_session_with_an_alert() {
    for version in VERSIONS {
        let (mut client, mut server) = connected_pair(version, BUFFER_BYTES);
        let mut records = client.seals(b"a question");
        *records.last_mut().expect("a record") ^= 1;
        server.takes(&records, BUFFER_BYTES).expect_err("a bad tag");
        assert!(server.plain.is_empty());
        assert!(server.seal_fails());
    }
}

#[test]
fn the_alert_describes_the_error() {
    let (mut client, mut server) = connected_pair(&TLS13, BUFFER_BYTES);
    let mut records = client.seals(b"a question");
    *records.last_mut().expect("a record") ^= 1;
    assert!(server.incoming.append(&records));
    server
        .session
        .process(&mut server.incoming, &mut server.plain)
        .expect_err("a bad tag");
    let alert = server.session.take_outgoing();
    let received = client.takes(&alert, BUFFER_BYTES).expect_err("an alert");
    let expected = rustls::Error::AlertReceived(rustls::AlertDescription::BadRecordMac);
    assert!(matches!(received, SessionError::Tls(error) if error == expected));
}

#[test]
fn garbage_instead_of_a_handshake_ends_the_session() {
    for garbage in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[22, 3, 1, 0, 4, 99, 0, 0, 0],
        &[22, 3, 1, 0xff, 0xff],
    ] {
        let (_, mut server) = pair_before_handshake(&TLS13);
        server.takes(garbage, 1).expect_err("no handshake");
        assert!(server.seal_fails());
    }
}

#[test]
fn records_out_of_order_end_the_session() {
    let (mut client, mut server) = connected_pair(&TLS13, BUFFER_BYTES);
    let (first, second) = (client.seals(b"first"), client.seals(b"second"));
    server
        .takes(&[second, first].concat(), BUFFER_BYTES)
        .expect_err("a bad tag");
    assert!(server.plain.is_empty());
}

#[test]
fn data_cannot_be_sealed_before_the_handshake() {
    let (mut client, mut server) = pair_before_handshake(&TLS13);
    assert!(client.seal_fails());
    assert!(server.seal_fails());
    assert!(server.closes().is_empty());
}

#[test]
fn a_response_can_be_sent_after_the_peers_close_notify() {
    for version in VERSIONS {
        let (mut client, mut server) = connected_pair(version, BUFFER_BYTES);
        let records = [client.seals(b"question"), client.closes()].concat();
        server.takes(&records, BUFFER_BYTES).expect("valid records");
        assert!(server.session.is_at_end());
        let records = [server.seals(b"answer"), server.closes()].concat();
        assert!(server.seal_fails(), "close_notify was sent");
        assert!(server.closes().is_empty(), "close_notify is sent once");
        client.takes(&records, BUFFER_BYTES).expect("valid records");
        assert_eq!(client.plain.filled(), b"answer");
        assert!(client.session.is_at_end());
    }
}

/// TLS 1.3: a handshake message may be split into several records, and the other end can still
/// write while it waits for the rest.
#[test]
fn an_incomplete_handshake_message_does_not_stop_the_other_direction() {
    let (mut client, mut server) = pair_before_handshake(&TLS13);
    client
        .session
        .process(&mut Buffer::default(), &mut client.plain)
        .expect("it begins");
    let hello = client.session.take_outgoing();
    let (first, rest) = hello[5..].split_at(40);
    let record = |part: &[u8]| {
        let length = u16::try_from(part.len()).expect("short").to_be_bytes();
        [&[22, 3, 1], &length[..], part].concat()
    };
    server
        .takes(&record(first), BUFFER_BYTES)
        .expect("the first half");
    assert!(TlsSession::needs(&server.incoming));
    assert!(server.seal_fails());
    let reply = server
        .takes(&record(rest), BUFFER_BYTES)
        .expect("all of it");
    assert!(!reply.is_empty());
    assert!(!TlsSession::needs(&server.incoming));
}
