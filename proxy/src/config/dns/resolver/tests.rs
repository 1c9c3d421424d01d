//! Against a name server of our own, which speaks real DNS over UDP.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{NameServerConfig, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use tokio::net::UdpSocket;
use xds::model::Hostname;

use super::{Resolver, configure};

/// A server that knows `known.test` alone.
async fn server() -> SocketAddr {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .expect("a free port");
    let address = socket.local_addr().expect("it is bound");
    tokio::spawn(async move {
        let mut packet = [0; 512];
        while let Ok((length, client)) = socket.recv_from(&mut packet).await {
            let answer = answer(&packet[..length]);
            socket
                .send_to(&answer, client)
                .await
                .expect("loopback takes it");
        }
    });
    address
}

/// RFC 1035 section 4: the header, the question as it came, and one record for each address.
fn answer(query: &[u8]) -> Vec<u8> {
    let name_end = 12
        + query[12..]
            .iter()
            .position(|byte| *byte == 0)
            .expect("a name");
    let question = &query[12..name_end + 5];
    let known = question.starts_with(b"\x05known\x04test\0\0\x01");
    let addresses: &[[u8; 4]] = if known {
        &[[10, 0, 0, 2], [10, 0, 0, 1]]
    } else {
        &[]
    };
    let exists = question.starts_with(b"\x05known");
    let code = if exists { 0x80 } else { 0x83 };
    let mut answer = query[..2].to_vec();
    answer.extend([
        0x81,
        code,
        0,
        1,
        0,
        u8::try_from(addresses.len()).expect("few"),
        0,
        0,
        0,
        0,
    ]);
    answer.extend(question);
    for address in addresses {
        // The name at offset 12, A, IN, 30 s, four bytes.
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 30, 0, 4]);
        answer.extend(address);
    }
    answer
}

async fn resolver() -> Resolver {
    let server = server().await;
    let mut name_server = NameServerConfig::udp(server.ip());
    name_server.connections[0].port = server.port();
    let config = ResolverConfig::from_parts(None, Vec::new(), vec![name_server]);
    let provider = TokioRuntimeProvider::default();
    let mut builder = TokioResolver::builder_with_config(config, provider);
    configure(builder.options_mut());
    Resolver::new(builder.build().expect("a resolver"))
}

fn name(text: &str) -> Hostname {
    Hostname::parse(text).expect("a name")
}

#[tokio::test]
async fn a_name_comes_to_all_its_addresses_for_as_long_as_its_record_says() {
    let answer = resolver()
        .await
        .lookup(&name("known.test"))
        .await
        .expect("it is known");
    let mut addresses = answer.addresses;
    addresses.sort();
    let expected = [[10, 0, 0, 1], [10, 0, 0, 2]].map(|it| IpAddr::from(Ipv4Addr::from(it)));
    assert_eq!(addresses, expected);
    let ttl = answer.ttl;
    assert!(
        ttl > Duration::from_secs(25) && ttl <= Duration::from_secs(30),
        "{ttl:?}"
    );
}

#[tokio::test]
async fn a_name_that_nobody_knows_is_an_error() {
    let error = resolver().await.lookup(&name("unknown.test")).await;
    assert!(error.is_err(), "{error:?}");
}

#[tokio::test]
async fn the_machine_s_own_names_are_known() {
    let answer = Resolver::system()
        .lookup(&name("localhost"))
        .await
        .expect("every machine has it");
    assert!(answer.addresses.iter().all(IpAddr::is_loopback));
}
