//! A rule of a route object.

use std::collections::BTreeMap;

use prost::Message as _;
use prost::encoding::{WireType, decode_key, decode_varint};

use super::value::{list, texts};
use crate::model::{
    Attachment, CookiePath, Filters, Hostname, HttpRule, L4Backend, L4Rule, Order, RequestProtocol,
    Retry, Route, RouteBackend, RouteRule, SessionLifetime, SessionPersistence, SessionToken,
    Timeout,
};
use crate::proto::{self, route, session_persistence};

/// The bytes of a rule: its key and listeners before everything else, so that a proxy that cannot read the rest
/// knows where to refuse its requests.
pub(super) fn bytes(route: &Route) -> Vec<u8> {
    let mut rest = proto::Route::from(route);
    let head = proto::Route {
        key: std::mem::take(&mut rest.key),
        listener: std::mem::take(&mut rest.listener),
        hostnames: std::mem::take(&mut rest.hostnames),
        attachments: std::mem::take(&mut rest.attachments),
        ..proto::Route::default()
    };
    let mut bytes = Vec::with_capacity(head.encoded_len().saturating_add(rest.encoded_len()));
    bytes.extend(head.encode_to_vec());
    bytes.extend(rest.encode_to_vec());
    bytes
}

/// Bytes of the key and the listeners at the beginning of a rule's message.
pub(super) fn head_bytes(message: &[u8]) -> usize {
    let mut rest = message;
    loop {
        let begun = rest;
        let field = decode_key(&mut rest).ok();
        let is_head = field.is_some_and(|(tag, wire_type)| {
            HEAD_FIELDS.contains(&tag) && wire_type == WireType::LengthDelimited
        });
        let length = is_head.then(|| decode_varint(&mut rest).ok()).flatten();
        let length = length.and_then(|length| usize::try_from(length).ok());
        match length.and_then(|length| rest.get(length..)) {
            Some(after) => rest = after,
            None => return message.len().saturating_sub(begun.len()),
        }
    }
}

/// The fields of [`proto::Route`] that say where a rule is: its key, and its listeners in both forms.
const HEAD_FIELDS: [u32; 4] = [1, 2, 3, 9];

impl From<&Route> for proto::Route {
    fn from(route: &Route) -> Self {
        let message = Self {
            key: route.key.to_string(),
            order: Some(route.order().into()),
            rule: Some((&route.rule).into()),
            features: route.rule.needs().names(),
            ..Self::default()
        };
        match (route.key.listener(), &*route.attachments) {
            (Some(listener), [only]) if only.listener == listener => Self {
                listener: listener.to_string(),
                hostnames: texts(&only.hostnames),
                ..message
            },
            (_, attachments) => Self {
                attachments: self::attachments(attachments),
                ..message
            },
        }
    }
}

/// Listeners of one object that have equal hosts share them: there are as many as an object can have.
fn attachments(attachments: &[Attachment]) -> Vec<proto::Attachment> {
    let mut groups: BTreeMap<(&str, &[Hostname]), Vec<String>> = BTreeMap::new();
    for Attachment {
        listener,
        hostnames,
    } in attachments
    {
        let (object, name) = listener.object_and_name();
        let group = groups.entry((object, hostnames)).or_default();
        group.push(name.to_owned());
    }
    let groups = groups.into_iter();
    let messages = groups.map(|((object, hostnames), listeners)| proto::Attachment {
        object: object.to_owned(),
        listeners,
        hostnames: texts(hostnames),
    });
    messages.collect()
}

impl From<&RouteRule> for route::Rule {
    fn from(rule: &RouteRule) -> Self {
        match rule {
            RouteRule::Http(rule) => Self::Http(rule.into()),
            RouteRule::Tls(rule) => Self::Tls(rule.into()),
            RouteRule::Tcp(rule) => Self::Tcp(rule.into()),
            RouteRule::Udp(rule) => Self::Udp(rule.into()),
        }
    }
}

impl From<Order<'_>> for proto::Order {
    fn from(order: Order<'_>) -> Self {
        Self {
            created: order.created,
            object: order.object.to_owned(),
            rule: order.rule.into(),
        }
    }
}

impl From<&HttpRule> for proto::HttpRule {
    fn from(rule: &HttpRule) -> Self {
        let protocol = match rule.protocol {
            RequestProtocol::Http => proto::RequestProtocol::Http,
            RequestProtocol::Grpc => proto::RequestProtocol::Grpc,
        };
        Self {
            name: rule.name.as_deref().map(Into::into),
            matches: list(&rule.matches),
            filters: filters(&rule.filters),
            backends: list(&rule.backends),
            request_timeout: timeout(rule.timeouts.request),
            backend_request_timeout: timeout(rule.timeouts.backend_request),
            retry: rule.retry.as_deref().map(Into::into),
            session: rule.session.as_deref().map(Into::into),
            protocol: protocol.into(),
            invalid: rule.invalid.as_deref().map(Into::into),
        }
    }
}

impl From<&L4Rule> for proto::L4Rule {
    fn from(rule: &L4Rule) -> Self {
        Self {
            name: rule.name.clone(),
            backends: list(&rule.backends),
        }
    }
}

impl From<&L4Backend> for proto::L4Backend {
    fn from(backend: &L4Backend) -> Self {
        Self {
            target: Some((&backend.target).into()),
            weight: backend.weight,
        }
    }
}

/// Empty filters are not sent: most rules and nearly all backends have none.
fn filters(filters: &Filters) -> Option<proto::Filters> {
    (*filters != Filters::default()).then(|| filters.into())
}

fn timeout(timeout: Timeout) -> Option<proto::Timeout> {
    (timeout != Timeout::Default).then(|| timeout.into())
}

impl From<&RouteBackend> for proto::RouteBackend {
    fn from(backend: &RouteBackend) -> Self {
        Self {
            target: Some((&backend.target).into()),
            weight: backend.weight,
            filters: filters(&backend.filters),
            session: backend.session.as_deref().map(Into::into),
        }
    }
}

impl From<&Retry> for proto::Retry {
    fn from(retry: &Retry) -> Self {
        let codes = retry.codes.iter().map(|code| code.as_u16().into());
        Self {
            attempts: retry.attempts,
            codes: codes.collect(),
            backoff: retry.backoff.map(Into::into),
        }
    }
}

impl From<&SessionPersistence> for proto::SessionPersistence {
    fn from(session: &SessionPersistence) -> Self {
        Self {
            token: Some((&session.token).into()),
            absolute_timeout: session.absolute_timeout.map(Into::into),
            idle_timeout: session.idle_timeout.map(Into::into),
        }
    }
}

impl From<&SessionToken> for session_persistence::Token {
    fn from(token: &SessionToken) -> Self {
        let (name, path, lifetime) = match token {
            SessionToken::Header(name) => return Self::Header(name.to_string()),
            SessionToken::Cookie {
                name,
                path,
                lifetime,
            } => (name.clone(), path, lifetime),
        };
        let lifetime = match lifetime {
            SessionLifetime::Session => proto::SessionLifetime::Session,
            SessionLifetime::Permanent => proto::SessionLifetime::Permanent,
        };
        Self::Cookie(proto::SessionCookie {
            name,
            lifetime: lifetime.into(),
            path: (*path != CookiePath::default()).then(|| path.to_string()),
        })
    }
}
