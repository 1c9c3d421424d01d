//! Values shared by several resources.

use std::net::IpAddr;
use std::num::NonZeroU16;
use std::time::Duration;

use http::{HeaderName, StatusCode};

use super::field_path::FieldPath;
use crate::model::{
    BackendKey, Feature, Hostname, InvalidBackend, ObjectName, ServiceKey, Target, Timeout,
    Transport,
};
use crate::proto::{self, target, timeout};

/// An enum value; `meaning` returns `None` for the unspecified one.
pub(super) fn choice<E: TryFrom<i32>, T>(
    at: &FieldPath<'_>,
    number: i32,
    meaning: impl FnOnce(E) -> Option<T>,
) -> Option<T> {
    match E::try_from(number) {
        Ok(value) => meaning(value).or_else(|| at.missing()),
        Err(_) => at.problem(format!("{number} is unknown to this version")),
    }
}

/// The name of a feature that a resource needs.
pub(super) fn features(at: &FieldPath<'_>, names: Vec<String>) -> Option<()> {
    at.list("features", names, feature).map(drop)
}

fn feature(at: &FieldPath<'_>, name: String) -> Option<Feature> {
    Feature::of_name(&name).or_else(|| {
        at.problem(format!(
            "`{name}` is a feature that this version does not have, and without which it would not do what was \
             configured: update the proxy"
        ))
    })
}

/// An address of 4 or 16 bytes.
pub(super) fn address(at: &FieldPath<'_>, bytes: &[u8]) -> Option<IpAddr> {
    if bytes.is_empty() {
        return at.missing();
    }
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    let v6 = <[u8; 16]>::try_from(bytes).map(IpAddr::from);
    v4.or(v6).ok().or_else(|| {
        let length = bytes.len();
        at.problem(format!(
            "has {length} bytes: an address has 4 (IPv4) or 16 (IPv6)"
        ))
    })
}

/// An address and a prefix length.
pub(super) fn network(at: &FieldPath<'_>, message: proto::Network) -> Option<(IpAddr, u8)> {
    let address = address(&at.field("address"), &message.address)?;
    let max = if address.is_ipv4() { 32 } else { 128 };
    match u8::try_from(message.prefix_length) {
        Ok(length) if length <= max => Some((address, length)),
        _ => at.field("prefix_length").problem(format!(
            "{} is too long a prefix of {address}: use 0 to {max}",
            message.prefix_length
        )),
    }
}

/// A port, 1 to 65535.
pub(super) fn port(at: &FieldPath<'_>, number: u32) -> Option<NonZeroU16> {
    let port = u16::try_from(number).ok().and_then(NonZeroU16::new);
    port.or_else(|| at.problem(format!("{number} is not a port: use 1 to 65535")))
}

/// A number other than 0.
pub(super) fn non_zero<N, Z: TryFrom<N>>(at: &FieldPath<'_>, number: N) -> Option<Z> {
    let number = Z::try_from(number).ok();
    number.or_else(|| at.problem("0 is too small: use 1 or more"))
}

/// A number up to `max`.
pub(super) fn at_most(at: &FieldPath<'_>, number: u32, max: u32) -> Option<u32> {
    if number > max {
        return at.problem(format!("{number} is too large: use {max} or less"));
    }
    Some(number)
}

/// A number of 16 bits.
pub(super) fn number16(at: &FieldPath<'_>, number: u32) -> Option<u16> {
    at.accept(
        u16::try_from(number).map_err(|_| format!("{number} is too large: use 65535 or less")),
    )
}

/// A status code, 100 to 999.
pub(super) fn status(at: &FieldPath<'_>, number: u32) -> Option<StatusCode> {
    let code = u16::try_from(number).ok();
    let status = code.and_then(|code| StatusCode::from_u16(code).ok());
    status.or_else(|| at.problem(format!("{number} is not a status code: use 100 to 999")))
}

pub(super) fn transport(at: &FieldPath<'_>, number: i32) -> Option<Transport> {
    choice(at, number, |transport| match transport {
        proto::Transport::Unspecified => None,
        proto::Transport::Tcp => Some(Transport::Tcp),
        proto::Transport::Udp => Some(Transport::Udp),
    })
}

/// A host name, exact or a wildcard.
pub(super) fn hostname(at: &FieldPath<'_>, text: String) -> Option<Hostname> {
    at.accept(Hostname::parse(&text))
}

/// A field name, in either case.
pub(super) fn header_name(at: &FieldPath<'_>, text: &str) -> Option<HeaderName> {
    let name = HeaderName::from_bytes(text.as_bytes());
    at.accept(name.map_err(|_| format!("`{text}` is not a header name")))
}

/// An exact host name, without wildcard.
pub(super) fn exact_hostname(at: &FieldPath<'_>, text: &str) -> Option<Hostname> {
    at.accept(Hostname::parse_exact(text))
}

/// A text that is set but not empty.
pub(super) fn set_text(at: &FieldPath<'_>, text: String) -> Option<String> {
    if text.is_empty() {
        return at.problem("is empty: set it, or leave it out");
    }
    Some(text)
}

pub(super) fn object_name(at: &FieldPath<'_>, message: proto::ObjectName) -> Option<ObjectName> {
    let namespace = at.text("namespace", message.namespace);
    let name = at.text("name", message.name);
    at.accept(ObjectName::parse(&namespace?, &name?))
}

pub(super) fn duration(at: &FieldPath<'_>, message: proto::Duration) -> Option<Duration> {
    if message.nanos >= NANOS_PER_SECOND {
        return at.field("nanos").problem(format!(
            "{} is one second or more: use `seconds`",
            message.nanos
        ));
    }
    Some(Duration::new(message.seconds, message.nanos))
}

/// A duration other than zero.
pub(super) fn positive_duration(at: &FieldPath<'_>, message: proto::Duration) -> Option<Duration> {
    let duration = duration(at, message)?;
    if duration.is_zero() {
        return at.problem("0 is too short: use a longer duration");
    }
    Some(duration)
}

/// A timeout; zero means never, as in Gateway API.
pub(super) fn timeout(at: &FieldPath<'_>, message: proto::Timeout) -> Option<Timeout> {
    match message.kind {
        Some(timeout::Kind::Unset(proto::Unit {})) => Some(Timeout::Default),
        Some(timeout::Kind::Never(proto::Unit {})) => Some(Timeout::Never),
        Some(timeout::Kind::After(after)) => duration(&at.field("after"), after).map(Timeout::from),
        None => at.record_missing_choice(),
    }
}

pub(super) fn target(at: &FieldPath<'_>, message: proto::Target) -> Option<Target> {
    match message.kind {
        Some(target::Kind::Service(message)) => {
            let at = at.field("service");
            let service = at.parsed("service", &message.service, ServiceKey::parse);
            let port = port(&at.field("port"), message.port);
            Some(Target::Service {
                service: service?,
                port: port?.get(),
            })
        }
        Some(target::Kind::Backend(key)) => at
            .parsed("backend", &key, BackendKey::parse)
            .map(Target::Backend),
        Some(target::Kind::Invalid(why)) => {
            let why = choice(&at.field("invalid"), why, invalid_backend)?;
            let reference = message.reference;
            Some(Target::Invalid { why, reference })
        }
        None => at.record_missing_choice(),
    }
}

fn invalid_backend(why: proto::InvalidBackend) -> Option<InvalidBackend> {
    match why {
        proto::InvalidBackend::Unspecified => None,
        proto::InvalidBackend::NotFound => Some(InvalidBackend::NotFound),
        proto::InvalidBackend::InvalidKind => Some(InvalidBackend::InvalidKind),
        proto::InvalidBackend::NotPermitted => Some(InvalidBackend::NotPermitted),
        proto::InvalidBackend::UnsupportedProtocol => Some(InvalidBackend::UnsupportedProtocol),
    }
}

/// Larger values would make `Duration::new` carry into the seconds, where it could overflow.
const NANOS_PER_SECOND: u32 = 1_000_000_000;
