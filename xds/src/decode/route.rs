//! A rule of a route object.

use std::sync::Arc;

use prost::Message as _;

use super::field_path::{FieldPath, Findings};
use super::filter::filters;
use super::matching::{http_match, path_match};
use super::value::{
    choice, duration, features, header_name, hostname, number16, set_text, status, target, timeout,
};
use crate::limits::RULE_LISTENERS;
use crate::model::{
    Attachment, Attachments, CookiePath, Filters, Hostname, HttpMatch, HttpRule, L4Backend, L4Rule,
    ListenerKey, PathEdit, PathMatch, RequestProtocol, Retry, Route, RouteBackend, RouteKey,
    RouteRule, SessionLifetime, SessionPersistence, SessionToken, Timeouts,
};
use crate::proto::{self, route, session_persistence};

pub(super) fn route(at: &FieldPath<'_>, message: proto::Route) -> Option<Route> {
    let key = at.parsed("key", &message.key, RouteKey::parse);
    let of_listener = key.as_ref().and_then(RouteKey::listener);
    let attachments = if let Some(of_key) = &of_listener {
        only_attachment(at, of_key, (&message.listener, message.hostnames))
    } else {
        attachments(at, message.attachments)
    };
    let created = at.required("order", message.order, |at, order| {
        created(at, order, key.as_ref())
    });
    let rule = rule(at, message.rule);
    features(at, message.features)?;
    Some(Route {
        key: key?,
        attachments: attachments?,
        created: created?,
        rule: rule?,
    })
}

/// The listener of a rule in the form for one listener, which controllers of the release before send.
fn only_attachment(
    at: &FieldPath<'_>,
    of_key: &ListenerKey,
    (listener, hostnames): (&str, Vec<String>),
) -> Option<Attachments> {
    let listener = at.parsed("listener", listener, ListenerKey::parse);
    if listener.as_ref().is_some_and(|it| it != of_key) {
        return at
            .field("listener")
            .problem("is another one than that of the key");
    }
    let hostnames = at.list("hostnames", hostnames, hostname);
    let attachment = Attachment {
        listener: listener?,
        hostnames: hostnames?.into(),
    };
    Some(attachment.into())
}

fn attachments(at: &FieldPath<'_>, messages: Vec<proto::Attachment>) -> Option<Attachments> {
    let groups = at.some("attachments", messages, attachments_of_object)?;
    let attachments: Attachments = groups.into_iter().flatten().collect();
    if attachments.len() > RULE_LISTENERS {
        let count = attachments.len();
        let text = format!("are {count}: a rule has at most {RULE_LISTENERS} listeners");
        return at.field("attachments").problem(text);
    }
    Some(attachments)
}

fn attachments_of_object(
    at: &FieldPath<'_>,
    message: proto::Attachment,
) -> Option<Vec<Attachment>> {
    let object = at.text("object", message.object);
    let hostnames = at.list("hostnames", message.hostnames, hostname);
    let (object, hostnames) = (object?, hostnames?.into());
    at.some("listeners", message.listeners, |at, name| {
        let listener = at.accept(ListenerKey::parse(&format!("{object}/{name}")));
        Some(Attachment {
            listener: listener?,
            hostnames: Arc::clone(&hostnames),
        })
    })
}

/// The route that refuses the requests of one that cannot be decoded: those that can be recognised by what
/// is known of its matches, or else all of its hosts. `None` if its key or all of its listeners are not known.
pub(super) fn refusing(key: &str, bytes: &[u8]) -> Option<Route> {
    let mut message = proto::Route::default();
    // What was read before an error is known.
    let is_read = message.merge(bytes).is_ok();
    let key = RouteKey::parse(key).ok()?;
    let problems = Findings::new();
    let at = FieldPath::root(&problems);
    let attachments = match key.listener() {
        Some(listener) => Attachment {
            listener,
            hostnames: known_hosts(&at, message.hostnames),
        }
        .into(),
        None => known_attachments(&at, message.attachments),
    };
    let l4 = L4Rule {
        name: None,
        backends: Vec::new(),
    };
    let rule = match (message.rule, key.kind()) {
        (Some(route::Rule::Http(rule)), _) => RouteRule::Http(refusing_http(&at, rule)),
        (Some(route::Rule::Tls(_)), _) | (None, "TLSRoute") => RouteRule::Tls(l4),
        (Some(route::Rule::Tcp(_)), _) | (None, "TCPRoute") => RouteRule::Tcp(l4),
        (Some(route::Rule::Udp(_)), _) | (None, "UDPRoute") => RouteRule::Udp(l4),
        (None, _) => RouteRule::Http(refusing_http(&at, proto::HttpRule::default())),
    };
    let created = message.order.map(|order| order.created);
    // One that covers more than the original takes nothing from equally specific routes.
    let is_exact = is_read && problems.into_problems().is_empty();
    if attachments.is_empty() {
        return None;
    }
    Some(Route {
        key,
        attachments,
        created: created.filter(|_| is_exact).unwrap_or(i64::MAX),
        rule,
    })
}

/// The hosts that can be read. None at all means every host.
fn known_hosts(at: &FieldPath<'_>, hostnames: Vec<String>) -> Arc<[Hostname]> {
    let hostnames = hostnames.into_iter();
    hostnames.filter_map(|it| hostname(at, it)).collect()
}

/// The listeners that can be read.
fn known_attachments(at: &FieldPath<'_>, messages: Vec<proto::Attachment>) -> Attachments {
    let mut known = Vec::new();
    for message in messages {
        let hostnames = known_hosts(at, message.hostnames);
        for name in message.listeners {
            let key = ListenerKey::parse(&format!("{}/{name}", message.object));
            known.extend(at.accept(key).map(|listener| Attachment {
                listener,
                hostnames: Arc::clone(&hostnames),
            }));
        }
    }
    known.into_iter().take(RULE_LISTENERS).collect()
}

fn refusing_http(at: &FieldPath<'_>, message: proto::HttpRule) -> HttpRule {
    let matches = message.matches.into_iter();
    let mut matches: Vec<HttpMatch> = matches.map(|it| recognisable(at, it)).collect();
    if matches.is_empty() {
        at.field("matches").problem::<()>("are not known");
        matches.push(HttpMatch::everything());
    }
    HttpRule {
        invalid: Some(UNREADABLE.into()),
        ..HttpRule::refusing(matches)
    }
}

/// Of a rule that cannot be decoded.
const UNREADABLE: &str =
    "this proxy could not read the rule as the controller sent it; its log has the reason";

/// A match as far as it can be read, so that it matches at least the same requests.
fn recognisable(at: &FieldPath<'_>, message: proto::HttpMatch) -> HttpMatch {
    let path = message.path.clone();
    http_match(at, message).unwrap_or_else(|| HttpMatch {
        path: path
            .and_then(|path| path_match(at, path))
            .unwrap_or_else(PathMatch::everything),
        ..HttpMatch::everything()
    })
}

fn rule(at: &FieldPath<'_>, rule: Option<route::Rule>) -> Option<RouteRule> {
    match rule {
        Some(route::Rule::Http(rule)) => http_rule(&at.field("http"), rule).map(RouteRule::Http),
        Some(route::Rule::Tls(rule)) => l4_rule(&at.field("tls"), rule).map(RouteRule::Tls),
        Some(route::Rule::Tcp(rule)) => l4_rule(&at.field("tcp"), rule).map(RouteRule::Tcp),
        Some(route::Rule::Udp(rule)) => l4_rule(&at.field("udp"), rule).map(RouteRule::Udp),
        None => at.field("rule").record_missing_choice(),
    }
}

fn l4_rule(at: &FieldPath<'_>, message: proto::L4Rule) -> Option<L4Rule> {
    let name = at.optional("name", message.name, set_text);
    let backends = at.list("backends", message.backends, |at, backend| {
        let target = at.required("target", backend.target, target);
        Some(L4Backend {
            target: target?,
            weight: backend.weight,
        })
    });
    Some(L4Rule {
        name: name?,
        backends: backends?,
    })
}

/// The creation time in an order, whose other parts are those of the route's key.
fn created(at: &FieldPath<'_>, message: proto::Order, key: Option<&RouteKey>) -> Option<i64> {
    let object = at.text("object", message.object);
    let rule = number16(&at.field("rule"), message.rule);
    let (object, rule) = (object?, rule?);
    if key.is_some_and(|key| key.object_and_rule() != (&object, rule)) {
        return at.problem("is of another object or rule than the key");
    }
    Some(message.created)
}

fn http_rule(at: &FieldPath<'_>, message: proto::HttpRule) -> Option<HttpRule> {
    let name = at.optional("name", message.name, set_text);
    let protocol = choice(
        &at.field("protocol"),
        message.protocol,
        |protocol| match protocol {
            proto::RequestProtocol::Unspecified => None,
            proto::RequestProtocol::Http => Some(RequestProtocol::Http),
            proto::RequestProtocol::Grpc => Some(RequestProtocol::Grpc),
        },
    );
    let matches = at.some("matches", message.matches, http_match);
    let filters = at.optional("filters", message.filters, filters);
    let backends = at.list("backends", message.backends, route_backend);
    let request = at.optional("request_timeout", message.request_timeout, timeout);
    let backend_request = at.optional(
        "backend_request_timeout",
        message.backend_request_timeout,
        timeout,
    );
    let retry = at.optional("retry", message.retry, retry);
    let session = at.optional("session", message.session, session);
    let invalid = at.optional("invalid", message.invalid, set_text);
    if let (Some(matches), Some(filters), Some(backends)) = (&matches, &filters, &backends) {
        let backends = backends.iter().map(|backend| &backend.filters);
        prefixes_to_edit(at, matches, backends.chain(filters));
    }
    Some(HttpRule {
        name: name?.map(Into::into),
        protocol: protocol?,
        matches: matches?.into(),
        filters: filters?.unwrap_or_default(),
        backends: backends?.into(),
        timeouts: Timeouts {
            request: request?.unwrap_or_default(),
            backend_request: backend_request?.unwrap_or_default(),
        },
        retry: retry?.map(Box::new),
        session: session?.map(Box::new),
        invalid: invalid?.map(Into::into),
    })
}

/// The prefixes of a rule whose matches are all prefixes: only those can be replaced.
fn prefixes_to_edit<'a>(
    at: &FieldPath<'_>,
    matches: &[HttpMatch],
    mut filters: impl Iterator<Item = &'a Filters>,
) {
    let matches_prefix = |matching: &HttpMatch| matches!(matching.path, PathMatch::Prefix(_));
    if filters.any(edits_prefix) && !matches.iter().all(matches_prefix) {
        at.field("matches").problem::<()>(
            "has a path match other than a prefix, but a filter replaces the prefix",
        );
    }
}

fn edits_prefix(filters: &Filters) -> bool {
    let redirect = filters.redirect.as_ref().and_then(|it| it.path.as_ref());
    let rewrite = filters.rewrite.as_ref().and_then(|it| it.path.as_ref());
    [redirect, rewrite]
        .into_iter()
        .flatten()
        .any(|path| matches!(path, PathEdit::PrefixMatch(_)))
}

fn route_backend(at: &FieldPath<'_>, message: proto::RouteBackend) -> Option<RouteBackend> {
    let target = at.required("target", message.target, target);
    let filters = at.optional("filters", message.filters, filters);
    let session = at.optional("session", message.session, session);
    Some(RouteBackend {
        target: target?,
        weight: message.weight,
        filters: filters?.unwrap_or_default(),
        session: session?.map(Box::new),
    })
}

fn retry(at: &FieldPath<'_>, message: proto::Retry) -> Option<Retry> {
    let codes = at.list("codes", message.codes, status);
    let backoff = at.optional("backoff", message.backoff, duration);
    Some(Retry {
        attempts: message.attempts,
        codes: codes?,
        backoff: backoff?,
    })
}

fn session(at: &FieldPath<'_>, message: proto::SessionPersistence) -> Option<SessionPersistence> {
    let token = match message.token {
        Some(session_persistence::Token::Cookie(message)) => cookie(&at.field("cookie"), message),
        Some(session_persistence::Token::Header(name)) => {
            header_name(&at.field("header"), &name).map(SessionToken::Header)
        }
        None => at.field("token").record_missing_choice(),
    };
    let absolute_timeout = at.optional("absolute_timeout", message.absolute_timeout, duration);
    let idle_timeout = at.optional("idle_timeout", message.idle_timeout, duration);
    let permanent = matches!(
        token,
        Some(SessionToken::Cookie {
            lifetime: SessionLifetime::Permanent,
            ..
        })
    );
    if permanent && absolute_timeout == Some(None) {
        at.field("absolute_timeout")
            .problem::<()>("is required for a permanent cookie");
    }
    Some(SessionPersistence {
        token: token?,
        absolute_timeout: absolute_timeout?,
        idle_timeout: idle_timeout?,
    })
}

fn cookie(at: &FieldPath<'_>, message: proto::SessionCookie) -> Option<SessionToken> {
    // A cookie name is a token (RFC 6265 section 4.1.1), like a header name.
    let valid = http::HeaderName::from_bytes(message.name.as_bytes()).is_ok();
    let name = if valid {
        Some(message.name)
    } else {
        let text = format!("`{}` is not a cookie name", message.name);
        at.field("name").problem(text)
    };
    let lifetime = choice(
        &at.field("lifetime"),
        message.lifetime,
        |lifetime| match lifetime {
            proto::SessionLifetime::Unspecified => None,
            proto::SessionLifetime::Session => Some(SessionLifetime::Session),
            proto::SessionLifetime::Permanent => Some(SessionLifetime::Permanent),
        },
    );
    let path = at.optional("path", message.path, |at, text| {
        at.accept(CookiePath::parse(&text))
    });
    Some(SessionToken::Cookie {
        name: name?,
        path: path?.unwrap_or_default(),
        lifetime: lifetime?,
    })
}
