//! A configuration in which every field of the model has a value other than its default. Values are
//! written without `..`, so that a new field has to be added here.

mod backends;
mod listeners;
mod policies;
mod routes;

use std::net::IpAddr;
use std::num::{NonZeroU16, NonZeroU32};
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use xds::model::{
    BackendKey, BackendTls, Certificate, Der, Hostname, ListenerKey, Model, ObjectName, PrivateKey,
    Resource, Roots, ServiceKey, SubjectAltName, Target, TlsClient,
};

/// The whole configuration.
pub(super) fn model() -> Model {
    let mut model = Model::default();
    let resources = [
        listeners::binds(),
        listeners::listeners(),
        routes::routes(),
        backends::backends(),
        backends::services(),
        backends::workloads(),
        policies::policies(),
    ];
    for resource in resources.into_iter().flatten() {
        model.insert(resource);
    }
    model
}

fn all<T: Into<Resource>>(resources: impl IntoIterator<Item = T>) -> Vec<Resource> {
    resources.into_iter().map(Into::into).collect()
}

fn gateway() -> ObjectName {
    ObjectName::new("infra", "web")
}

fn listener_key(name: &str) -> ListenerKey {
    ListenerKey::new("Gateway", &gateway(), name)
}

fn service_key() -> ServiceKey {
    ServiceKey::new(&ObjectName::new("shop", "cart"))
}

fn backend_key() -> BackendKey {
    BackendKey::new(&ObjectName::new("shop", "legacy"))
}

fn to_service() -> Target {
    Target::Service {
        service: service_key(),
        port: 80,
    }
}

fn host(name: &str) -> Hostname {
    Hostname::parse(name).expect("a host name")
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn port(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).expect("not 0")
}

fn count(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).expect("not 0")
}

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

fn header(name: &'static str) -> HeaderName {
    HeaderName::from_static(name)
}

fn line(name: &'static str, value: &'static str) -> (HeaderName, HeaderValue) {
    (header(name), HeaderValue::from_static(value))
}

/// A certificate that parses, with a key that must not be shown.
fn certificate() -> Certificate {
    Certificate {
        chain: vec![
            Der::new(include_bytes!("../../../../certificates/sample.der")),
            Der::new(b"intermediate"),
        ],
        key: PrivateKey::new(b"hush-key"),
    }
}

fn verified() -> BackendTls {
    BackendTls::Verified(TlsClient {
        server_name: host("backend.example"),
        identities: vec![
            SubjectAltName::Dns(host("*.backend.example")),
            SubjectAltName::Uri("spiffe://example/backend".to_owned()),
        ],
        roots: Roots::Certificates(vec![Der::new(b"root")]),
    })
}
