//! TLS on both sides.

use proptest::collection::vec;
use proptest::prelude::*;
use xds::model::{
    Alpn, BackendTls, Certificate, ClientAuth, Der, PrivateKey, Roots, ServerCertificate,
    SubjectAltName, TlsClient, TlsServer, TlsVersion,
};

use super::value::{exact_hostname, hostname, object_name};

fn ders() -> impl Strategy<Value = Vec<Der>> {
    let der = vec(any::<u8>(), 1..16).prop_map(|bytes| Der::new(&bytes));
    vec(der, 1..3)
}

pub(super) fn certificate() -> impl Strategy<Value = Certificate> {
    (ders(), vec(any::<u8>(), 1..16)).prop_map(|(chain, key)| Certificate {
        chain,
        key: PrivateKey::new(&key),
    })
}

fn server_certificate() -> impl Strategy<Value = ServerCertificate> {
    let named = (object_name(), prop::option::of(certificate()));
    prop_oneof![
        named.prop_map(|(secret, pair)| ServerCertificate {
            secret: Some(secret),
            pair
        }),
        certificate().prop_map(|pair| ServerCertificate {
            secret: None,
            pair: Some(pair)
        }),
    ]
}

prop_compose! {
    pub(super) fn tls_server()(
        certificates in vec(server_certificate(), 0..3),
        client_auth in client_auth(),
        alpn in prop::sample::subsequence(vec![Alpn::H2, Alpn::Http11], 0..=2),
        min_version in prop_oneof![Just(TlsVersion::V12), Just(TlsVersion::V13)],
    ) -> TlsServer {
        TlsServer { certificates, client_auth, alpn, min_version }
    }
}

fn client_auth() -> impl Strategy<Value = ClientAuth> {
    prop_oneof![
        Just(ClientAuth::None),
        ders().prop_map(|roots| ClientAuth::Required { roots }),
        ders().prop_map(|roots| ClientAuth::Optional { roots }),
    ]
}

pub(super) fn backend_tls() -> impl Strategy<Value = BackendTls> {
    prop_oneof![
        3 => tls_client().prop_map(BackendTls::Verified),
        1 => exact_hostname().prop_map(|server_name| BackendTls::Unverified { server_name }),
        1 => Just(BackendTls::Invalid),
    ]
}

prop_compose! {
    fn tls_client()(
        server_name in exact_hostname(),
        identities in vec(identity(), 0..3),
        roots in prop_oneof![Just(Roots::System), ders().prop_map(Roots::Certificates)],
    ) -> TlsClient {
        TlsClient { server_name, identities, roots }
    }
}

fn identity() -> impl Strategy<Value = SubjectAltName> {
    prop_oneof![
        hostname().prop_map(SubjectAltName::Dns),
        "spiffe://[a-z./]{1,16}".prop_map(SubjectAltName::Uri),
    ]
}
