//! Redirects to where the client is already: it asks again and again, until it gives up.

use super::view::{Matches, RouteView, View};
use super::{Diagnosis, finding};
use crate::gateway::api::Listener;
use crate::level::Level;
use crate::route::api::{
    HttpPathMatch, HttpRouteRule, ParentReference, PathMatchType, PathModifierType, RedirectFilter,
};
use crate::status::Reason;

pub(super) fn examine(view: &View<'_>, route: &RouteView<'_>, found: &mut Vec<Diagnosis>) {
    for (index, rule) in route.rules.iter().enumerate() {
        let Matches::Http(rule) = rule.matches else {
            continue;
        };
        for (at, filter) in rule.filters.iter().enumerate() {
            let Some(redirect) = filter.request_redirect.as_deref() else {
                continue;
            };
            if !keeps_host(redirect, route) || !keeps_path(redirect, (index, rule), route) {
                continue;
            }
            let Some(listener) = listener_that_gets_it(view, route, redirect) else {
                continue;
            };
            let field = format!("spec.rules[{index}].filters[{at}].requestRedirect");
            let text = format!(
                "a request by listener `{listener}` is redirected to where it came from, again and again: change \
                 scheme, host, port or path, or name with sectionName the listeners that the route is for"
            );
            let field = (field, Reason::RedirectLoop);
            found.push(finding(&route.object, Level::Error, field, text));
        }
    }
}

/// Whether the host of the location is one that the route is for.
fn keeps_host(redirect: &RedirectFilter, route: &RouteView<'_>) -> bool {
    let Some(host) = &redirect.hostname else {
        return true;
    };
    // Of a route for several, only requests for this host go round.
    matches!(route.hostnames, [only] if only == host)
}

/// Whether the location has a path for which the rule is again.
fn keeps_path(
    redirect: &RedirectFilter,
    (index, rule): (usize, &HttpRouteRule),
    route: &RouteView<'_>,
) -> bool {
    let Some(modifier) = &redirect.path else {
        return true;
    };
    match modifier.kind {
        PathModifierType::ReplaceFullPath => {
            let path = modifier.replace_full_path.as_deref().unwrap_or_default();
            let takes = rule.matches.iter().any(|it| {
                it.headers.is_empty() && it.query_params.is_empty() && takes_path(&it.path, path)
            });
            takes && !is_for_another_rule(path, index, route)
        }
        // The prefix may be replaced by itself; one below it grows with each redirect.
        PathModifierType::ReplacePrefixMatch => {
            let prefix = modifier.replace_prefix_match.as_deref().unwrap_or_default();
            let [only] = &rule.matches[..] else {
                return false;
            };
            let is_plain = only.headers.is_empty() && only.query_params.is_empty();
            is_plain && takes_path(&only.path, prefix) && !is_for_another_rule(prefix, index, route)
        }
        PathModifierType::Unknown => false,
    }
}

fn takes_path(of_rule: &HttpPathMatch, path: &str) -> bool {
    match of_rule.kind {
        PathMatchType::Exact => of_rule.value == path,
        PathMatchType::PathPrefix => is_below(path, &of_rule.value),
        PathMatchType::RegularExpression | PathMatchType::Unknown => false,
    }
}

fn is_below(path: &str, prefix: &str) -> bool {
    let prefix = prefix.trim_end_matches('/');
    let rest = path.strip_prefix(prefix);
    rest.is_some_and(|it| it.is_empty() || it.starts_with('/'))
}

/// Whether another rule of the route may take requests for a path.
fn is_for_another_rule(path: &str, index: usize, route: &RouteView<'_>) -> bool {
    let others = route.rules.iter().enumerate().filter(|it| it.0 != index);
    let mut paths = others.flat_map(|(_, rule)| match rule.matches {
        Matches::Http(rule) => rule.matches.iter().map(|it| &it.path).collect(),
        _ => Vec::new(),
    });
    paths.any(|it| it.kind == PathMatchType::RegularExpression || takes_path(it, path))
}

/// The listener by which requests come to the route that also gets what it redirects.
fn listener_that_gets_it(
    view: &View<'_>,
    route: &RouteView<'_>,
    redirect: &RedirectFilter,
) -> Option<String> {
    for (parent, owner) in route.owners() {
        let listeners = view.listeners(&owner);
        let mut listeners = listeners.iter().filter(|it| is_named(it, parent));
        if let Some(it) = listeners.find(|it| is_kept(it, redirect, route)) {
            return Some(it.name.clone());
        }
    }
    None
}

fn is_named(listener: &Listener, parent: &ParentReference) -> bool {
    let section = parent.section_name.as_deref();
    let port = parent.port.map(u16::from);
    section.is_none_or(|it| it == listener.name) && port.is_none_or(|it| it == listener.port.get())
}

/// Whether scheme and port of the location are those of the listener, which serves hosts of the route.
fn is_kept(listener: &Listener, redirect: &RedirectFilter, route: &RouteView<'_>) -> bool {
    let scheme = match &*listener.protocol {
        "HTTP" => "http",
        "HTTPS" => "https",
        _ => return false,
    };
    let serves = |host: &String| match listener.hostname.as_deref() {
        None | Some("") => true,
        Some(own) => match own.strip_prefix('*') {
            Some(parent) => host.ends_with(parent),
            None => own == host,
        },
    };
    let is_for_it = route.hostnames.is_empty() || route.hostnames.iter().any(serves);
    if !is_for_it || redirect.scheme.as_deref().is_some_and(|it| it != scheme) {
        return false;
    }
    // A scheme alone stands for its well-known port, another one is that of another listener, or of nobody.
    let port = match (redirect.port, redirect.scheme.as_deref()) {
        (Some(port), _) => port.get(),
        (None, Some("https")) => 443,
        (None, Some(_)) => 80,
        (None, None) => listener.port.get(),
    };
    port == listener.port.get()
}
