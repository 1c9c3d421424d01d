//! Rules that never get a request, because another one has the same match: that of the older route wins.

use std::fmt::Write as _;
use std::rc::Rc;

use xds::fast_hash::FastHashMap;
use xds::model::ObjectName;

use super::view::{Matches, RouteView, View};
use super::{Diagnosis, finding};
use crate::level::Level;
use crate::objects::owner::Owner;
use crate::route::api::{
    GrpcRouteMatch, HttpHeaderMatch, HttpRouteMatch, ParentReference, PathMatchType,
};
use crate::status::Reason;

/// What decides which rule takes a request: parent, host and match. Routes of one namespace only are compared: a
/// listener admits all of them or none, and nobody is told of the routes of others.
type Key<'a> = (Owner, &'a str, &'a str, Rc<str>);

/// Where a match is.
#[derive(Clone, Copy)]
struct Place<'a> {
    route: &'a RouteView<'a>,
    parent: &'a ParentReference,
    rule: usize,
    at: usize,
}

pub(super) fn examine(view: &View<'_>, found: &mut Vec<Diagnosis>) {
    let mut routes: Vec<&RouteView<'_>> = view.routes().iter().collect();
    // In the order in which Gateway API prefers them.
    routes.sort_by(|a, b| (a.created, &a.object.name).cmp(&(b.created, &b.object.name)));
    let mut winners: FastHashMap<Key<'_>, Vec<Place<'_>>> = FastHashMap::default();
    for route in routes {
        if !view.room.take(route.namespace(), steps(route)) {
            continue;
        }
        let already = found.len();
        for (parent, owner) in route.owners() {
            let Some(gateway) = view.gateway_of(&owner) else {
                continue;
            };
            for (rule, at, text) in matches(route) {
                let place = Place {
                    route,
                    parent,
                    rule,
                    at,
                };
                for host in hosts(route) {
                    let key = (owner.clone(), route.namespace(), host, Rc::clone(&text));
                    let before = winners.entry(key).or_default();
                    let winner = before.iter().find(|it| it.covers(&place)).copied();
                    if let Some(winner) = winner {
                        if !winner.is(&place) && found.len() < already + MOST_FOUND {
                            found.push(never_used(place, winner, (&gateway, host)));
                        }
                    } else if before.len() < MOST_PLACES {
                        before.push(place);
                    }
                }
            }
        }
    }
}

fn never_used(
    place: Place<'_>,
    winner: Place<'_>,
    (gateway, host): (&ObjectName, &str),
) -> Diagnosis {
    let Place { rule, at, .. } = place;
    let host = if host == "*" {
        String::new()
    } else {
        format!(" for host `{host}`")
    };
    let winner = if winner.route.object == place.route.object {
        format!("rules[{}].matches[{}] has the same", winner.rule, winner.at)
    } else {
        format!(
            "rules[{}] of {}, which is older or first by name, has the same",
            winner.rule, winner.route.object
        )
    };
    let text = format!(
        "the match gets no requests{host} at Gateway {gateway}: {winner}; remove one of the two, or make one narrower"
    );
    let field = format!("spec.rules[{rule}].matches[{at}]");
    let field = (field, Reason::RouteRulesOverlap);
    finding(&place.route.object, Level::Warning, field, text)
}

impl Place<'_> {
    /// Whether it is at every listener of the parent at which the other one is: otherwise that one has requests.
    fn covers(&self, other: &Self) -> bool {
        let (own, other) = (self.parent, other.parent);
        (own.section_name.is_none() || own.section_name == other.section_name)
            && (own.port.is_none() || own.port == other.port)
    }

    /// Whether it is the same rule: by another parent, or with a host twice.
    fn is(&self, other: &Self) -> bool {
        self.route.object == other.route.object && (self.rule, self.at) == (other.rule, other.at)
    }
}

/// What comparing a route takes, as what [`Room`](super::room::Room) counts: a place in memory for each parent, host and
/// match, of which a route may have 60,000.
fn steps(route: &RouteView<'_>) -> usize {
    let matches = route.rules.iter().map(|rule| match rule.matches {
        Matches::Http(rule) => rule.matches.len(),
        Matches::Grpc(rule) => rule.matches.len().max(1),
        Matches::None => 0,
    });
    let hosts = route.hostnames.len().max(1);
    matches.sum::<usize>() * hosts * route.parents.len() * PER_PLACE
}

/// Steps for a place.
const PER_PLACE: usize = 8;
/// Findings about a route, at most: more would not be read.
const MOST_FOUND: usize = 8;
/// Rules with the same match at different listeners that are compared with the next one: listeners of a Gateway.
const MOST_PLACES: usize = 64;

fn hosts<'a>(route: &'a RouteView<'_>) -> impl Iterator<Item = &'a str> {
    let any = route.hostnames.is_empty().then_some("*");
    any.into_iter()
        .chain(route.hostnames.iter().map(String::as_str))
}

/// The matches of a route, each with its place and in a form that is equal for equal ones.
fn matches<'a>(route: &'a RouteView<'_>) -> impl Iterator<Item = (usize, usize, Rc<str>)> + 'a {
    route.rules.iter().enumerate().flat_map(|(index, rule)| {
        let texts: Vec<String> = match rule.matches {
            Matches::Http(rule) => rule.matches.iter().map(of_http).collect(),
            Matches::Grpc(rule) if rule.matches.is_empty() => vec!["grpc".to_owned()],
            Matches::Grpc(rule) => rule.matches.iter().map(of_grpc).collect(),
            Matches::None => Vec::new(),
        };
        let texts = texts.into_iter().enumerate();
        texts.map(move |(at, text)| (index, at, text.into()))
    })
}

fn of_http(it: &HttpRouteMatch) -> String {
    let path = match it.path.kind {
        PathMatchType::PathPrefix => it.path.value.trim_end_matches('/'),
        _ => &it.path.value,
    };
    let mut text = format!("http {:?} {path:?} {:?}", it.path.kind, it.method);
    headers(&it.headers, &mut text);
    let query = it.query_params.iter();
    let mut query: Vec<String> = query
        .map(|it| format!("{} {:?} {:?}", it.name, it.kind, it.value))
        .collect();
    query.sort_unstable();
    let _ = write!(text, "{query:?}");
    text
}

fn of_grpc(it: &GrpcRouteMatch) -> String {
    let mut text = match &it.method {
        None => "grpc".to_owned(),
        Some(it) => format!("grpc {:?} {:?} {:?}", it.kind, it.service, it.method),
    };
    headers(&it.headers, &mut text);
    text
}

fn headers(headers: &[HttpHeaderMatch], text: &mut String) {
    if headers.is_empty() {
        return;
    }
    let headers = headers.iter().map(|it| {
        let name = it.name.to_ascii_lowercase();
        format!("{name} {:?} {:?}", it.kind, it.value)
    });
    let mut headers: Vec<String> = headers.collect();
    headers.sort_unstable();
    // Writing to a String cannot fail.
    let _ = write!(text, " {headers:?}");
}
