//! A rule of a route object.

use proptest::prelude::*;
use proptest::{collection::vec, option};
use xds::model::{
    Attachment, CookiePath, HeaderMatch, HttpMatch, HttpRule, L4Backend, L4Rule, PathMatch,
    Pattern, QueryMatch, RequestProtocol, Retry, Route, RouteBackend, RouteKey, RouteRule,
    SessionLifetime, SessionPersistence, SessionToken, StringMatch, Timeouts,
};

use super::filter::filters;
use super::value::{
    duration, header_name, hostname, listener_key, method, name, object_name, status, target,
    timeout,
};

prop_compose! {
    pub(super) fn route()(
        object in object_name(),
        gateway in object_name(),
        attachments in vec(attachment(), 1..4),
        is_of_listener in any::<bool>(),
        created in any::<i64>(),
        number in any::<u16>(),
        rule in rule(),
    ) -> Route {
        let key = RouteKey::new("HTTPRoute", &object, number, &gateway);
        let (key, attachments) = match &attachments[..] {
            [first, ..] if is_of_listener => (key.at(&first.listener), first.clone().into()),
            all => (key, all.iter().cloned().collect()),
        };
        Route {
            key,
            attachments,
            created,
            rule,
        }
    }
}

prop_compose! {
    fn attachment()(
        listener in listener_key(),
        hostnames in vec(hostname(), 0..3),
    ) -> Attachment {
        Attachment { listener, hostnames: hostnames.into() }
    }
}

fn rule() -> impl Strategy<Value = RouteRule> {
    prop_oneof![
        3 => any::<bool>().prop_flat_map(http_rule).prop_map(RouteRule::Http),
        1 => l4_rule().prop_map(RouteRule::Tls),
        1 => l4_rule().prop_map(RouteRule::Tcp),
        1 => l4_rule().prop_map(RouteRule::Udp),
    ]
}

prop_compose! {
    fn l4_rule()(
        name in option::of(name()),
        backends in vec((target(), any::<u32>()), 0..3),
    ) -> L4Rule {
        let backends = backends.into_iter().map(|(target, weight)| L4Backend { target, weight });
        L4Rule { name, backends: backends.collect() }
    }
}

prop_compose! {
    fn http_rule(prefixes: bool)(
        name in option::of(name()),
        protocol in prop_oneof![Just(RequestProtocol::Http), Just(RequestProtocol::Grpc)],
        matches in vec(http_match(prefixes), 1..3),
        filters in filters(prefixes),
        backends in vec(route_backend(prefixes), 0..3),
        request in timeout(),
        backend_request in timeout(),
        retry in option::of(retry()),
        session in option::of(session()),
        invalid in option::of(name()),
    ) -> HttpRule {
        let timeouts = Timeouts { request, backend_request };
        let (retry, session) = (retry.map(Box::new), session.map(Box::new));
        let (name, matches, backends) = (name.map(Into::into), matches.into(), backends.into());
        HttpRule { name, protocol, matches, filters, backends, timeouts, retry, session, invalid: invalid.map(Into::into) }
    }
}

prop_compose! {
    fn http_match(prefixes: bool)(
        path in path_match(prefixes),
        method in option::of(method()),
        mut headers in vec((header_name(), string_match()), 0..3),
        mut query in vec((name(), string_match()), 0..3),
    ) -> HttpMatch {
        headers.sort_by(|(a, _), (b, _)| a.as_str().cmp(b.as_str()));
        headers.dedup_by(|(a, _), (b, _)| a == b);
        query.sort_by(|(a, _), (b, _)| a.cmp(b));
        query.dedup_by(|(a, _), (b, _)| a == b);
        let headers = headers.into_iter().map(|(name, value)| HeaderMatch { name, value });
        let query = query.into_iter().map(|(name, value)| QueryMatch { name, value });
        HttpMatch { path, method, headers: headers.collect(), query: query.collect() }
    }
}

fn path_match(prefixes: bool) -> impl Strategy<Value = PathMatch> {
    let path = "(/([a-z0-9_~-]|%[4-7][0-9a-f]){1,5}){0,3}/?"
        .prop_filter("no path", |path| !path.is_empty());
    (path, pattern(), 0..3_u8).prop_map(move |(path, pattern, kind)| match kind {
        0 if !prefixes => PathMatch::exact(&path).expect("a path"),
        1 if !prefixes => PathMatch::Regex(pattern),
        _ => PathMatch::prefix(&path).expect("a path"),
    })
}

fn pattern() -> impl Strategy<Value = Pattern> {
    "/?[a-z]{0,8}(\\[0-9\\]\\+|\\.\\*|\\|x)?".prop_map(|text| Pattern::parse(&text).expect(&text))
}

fn string_match() -> impl Strategy<Value = StringMatch> {
    prop_oneof![
        any::<String>().prop_map(|text| StringMatch::Exact(text.into())),
        pattern().prop_map(StringMatch::Regex),
    ]
}

prop_compose! {
    fn route_backend(prefixes: bool)(
        target in target(),
        weight in any::<u32>(),
        filters in filters(prefixes),
        session in option::of(session()),
    ) -> RouteBackend {
        RouteBackend { target, weight, filters, session: session.map(Box::new) }
    }
}

prop_compose! {
    fn retry()(
        attempts in any::<u32>(),
        codes in vec(status(), 0..4),
        backoff in option::of(duration()),
    ) -> Retry {
        Retry { attempts, codes, backoff }
    }
}

fn session() -> impl Strategy<Value = SessionPersistence> {
    let cookie = |name, path: String, lifetime| SessionToken::Cookie {
        name,
        path: CookiePath::parse(&path).expect("a path"),
        lifetime,
    };
    let permanent = (name(), "/[a-z/]{0,8}", duration()).prop_map(move |(name, path, timeout)| {
        (
            cookie(name, path, SessionLifetime::Permanent),
            Some(timeout),
        )
    });
    let session = (name(), "/[a-z/]{0,8}", option::of(duration()));
    let session = session.prop_map(move |(name, path, timeout)| {
        (cookie(name, path, SessionLifetime::Session), timeout)
    });
    let header = (header_name(), option::of(duration()))
        .prop_map(|(name, timeout)| (SessionToken::Header(name), timeout));
    (
        prop_oneof![permanent, session, header],
        option::of(duration()),
    )
        .prop_map(
            |((token, absolute_timeout), idle_timeout)| SessionPersistence {
                token,
                absolute_timeout,
                idle_timeout,
            },
        )
}
