//! Routes that a Gateway refuses, and has no room to close one by one either.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::json;
use translate::budgets::{Budget, Limits};
use translate::{Delta, Event, Object, Options, Translator};
use xds::model::{Hostname, PathMatch, Resource, Route};

use super::{apply, metadata, share, used};
use crate::support::{GATEWAY_API, Refused, admitted, gateway, listener_set};

/// The rule for `/admin` had no room, and the older one for `/` of the same host got its requests.
#[test]
fn routes_without_room_for_what_closes_them_close_their_host_names() {
    let mut translator = translator(16_384);
    let delta = apply(&mut translator, objects());
    let open = sent(&delta, false);
    // The wider route of the namespace with the same host is closed, those at other hosts serve on, and so do
    // those of another namespace, at the same host or a wildcard above.
    let expected = [
        "noisy/r-01/0",
        "noisy/r-02/0",
        "noisy/r-03/0",
        "quiet/r-08/0",
        "quiet/r-09/0",
        "quiet/r-10/0",
    ];
    assert_eq!(open.keys().copied().collect::<Vec<_>>(), expected);
    let closing = sent(&delta, true);
    let expected = ["noisy/closed:hosts/0", "noisy/r-00/0", "noisy/r-04/0"];
    assert_eq!(closing.keys().copied().collect::<Vec<_>>(), expected);
    let of_hosts = closing["noisy/closed:hosts/0"];
    let hosts: Vec<&str> = of_hosts.attachments[0]
        .hostnames
        .iter()
        .map(Hostname::as_str)
        .collect();
    assert_eq!(hosts, ["shop.example.com"]);
    let attachments = of_hosts.attachments.clone();
    let matches = of_hosts.rule.http().expect("a rule of HTTP");
    let matches = matches.matches.clone();
    assert_eq!(matches.len(), 1);
    assert_eq!(matches[0].path, PathMatch::everything());

    let refused = Refused::of(&delta).names("GatewayFull");
    let expected = ["r-00", "r-04", "r-05"].map(str::to_owned);
    assert_eq!(refused, BTreeSet::from(expected));
    let message = message(&delta, "r-00");
    for part in [
        "infra/edge",
        "all requests for shop.example.com at listener Gateway/infra/edge/listener-00",
        "less protected routes",
    ] {
        assert!(message.contains(part), "{part} is missing: {message}");
    }
    let message = self::message(&delta, "r-05");
    assert!(
        message.contains("all requests for its host names get status 500"),
        "{message}"
    );
    let of_hosts = share(&mut translator, Budget::GatewayClosedHosts);
    assert_eq!(of_hosts, Some(1.0 / 16_384.0));

    // With the last of these routes, its host names are open again. The route that is back takes as much of
    // `*.example.com` as what closed it did: all requests for its host name.
    let gone = vec![Event::Delete(
        route("noisy", 5, SHOP, "/admin").object_ref(),
    )];
    let delta = translator.apply(gone, Timestamp::UNIX_EPOCH);
    let open = sent(&delta, false);
    assert_eq!(open.keys().copied().collect::<Vec<_>>(), ["noisy/r-00/0"]);
    let ordinary = open["noisy/r-00/0"];
    assert_eq!(ordinary.attachments, attachments);
    let rule = ordinary.rule.http().expect("a rule of HTTP");
    assert_eq!(rule.matches, matches);
    let removed = delta.resources.iter().filter(|(_, it)| it.is_none());
    let removed: Vec<_> = removed.map(|(key, _)| &*key.key).collect();
    assert_eq!(removed, ["HTTPRoute/noisy/closed:hosts/0/infra/edge"]);
    assert_eq!(share(&mut translator, Budget::GatewayClosedHosts), None);
}

/// A route that shares a host name with one without room is closed when it comes, and when it gets that host.
#[test]
fn what_gets_a_closed_host_name_later_is_closed() {
    let mut translator = translator(16_384);
    apply(&mut translator, objects());
    // It takes the place of one at another host.
    let batch = vec![Event::Upsert(route("noisy", 1, SHOP, "/other"))];
    let delta = translator.apply(batch, Timestamp::UNIX_EPOCH);
    assert!(sent(&delta, true).contains_key("noisy/r-01/0"));
    let batch = vec![Event::Upsert(route("noisy", 1, "1.example.com", "/"))];
    let delta = translator.apply(batch, Timestamp::UNIX_EPOCH);
    assert!(sent(&delta, false).contains_key("noisy/r-01/0"));
    let batch = vec![
        Event::Delete(route("quiet", 9, SHOP, "/").object_ref()),
        Event::Upsert(route("noisy", 6, SHOP, "/")),
    ];
    let delta = translator.apply(batch, Timestamp::UNIX_EPOCH);
    assert!(!sent(&delta, false).contains_key("noisy/r-06/0"));
}

/// Host names have no room without end either.
#[test]
fn a_namespace_with_too_many_closed_host_names_is_closed() {
    let mut translator = translator(1);
    let mut objects = objects();
    objects.push(route("noisy", 6, "other.example.com", "/admin"));
    let delta = apply(&mut translator, objects);
    let open = sent(&delta, false);
    let expected = ["quiet/r-08/0", "quiet/r-09/0", "quiet/r-10/0"];
    assert_eq!(open.keys().copied().collect::<Vec<_>>(), expected);
    let refused = Refused::of(&delta).names("GatewayFull");
    assert_eq!(refused.len(), 7, "{refused:?}");
    let message = message(&delta, "r-01");
    assert!(
        message.contains("rejects the requests of all routes of this namespace"),
        "{message}"
    );
    assert_eq!(used(&mut translator, Budget::GatewayClosedHosts), 1);
}

/// Host names of rules are in chunks, and one without host names is apart.
#[test]
fn many_closed_host_names_are_sent_in_rules_of_bounded_size() {
    let mut translator = translator(16_384);
    let mut objects = objects();
    for number in 0..1_500 {
        objects.push(route(
            "noisy",
            10 + number,
            &format!("{number}.example.org"),
            "/",
        ));
    }
    let mut everywhere = json!({
        "metadata": metadata("noisy", "r-everywhere", 2_000),
        "spec": {"parentRefs": [{"namespace": "infra", "name": "edge"}]},
    });
    everywhere["spec"]["rules"] = json!([{"matches": [{"path": {"value": "/admin"}}]}]);
    objects.push(admitted(GATEWAY_API, "HTTPRoute", everywhere));
    let delta = apply(&mut translator, objects);
    let closing = sent(&delta, true);
    let of_hosts = closing
        .iter()
        .filter(|(name, _)| name.contains("closed:hosts"));
    let hosts: Vec<usize> = of_hosts
        .map(|(_, rule)| rule.attachments[0].hostnames.len())
        .collect();
    assert_eq!(hosts, [0, 1_024, 477]);
}

/// A refused listener keeps its host name, up to a number of them. Beyond that, its requests went to a wider
/// listener, without the policies of its own ListenerSet.
#[test]
fn refused_listeners_without_room_close_their_host_names_at_wider_ones() {
    let mut translator = Translator::new(Options {
        budgets: Limits::default().with(Budget::SetListeners, 1),
        ..Options::cluster()
    });
    let mut objects = vec![gateway(1)];
    // One is served, and one keeps its host name.
    objects.extend((0..4).map(listener_set));
    objects.push(route("app", 1, "other.example.com", "/"));
    objects.push(route("app", 2, "host.set-3.example.com", "/"));
    objects.push(route("app", 3, "host.set-1.example.com", "/"));
    objects.push(route("quiet", 4, "quiet.set-3.example.com", "/"));
    let delta = apply(&mut translator, objects);
    let closing = sent(&delta, true);
    let expected = ["app/closed:hosts/0", "app/r-02/0"];
    assert_eq!(closing.keys().copied().collect::<Vec<_>>(), expected);
    let attachment = &closing["app/closed:hosts/0"].attachments[0];
    let listener = attachment.listener.as_str();
    assert_eq!(listener, "Gateway/infra/edge/listener-00");
    let hosts: Vec<&str> = attachment.hostnames.iter().map(Hostname::as_str).collect();
    assert_eq!(hosts, ["*.set-2.example.com", "*.set-3.example.com"]);
    let open = sent(&delta, false);
    let expected = ["app/r-01/0", "app/r-03/0", "quiet/r-04/0"];
    assert_eq!(open.keys().copied().collect::<Vec<_>>(), expected);
    let of_hosts = share(&mut translator, Budget::GatewayClosedHosts);
    assert_eq!(of_hosts, Some(2.0 / 16_384.0));
    // The next one keeps its host name instead.
    let gone = vec![Event::Delete(listener_set(1).object_ref())];
    let delta = translator.apply(gone, Timestamp::UNIX_EPOCH);
    let closing = sent(&delta, true);
    let attachment = &closing["app/closed:hosts/0"].attachments[0];
    assert_eq!(attachment.hostnames.len(), 1);
    let last = vec![Event::Delete(listener_set(3).object_ref())];
    let delta = translator.apply(last, Timestamp::UNIX_EPOCH);
    assert!(sent(&delta, false).contains_key("app/r-02/0"));
    assert_eq!(share(&mut translator, Budget::GatewayClosedHosts), None);
}

/// However many host names the refused routes of a namespace have, no more of them are read than decide that all
/// of its routes are closed, and none of that again for each listener.
#[test]
fn no_more_host_names_are_read_than_there_can_be_room_for() {
    let mut translator = translator(16_384);
    let mut objects = vec![gateway(64)];
    for number in 0..2_000 {
        let host = |index| format!("{index}.{number}.example.com");
        objects.push(route_at("noisy", number, (0..16).map(host), "/"));
    }
    objects.push(route("quiet", 8, "quiet.example.com", "/"));
    let delta = apply(&mut translator, objects);
    let open = sent(&delta, false);
    let expected = ["quiet/r-08/0"];
    assert_eq!(open.keys().copied().collect::<Vec<_>>(), expected);
    assert_eq!(Refused::of(&delta).names("GatewayFull").len(), 2_000);
    let message = message(&delta, "r-00");
    assert!(
        message.contains("rejects the requests of all routes of this namespace"),
        "{message}"
    );
    // Of two million.
    let of_hosts = share(&mut translator, Budget::GatewayClosedHosts);
    assert_eq!(of_hosts, Some(16_385.0 / 16_384.0));

    // 17 routes and 64 listeners for the host names, and what the routes read that change: not each of the 2 000.
    let batch = vec![Event::Upsert(route("quiet", 9, SHOP, "/"))];
    let delta = translator.apply(batch, Timestamp::UNIX_EPOCH);
    assert!(sent(&delta, false).contains_key("quiet/r-09/0"));
    let read = translator.facts_read();
    assert!(read < 1_000, "{read}");
}

/// Nor are the same host names of thousands of routes read again for each of them.
#[test]
fn host_names_that_many_refused_routes_share_are_not_read_for_each() {
    let mut translator = translator(1_024);
    let mut objects = vec![gateway(4)];
    for number in 0..1_000 {
        let hosts = (0..16).map(|index| format!("{index}.example.com"));
        objects.push(route_at("noisy", number, hosts, "/"));
    }
    objects.push(route("quiet", 8, "quiet.example.com", "/"));
    let delta = apply(&mut translator, objects);
    let open = sent(&delta, false);
    assert_eq!(open.keys().copied().collect::<Vec<_>>(), ["quiet/r-08/0"]);
    assert_eq!(Refused::of(&delta).names("GatewayFull").len(), 1_000);
    let message = message(&delta, "r-00");
    assert!(
        message.contains("rejects the requests of all routes of this namespace"),
        "{message}"
    );
    // They need no more room than they have host names, at four listeners.
    let of_hosts = share(&mut translator, Budget::GatewayClosedHosts);
    assert_eq!(of_hosts, Some(64.0 / 1_024.0));
    let batch = vec![Event::Upsert(route("quiet", 9, SHOP, "/"))];
    let delta = translator.apply(batch, Timestamp::UNIX_EPOCH);
    assert!(sent(&delta, false).contains_key("quiet/r-09/0"));
    // Of 33 routes, since each has 64 places.
    let read = translator.facts_read();
    assert!(read < 500, "{read}");
}

/// A Gateway with room for seven rules, and for one that closes a route.
fn translator(closed_hosts: u64) -> Translator {
    Translator::new(Options {
        budgets: Limits::default()
            .with(Budget::ViewResources, 7)
            .with(Budget::GatewayClosedHosts, closed_hosts),
        ..Options::cluster()
    })
}

/// Routes of two namespaces: seven rules have room, `r-04` is closed by a rule of its own, and `r-05` is not.
fn objects() -> Vec<Object> {
    vec![
        gateway(1),
        route("noisy", 0, SHOP, "/"),
        route("noisy", 1, "1.example.com", "/"),
        route("noisy", 2, "2.example.com", "/"),
        route("noisy", 3, "3.example.com", "/"),
        route("noisy", 4, "4.example.com", "/"),
        route("noisy", 5, SHOP, "/admin"),
        route("quiet", 8, "quiet.example.com", "/"),
        route("quiet", 9, SHOP, "/"),
        route("quiet", 10, "*.example.com", "/other"),
    ]
}

fn route(namespace: &str, number: usize, host: &str, path: &str) -> Object {
    route_at(namespace, number, [host.to_owned()], path)
}

fn route_at(
    namespace: &str,
    number: usize,
    hosts: impl IntoIterator<Item = String>,
    path: &str,
) -> Object {
    let hosts: Vec<String> = hosts.into_iter().collect();
    let value = json!({
        "metadata": metadata(namespace, &format!("r-{number:02}"), number),
        "spec": {
            "parentRefs": [{"namespace": "infra", "name": "edge"}],
            "hostnames": hosts,
            "rules": [{
                "matches": [{"path": {"value": path}}],
                "backendRefs": [{"name": "service", "port": 80}],
            }],
        },
    });
    admitted(GATEWAY_API, "HTTPRoute", value)
}

/// The rules that are sent, without those that reject all of their requests or only these.
fn sent(delta: &Delta, are_closing: bool) -> BTreeMap<&str, &Route> {
    let rules = delta.resources.iter().filter_map(|(_, it)| match it {
        Some(Resource::Route(route)) => Some(&**route),
        _ => None,
    });
    let rules = rules.filter(|route| {
        let rule = route.rule.http().expect("a rule of HTTP");
        rule.backends.is_empty() == are_closing
    });
    rules
        .map(|route| (route.key.rule().split_once('/').expect("a kind").1, route))
        .collect()
}

fn message(delta: &Delta, name: &str) -> String {
    let mut statuses = delta.statuses.iter();
    let found = statuses.find(|(object, _)| &*object.name.name == name);
    let Some((_, Some(translate::status::Status::Route(status)))) = found else {
        panic!("{name} has no status");
    };
    let mut conditions = status.parents.iter().flat_map(|it| &it.conditions);
    let problem = conditions.find(|it| it.is_problem());
    problem.expect("it is refused").message.to_string()
}

const SHOP: &str = "shop.example.com";
