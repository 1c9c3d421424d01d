//! Redirects to where the client is already: it asks again and again, until it gives up. What may lead elsewhere, as
//! another rule for the location, is none.

use std::cmp::Ordering;

use xds::model::{Hostname, ObjectName};

use super::view::{Matches, RouteView, View};
use super::{Diagnosis, finding};
use crate::gateway::api::Listener;
use crate::gateway::offer::ListenerOffer;
use crate::level::Level;
use crate::route::api::{
    FilterType, HttpPathMatch, HttpRouteMatch, HttpRouteRule, PathMatchType, PathModifierType,
    RedirectFilter,
};
use crate::status::Reason;

pub(super) fn examine(view: &View<'_>, route: &RouteView<'_>, found: &mut Vec<Diagnosis>) {
    for (index, rule) in route.rules.iter().enumerate() {
        let Matches::Http(spec) = rule.matches else {
            continue;
        };
        for (at, filter) in spec.filters.iter().enumerate() {
            let Some(filter) = filter.request_redirect.as_deref() else {
                continue;
            };
            let redirect = Redirect {
                route,
                index,
                rule: spec,
                filter,
            };
            let rounds = redirect.rounds();
            if rounds.is_empty() || view.responds(route, rule) {
                continue;
            }
            let Some(listener) = redirect.listener_that_gets_it(view, &rounds) else {
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

/// The redirect of a rule.
struct Redirect<'a> {
    route: &'a RouteView<'a>,
    /// Which rule of the route.
    index: usize,
    rule: &'a HttpRouteRule,
    filter: &'a RedirectFilter,
}

/// A match of the rule that takes what it redirects.
struct Round<'a> {
    of: &'a HttpPathMatch,
    /// The path of the location; `None` if it is that of the request.
    to: Option<&'a str>,
}

impl<'a> Redirect<'a> {
    fn rounds(&self) -> Vec<Round<'a>> {
        let mut filters = self.rule.filters.iter();
        // A cookie may lead the next request to another rule.
        if filters.any(|it| it.kind == FilterType::ResponseHeaderModifier) {
            return Vec::new();
        }
        let plain = self.rule.matches.iter().filter(|it| is_plain(it));
        plain.filter_map(|it| self.round(&it.path)).collect()
    }

    fn round(&self, of: &'a HttpPathMatch) -> Option<Round<'a>> {
        let Some(modifier) = &self.filter.path else {
            return Some(Round { of, to: None });
        };
        let to = match modifier.kind {
            PathModifierType::ReplaceFullPath => &modifier.replace_full_path,
            // The prefix may be replaced by itself; one below it grows with each redirect.
            PathModifierType::ReplacePrefixMatch => &modifier.replace_prefix_match,
            PathModifierType::Unknown => return None,
        };
        let to = to.as_deref().unwrap_or_default();
        takes_path(of, to).then_some(Round { of, to: Some(to) })
    }

    /// The listener by which requests come to the route that also gets what it redirects.
    fn listener_that_gets_it(&self, view: &View<'_>, rounds: &[Round<'_>]) -> Option<String> {
        self.route.owners().find_map(|(parent, owner)| {
            let gateway = view.gateway_of(&owner)?;
            let accepting = view.accepting(self.route, (parent, &owner), |it| self.keeps(it));
            let mut accepting = accepting.into_iter();
            let listener = accepting.find(|it| {
                let mut hosts = self.kept_hosts(view, &gateway, it).into_iter();
                hosts.any(|host| {
                    let mut rounds = rounds.iter();
                    rounds.any(|round| self.comes_back(view, (&gateway, it), host, round))
                })
            });
            Some(listener?.name)
        })
    }

    /// Whether scheme and port of the location are those of the listener.
    fn keeps(&self, listener: &Listener) -> bool {
        let scheme = match &*listener.protocol {
            "HTTP" => "http",
            "HTTPS" => "https",
            _ => return false,
        };
        let wanted = self.filter.scheme.as_deref();
        if wanted.is_some_and(|it| it != scheme) {
            return false;
        }
        // A scheme alone stands for its well-known port, another one is that of another listener, or of nobody.
        let port = match (self.filter.port, wanted) {
            (Some(port), _) => port.get(),
            (None, Some("https")) => 443,
            (None, Some(_)) => 80,
            (None, None) => listener.port.get(),
        };
        port == listener.port.get()
    }

    /// The hosts of the route, as written, that requests and locations at a listener have; any is empty.
    fn kept_hosts(
        &self,
        view: &View<'_>,
        gateway: &ObjectName,
        listener: &ListenerOffer,
    ) -> Vec<&'a str> {
        let hosts = self.route.hostnames;
        if let Some(to) = &self.filter.hostname {
            // Of a route for several, those that are redirected to this one may come by another listener.
            let is_here = [&**to] == *hosts || !view.is_for_closer_listener(gateway, listener, to);
            let kept = hosts.iter().filter(|it| *it == to && is_here);
            return kept.map(String::as_str).collect();
        }
        if hosts.is_empty() {
            return vec![""];
        }
        let hosts = hosts
            .iter()
            .filter(|it| narrower(it, listener).is_some())
            .map(String::as_str);
        hosts.collect()
    }

    /// Whether the rule gets what it redirects of a host.
    fn comes_back(
        &self,
        view: &View<'_>,
        (gateway, listener): (&ObjectName, &ListenerOffer),
        host: &str,
        round: &Round<'_>,
    ) -> bool {
        let keeps_host = self.filter.hostname.is_none() || [host] == *self.route.hostnames;
        let path = match (round.to, round.of.kind) {
            (Some(path), _) => path,
            // The same request goes the same way.
            (None, _) if keeps_host => return true,
            (None, PathMatchType::Exact | PathMatchType::PathPrefix) => &round.of.value,
            (None, _) => return false,
        };
        let narrower = narrower(host, listener);
        let narrower = narrower.as_ref().map(Hostname::as_str);
        let hosts = [Some(host), narrower.filter(|it| *it != host)];
        let mut hosts = hosts.into_iter().flatten();
        !hosts.any(|it| {
            let is_narrower = it != host;
            self.may_be_for_others(view, gateway, (it, is_narrower), (path, round))
        })
    }

    /// Whether another rule may take requests for a host and path.
    fn may_be_for_others(
        &self,
        view: &View<'_>,
        gateway: &ObjectName,
        (host, is_narrower): (&str, bool),
        (path, round): (&str, &Round<'_>),
    ) -> bool {
        let own = self.route;
        view.routes_of(host).any(|route| {
            let is_own = route.object == own.object;
            if !is_own && !view.is_at(route, gateway) {
                return false;
            }
            let is_older = (route.created, &route.object.name) < (own.created, &own.object.name);
            let others = route.rules.iter().enumerate();
            let mut others = others.filter(|(index, _)| !is_own || *index != self.index);
            others.any(|(index, rule)| {
                let Matches::Http(rule) = rule.matches else {
                    return false;
                };
                let is_first = if is_own {
                    index < self.index
                } else {
                    is_narrower || is_older
                };
                // Too many to compare: one may.
                !view.room.take(own.namespace(), rule.matches.len())
                    || rule
                        .matches
                        .iter()
                        .any(|it| may_precede(it, path, (round.of, is_first)))
            })
        })
    }
}

/// A match for which all requests are that a redirect leads to: browsers repeat these, and what is before the gateway
/// may set others' headers.
fn is_plain(it: &HttpRouteMatch) -> bool {
    let method = it.method.as_deref();
    it.headers.is_empty()
        && it.query_params.is_empty()
        && method.is_none_or(|it| ["GET", "HEAD"].contains(&it))
}

/// Whether a match may take a path before another one that also takes it.
fn may_precede(it: &HttpRouteMatch, path: &str, (other, is_first): (&HttpPathMatch, bool)) -> bool {
    let is_refined =
        !it.headers.is_empty() || !it.query_params.is_empty() || it.method.is_some() || is_first;
    let length = |it: &HttpPathMatch| it.value.trim_end_matches('/').len();
    match (it.path.kind, other.kind) {
        (PathMatchType::RegularExpression | PathMatchType::Unknown, _) => true,
        _ if !takes_path(&it.path, path) => false,
        (PathMatchType::Exact, PathMatchType::Exact) => is_refined,
        (PathMatchType::Exact, _) => true,
        (PathMatchType::PathPrefix, PathMatchType::Exact) => false,
        (PathMatchType::PathPrefix, _) => match length(&it.path).cmp(&length(other)) {
            Ordering::Greater => true,
            Ordering::Equal => is_refined,
            Ordering::Less => false,
        },
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

/// The hosts of a listener that are of one as written, where an empty one is any; `None` if there are none, or all.
fn narrower(host: &str, listener: &ListenerOffer) -> Option<Hostname> {
    let host = Hostname::parse(host).ok();
    match (host, &listener.hostname) {
        (Some(host), Some(of_listener)) => host.intersect(of_listener).cloned(),
        (host, of_listener) => host.or_else(|| of_listener.clone()),
    }
}
