//! Binds and listeners.

use xds::model::{
    Alpn, AuthPathPrefix, Bind, BindKey, ClientAuth, Der, ExternalAuth, ExternalAuthProtocol,
    Listener, ListenerKey, ListenerProtocol, ObjectName, Resource, ServerCertificate, TlsServer,
    TlsVersion, Transport,
};

use super::{all, certificate, count, gateway, header, host, ip, listener_key, port, to_service};

fn bind_key(transport: Transport, port: u16) -> BindKey {
    BindKey::new(transport, port, &gateway())
}

pub(super) fn binds() -> Vec<Resource> {
    let bind = |address, transport, number| Bind {
        key: bind_key(transport, number),
        address: ip(address),
        port: port(number + 8_000),
        transport,
        gateway: gateway(),
    };
    all([
        bind("0.0.0.0", Transport::Tcp, 80),
        bind("10.0.0.1", Transport::Tcp, 443),
        bind("::", Transport::Udp, 53),
    ])
}

pub(super) fn external_auth() -> Vec<ExternalAuth> {
    vec![
        ExternalAuth {
            target: to_service(),
            protocol: ExternalAuthProtocol::Http {
                path_prefix: AuthPathPrefix::parse("/check").expect("a prefix"),
                request_headers: vec![header("x-tenant")],
                response_headers: vec![header("x-user")],
            },
            body_bytes: Some(count(1_024)),
        },
        ExternalAuth {
            target: to_service(),
            protocol: ExternalAuthProtocol::Grpc {
                request_headers: vec![header("x-tenant")],
            },
            body_bytes: None,
        },
    ]
}

fn tls() -> TlsServer {
    TlsServer {
        certificates: vec![
            ServerCertificate {
                secret: Some(ObjectName::new("infra", "web-tls")),
                pair: Some(certificate()),
            },
            ServerCertificate {
                secret: Some(ObjectName::new("infra", "unusable")),
                pair: None,
            },
        ],
        client_auth: ClientAuth::Required {
            roots: vec![Der::new(b"client root")],
        },
        alpn: vec![Alpn::H2, Alpn::Http11],
        min_version: TlsVersion::V13,
    }
}

pub(super) fn listeners() -> Vec<Resource> {
    let listener = |name: &str, transport, number, protocol| Listener {
        key: listener_key(name),
        bind: bind_key(transport, number),
        gateway: gateway(),
        name: name.to_owned(),
        hostname: Some(host("*.example.com")),
        protocol,
        external_auth: external_auth(),
    };
    let optional = TlsServer {
        client_auth: ClientAuth::Optional {
            roots: vec![Der::new(b"client root")],
        },
        ..TlsServer::refusing()
    };
    let of_set = Listener {
        key: ListenerKey::new("ListenerSet", &ObjectName::new("shop", "own"), "http"),
        bind: bind_key(Transport::Tcp, 80),
        gateway: gateway(),
        name: "http".to_owned(),
        hostname: None,
        protocol: ListenerProtocol::Http,
        external_auth: Vec::new(),
    };
    let (tcp, udp) = (Transport::Tcp, Transport::Udp);
    all([
        listener("http", tcp, 80, ListenerProtocol::Http),
        listener("https", tcp, 443, ListenerProtocol::Https(tls())),
        listener("tls", tcp, 443, ListenerProtocol::Tls(optional)),
        listener(
            "refusing",
            tcp,
            443,
            ListenerProtocol::Https(TlsServer::refusing()),
        ),
        listener("passthrough", tcp, 443, ListenerProtocol::TlsPassthrough),
        listener("tcp", tcp, 80, ListenerProtocol::Tcp),
        listener("udp", udp, 53, ListenerProtocol::Udp),
        of_set,
    ])
}
