//! The values that several resources are made of.

use std::net::IpAddr;
use std::num::NonZeroU16;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Method, StatusCode};
use proptest::option;
use proptest::prelude::*;
use xds::model::{
    BackendKey, BindKey, Hostname, InvalidBackend, ListenerKey, ObjectName, ServiceKey, Target,
    Timeout, Transport,
};

pub(super) fn name() -> impl Strategy<Value = String> {
    "[a-z][a-z0-9.-]{0,12}"
}

pub(super) fn object_name() -> impl Strategy<Value = ObjectName> {
    (name(), name()).prop_map(|(namespace, name)| ObjectName::new(&namespace, &name))
}

pub(super) fn transport() -> impl Strategy<Value = Transport> {
    prop_oneof![Just(Transport::Tcp), Just(Transport::Udp)]
}

pub(super) fn bind_key() -> impl Strategy<Value = BindKey> {
    (transport(), any::<u16>(), object_name())
        .prop_map(|(transport, port, gateway)| BindKey::new(transport, port, &gateway))
}

pub(super) fn listener_key() -> impl Strategy<Value = ListenerKey> {
    let kind = prop_oneof![Just("Gateway"), Just("ListenerSet")];
    (kind, object_name(), name())
        .prop_map(|(kind, object, listener)| ListenerKey::new(kind, &object, &listener))
}

pub(super) fn service_key() -> impl Strategy<Value = ServiceKey> {
    object_name().prop_map(|object| ServiceKey::new(&object))
}

pub(super) fn backend_key() -> impl Strategy<Value = BackendKey> {
    object_name().prop_map(|object| BackendKey::new(&object))
}

pub(super) fn address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<[u8; 4]>().prop_map(IpAddr::from),
        any::<[u8; 16]>().prop_map(IpAddr::from),
    ]
}

pub(super) fn network() -> impl Strategy<Value = (IpAddr, u8)> {
    prop_oneof![
        (any::<[u8; 4]>().prop_map(IpAddr::from), 0..=32_u8),
        (any::<[u8; 16]>().prop_map(IpAddr::from), 0..=128_u8),
    ]
}

pub(super) fn port() -> impl Strategy<Value = NonZeroU16> {
    any::<NonZeroU16>()
}

pub(super) fn exact_hostname() -> impl Strategy<Value = Hostname> {
    "[a-z][a-z0-9]{0,8}(\\.[a-z]{1,5}){0,3}"
        .prop_map(|text| Hostname::parse_exact(&text).expect("an exact name"))
}

pub(super) fn hostname() -> impl Strategy<Value = Hostname> {
    (any::<bool>(), exact_hostname()).prop_map(|(wildcard, name)| {
        let star = if wildcard { "*." } else { "" };
        Hostname::parse(&format!("{star}{name}")).expect("a host name")
    })
}

pub(super) fn duration() -> impl Strategy<Value = Duration> {
    any::<Duration>()
}

pub(super) fn timeout() -> impl Strategy<Value = Timeout> {
    option::of(duration()).prop_map(|given| given.map_or(Timeout::Default, Timeout::from))
}

pub(super) fn header_name() -> impl Strategy<Value = HeaderName> {
    "[a-zA-Z0-9!#$%&'*+.^_`|~-]{1,16}"
        .prop_map(|name| HeaderName::from_bytes(name.as_bytes()).expect("a token"))
}

/// Any bytes that a field value may have, also beyond ASCII.
pub(super) fn header_value() -> impl Strategy<Value = HeaderValue> {
    let byte = any::<u8>().prop_filter("no control characters", |b| {
        *b == b'\t' || (*b >= b' ' && *b != 0x7f)
    });
    prop::collection::vec(byte, 0..16)
        .prop_map(|bytes| HeaderValue::from_bytes(&bytes).expect("a field value"))
}

pub(super) fn method() -> impl Strategy<Value = Method> {
    prop_oneof![
        Just(Method::GET),
        Just(Method::POST),
        "[A-Z]{1,20}".prop_map(|text| Method::from_bytes(text.as_bytes()).expect("a token")),
    ]
}

pub(super) fn status() -> impl Strategy<Value = StatusCode> {
    (100..=999_u16).prop_map(|code| StatusCode::from_u16(code).expect("a status code"))
}

pub(super) fn target() -> impl Strategy<Value = Target> {
    prop_oneof![
        (service_key(), port()).prop_map(|(service, port)| Target::Service {
            service,
            port: port.get()
        }),
        backend_key().prop_map(Target::Backend),
        (
            prop_oneof![
                Just(InvalidBackend::NotFound),
                Just(InvalidBackend::InvalidKind),
                Just(InvalidBackend::NotPermitted),
                Just(InvalidBackend::UnsupportedProtocol),
            ],
            "[a-zA-Z/:0-9]{0,30}"
        )
            .prop_map(|(why, reference)| Target::Invalid { why, reference }),
    ]
}
