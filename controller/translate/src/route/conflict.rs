//! Conflicts of HTTPRoutes and GRPCRoutes over the hosts of a listener.
//!
//! Gateway API allows only routes of one kind to use a host of a listener: the oldest decides
//! (`GRPCRouteSpec.hostnames`). The others lose the listener, and a parent with its last one.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use xds::model::{Hostname, ListenerKey, ObjectName};

use super::name::{RouteKind, RouteName};
use crate::status::problem::Problem;
use crate::status::reason::Reason;

/// The hosts of the routes of one kind at a listener, oldest first. No hosts means all hosts.
pub(crate) type RouteHosts = BTreeMap<(i64, ObjectName), Arc<[Hostname]>>;

/// The routes that lose the listener, each with the route that has their hosts.
pub(crate) fn find_conflicts(
    (kind, hosts_of_kind): (RouteKind, &RouteHosts),
    (other, by_other): (RouteKind, &RouteHosts),
) -> BTreeMap<RouteName, RouteName> {
    let own = hosts_of_kind
        .iter()
        .map(|((created, name), hosts)| (*created, name, kind, hosts));
    let others = by_other
        .iter()
        .map(|((created, name), hosts)| (*created, name, other, hosts));
    let mut claims: Vec<_> = own.chain(others).collect();
    claims.sort_by_key(|(created, name, kind, _)| (*created, *name, *kind));
    let (mut taken, mut taken_by_other) = (ClaimedHosts::default(), ClaimedHosts::default());
    let mut conflicts = BTreeMap::new();
    for (number, (_, name, of, hosts)) in claims.iter().enumerate() {
        let (mine, of_other_kind) = if *of == kind {
            (&mut taken, &taken_by_other)
        } else {
            (&mut taken_by_other, &taken)
        };
        match of_other_kind.first_overlap(hosts) {
            Some(other) => {
                let (_, other, kind, _) = claims[other];
                let route = |kind, name: &ObjectName| RouteName {
                    kind,
                    name: name.clone(),
                };
                conflicts.insert(route(*of, name), route(kind, other));
            }
            None => mine.add(number, hosts),
        }
    }
    conflicts
}

/// The hosts used by routes of one kind, each with the index of the first.
#[derive(Default)]
struct ClaimedHosts<'a> {
    first: Option<usize>,
    every_host: Option<usize>,
    /// Host names without wildcard.
    named: HashMap<&'a str, usize>,
    /// Domains with names below them.
    within: HashMap<&'a str, usize>,
}

impl<'a> ClaimedHosts<'a> {
    fn add(&mut self, number: usize, hosts: &'a [Hostname]) {
        self.first.get_or_insert(number);
        if hosts.is_empty() {
            self.every_host.get_or_insert(number);
        }
        for host in hosts {
            self.named.entry(host.as_str()).or_insert(number);
            for domain in domains(host) {
                self.within.entry(domain).or_insert(number);
            }
        }
    }

    /// The first that shares a host.
    fn first_overlap(&self, hosts: &[Hostname]) -> Option<usize> {
        if hosts.is_empty() {
            return self.first;
        }
        let each = hosts.iter().filter_map(|host| self.overlap(host));
        each.chain(self.every_host).min()
    }

    fn overlap(&self, host: &Hostname) -> Option<usize> {
        let same = self.named.get(host.as_str());
        let covering = domains(host);
        let covering = covering.filter_map(|domain| self.named.get(&*format!("*.{domain}")));
        let covered = host
            .wildcard_suffix()
            .and_then(|domain| self.within.get(domain));
        same.into_iter()
            .chain(covering)
            .chain(covered)
            .copied()
            .min()
    }
}

/// The domains above a host.
fn domains(host: &Hostname) -> impl Iterator<Item = &str> {
    let name = host.as_str();
    let name = name.strip_prefix("*.").unwrap_or(name);
    name.match_indices('.').map(move |(at, _)| &name[at + 1..])
}

/// Why the parent in a field lost a listener.
pub(crate) fn problem(other: &RouteName, listener: &ListenerKey, field: &str) -> Problem {
    let (kind, route) = (other.kind.as_str(), &other.name);
    let listener = listener.as_str().rsplit('/').next().unwrap_or_default();
    let message = format!(
        "{kind} {route} takes precedence (older, or first by name) for hosts of listener `{listener}` that this \
         route requests: HTTP and gRPC cannot share one, use other hosts or another listener"
    );
    Problem::new(Reason::Conflicted, field, message)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use xds::model::{Hostname, ObjectName};

    use super::{RouteHosts, RouteKind, find_conflicts};

    fn hosts(names: &[&str]) -> Vec<Hostname> {
        let names = names.iter();
        names
            .map(|name| Hostname::parse(name).expect("a host"))
            .collect()
    }

    /// Settling one route against one other must equal comparing their hosts.
    #[test]
    fn one_of_two_kinds_of_routes_loses_a_listener_if_hosts_overlap() {
        let names = [
            "a.b.c", "*.b.c", "*.c", "b.c", "x.b.c", "*.a.b.c", "c.b.c.d", "*.d",
        ];
        for one in names {
            for other in names {
                let (one, other) = (hosts(&[one]), hosts(&[other]));
                let overlap = one[0].intersect(&other[0]).is_some();
                let hosts_of_kind = |name: &str, hosts: &[Hostname]| -> RouteHosts {
                    let age = (0, ObjectName::new("a", name));
                    [(age, Arc::from(hosts))].into()
                };
                let (first, second) = (
                    hosts_of_kind("first", &one),
                    hosts_of_kind("second", &other),
                );
                let conflicts =
                    find_conflicts((RouteKind::Http, &first), (RouteKind::Grpc, &second));
                assert_eq!(conflicts.len(), usize::from(overlap), "{one:?} {other:?}");
                let all = hosts_of_kind("second", &[]);
                assert_eq!(
                    find_conflicts((RouteKind::Http, &first), (RouteKind::Grpc, &all)).len(),
                    1
                );
                assert_eq!(
                    find_conflicts((RouteKind::Http, &all), (RouteKind::Grpc, &first)).len(),
                    1
                );
            }
        }
    }
}
