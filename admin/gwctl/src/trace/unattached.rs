//! Routes that have the host of a request that no route got, and that their parents do not serve: what is usually meant
//! by a request with status 404.

use admin_types::dump::Problem;
use admin_types::trace::Message;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::Value;

use super::event::TraceEvent;
use crate::client::Client;
use crate::cluster::{Kind, Scope};
use crate::source::{Source, decode};

/// What to say of them; nothing where a route was selected, or where they cannot be read, as no more than a hint is lost.
pub(super) fn notes(events: &[TraceEvent], source: &Source, client: &Client) -> Vec<String> {
    let Some(host) = unserved(events) else {
        return Vec::new();
    };
    if source.is_cluster() {
        return in_cluster(source, &host);
    }
    let dump = client.get("/config_dump?type=runtime");
    let dump = dump.and_then(|bytes| decode(&bytes, "the gateway"));
    let runtime = dump.ok().and_then(|it| it.runtime).unwrap_or_default();
    in_files(&runtime.problems, &host)
}

const NOT_FOUND: u16 = 404;

/// The host of a request that no route got.
fn unserved(events: &[TraceEvent]) -> Option<String> {
    let mut host = None;
    let (mut is_served, mut is_missing) = (false, false);
    for event in events {
        let TraceEvent::Known(event) = event else {
            continue;
        };
        match &event.message {
            Message::RequestSnapshot(request) => host = Some(request.host.clone()),
            Message::RouteSelection { selected, .. } => is_served |= selected.is_some(),
            Message::RequestFinished(finished) => is_missing = finished.status == NOT_FOUND,
            _ => {}
        }
    }
    let host = host.filter(|_| is_missing && !is_served)?;
    let end = host.rfind(':').filter(|_| !host.ends_with(']'));
    let name = host.get(..end.unwrap_or(host.len()))?;
    Some(name.to_ascii_lowercase())
}

fn in_files(problems: &[Problem], host: &str) -> Vec<String> {
    let of_host = problems.iter();
    let of_host = of_host.filter(|it| it.hosts.iter().any(|it| matches(it, host)));
    of_host
        .map(|it| format!("not attached, but has this host: {}", it.text))
        .collect()
}

fn in_cluster(source: &Source, host: &str) -> Vec<String> {
    let mut found = Vec::new();
    for kind in [Kind::HTTP_ROUTE, Kind::GRPC_ROUTE] {
        let Ok(cluster) = source.cluster() else {
            continue;
        };
        let routes = cluster.objects(kind, Scope::Cluster);
        let listed = cluster.list(&routes, kind.plural, "");
        let routes = listed.ok().flatten().unwrap_or_default();
        found.extend(
            routes
                .iter()
                .filter_map(|it| in_object(kind.name, it, host)),
        );
    }
    found
}

/// What to say of a route in a cluster, if it has the host and no parent accepts it.
fn in_object(kind: &str, route: &DynamicObject, host: &str) -> Option<String> {
    let hosts = route.data.pointer("/spec/hostnames");
    let mut hosts = hosts.and_then(Value::as_array)?.iter();
    if !hosts.any(|it| it.as_str().is_some_and(|it| matches(it, host))) {
        return None;
    }
    let parents = route.data.pointer("/status/parents");
    let parents = parents.and_then(Value::as_array).into_iter().flatten();
    let conditions = parents
        .filter_map(|it| it["conditions"].as_array())
        .flatten();
    let accepted = conditions.filter(|it| it["type"] == "Accepted");
    let accepted: Vec<&Value> = accepted.collect();
    if accepted.iter().any(|it| it["status"] == "True") {
        return None;
    }
    let why = accepted.iter().find_map(|it| it["message"].as_str());
    let why = why
        .unwrap_or("no controller has looked at it: correct its parentRefs (see `gwctl status`)");
    let namespace = route.namespace().unwrap_or_default();
    Some(format!(
        "not attached, but has this host: {kind} {namespace}/{}: {why}",
        route.name_any()
    ))
}

/// Whether the host of a route, which may be a wildcard, is that of the request.
fn matches(pattern: &str, host: &str) -> bool {
    match pattern.strip_prefix('*') {
        Some("") => true,
        Some(suffix) => host.len() > suffix.len() && host.ends_with(suffix),
        None => pattern == host,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problem(text: &str, hosts: &[&str]) -> Problem {
        Problem {
            level: "error".to_owned(),
            text: text.to_owned(),
            hosts: hosts.iter().map(|it| (*it).to_owned()).collect(),
        }
    }

    #[test]
    fn routes_of_files_with_the_host_are_named() {
        let problems = [
            problem("one", &["shop.example"]),
            problem("below", &["*.example"]),
            problem("all", &["*"]),
            problem("other", &["other.example", "*.shop.example"]),
            problem("none", &[]),
        ];
        let named = in_files(&problems, "shop.example");
        let expected = ["one", "below", "all"];
        let expected = expected.map(|it| format!("not attached, but has this host: {it}"));
        assert_eq!(named, expected);
    }

    #[test]
    fn routes_of_a_cluster_that_no_parent_accepts_are_named() {
        let route = |hosts: Value, parents: Value| -> DynamicObject {
            serde_json::from_value(json!({
                "metadata": {"namespace": "app", "name": "shop"},
                "spec": {"hostnames": hosts},
                "status": {"parents": parents},
            }))
            .expect("a route")
        };
        let condition = |status: &str| json!([{"conditions": [{"type": "Accepted", "status": status, "message": "no such listener"}]}]);
        let said = |hosts, parents| in_object("HTTPRoute", &route(hosts, parents), "shop.example");
        let own = || json!(["shop.example"]);
        assert_eq!(said(own(), condition("True")), None);
        assert_eq!(said(json!(["other.example"]), condition("False")), None);
        let refused = said(own(), condition("False")).expect("a note");
        assert_eq!(
            refused,
            "not attached, but has this host: HTTPRoute app/shop: no such listener"
        );
        let unseen = said(own(), json!([])).expect("a note");
        assert!(
            unseen.contains("no controller has looked at it"),
            "{unseen}"
        );
    }
}
