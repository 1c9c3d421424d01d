//! The status of one proxy, as its configuration dump shows it.

use std::collections::{BTreeMap, BTreeSet};

use admin_types::dump::{Dump, Endpoint, EndpointHealth, Hosts, Listener, SourceKind, Target};
use anyhow::Result;
use translate::Level;

use super::proxy::{Proxy, UNNAMED, of_dump};
use super::report::{ListenerReport, PolicyReport, Report, RouteReport};
use crate::config::{Key, restrict, target};
use crate::resource::Resource;
use crate::source::Source;

/// The status of the proxy at an address, or of a saved dump: of all its Gateways, or of the selected ones.
///
/// # Errors
///
/// It cannot be read, or has no such Gateway.
pub(super) fn reports(source: &Source, resource: Option<&Resource>) -> Result<Vec<Report>> {
    let whole = source.dump(None)?;
    let selected = source.gateways(&whole.binds, resource)?;
    let dump = match &selected {
        Some(gateways) => restrict(whole.clone(), gateways),
        None => whole.clone(),
    };
    Ok(vec![report(&dump, whole)])
}

fn report(dump: &Dump, whole: Dump) -> Report {
    let gateways: BTreeSet<&str> = dump.binds.iter().map(|it| it.gateway.as_str()).collect();
    let gateways: Vec<&str> = gateways.into_iter().collect();
    let (namespace, name) = match &*gateways {
        [only] => only.split_once('/').unwrap_or_default(),
        _ => Default::default(),
    };
    let addresses = dump.binds.iter().map(|it| {
        if it.address.contains(':') {
            format!("[{}]:{}", it.address, it.port)
        } else {
            format!("{}:{}", it.address, it.port)
        }
    });
    let mut report = Report {
        title: match &*gateways {
            [] => "no Gateway".to_owned(),
            [only] => format!("Gateway {only}"),
            several => format!("Gateways {}", several.join(", ")),
        },
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        addresses: addresses.collect(),
        ..Report::default()
    };
    if gateways.is_empty() {
        let text = "no Gateway is loaded, so nothing is served";
        report.add(Level::Error, text.to_owned());
    }
    listeners(dump, &whole, gateways.len() > 1, &mut report);
    routes(dump, &mut report);
    policies(dump, &mut report);
    problems(dump, &whole, &mut report);
    let proxy = Proxy {
        pod: UNNAMED.to_owned(),
        state: "Running".to_owned(),
        ready: whole
            .runtime
            .as_ref()
            .is_none_or(|it| it.pending.is_empty()),
        own: Some(of_dump(whole)),
        ..Proxy::default()
    };
    for (level, text) in proxy.problems() {
        report.add(level, text);
    }
    report.proxies.push(proxy);
    report.finish()
}

fn policies(dump: &Dump, report: &mut Report) {
    for policy in &dump.policies {
        let key = Key::parse(&policy.key);
        report.policies.push(PolicyReport {
            kind: key.kind.to_owned(),
            namespace: key.namespace.to_owned(),
            name: key.name.to_owned(),
            status: format!("for {}", target(&policy.target)),
        });
    }
}

/// What the proxy knows of objects in files, and what its configuration shows.
fn problems(dump: &Dump, whole: &Dump, report: &mut Report) {
    let runtime = whole.runtime.clone().unwrap_or_default();
    if whole.source.kind == SourceKind::Xds || runtime.problems.is_empty() {
        backends(dump, report);
    }
    for problem in runtime.problems {
        let level = match problem.level.as_str() {
            "error" => Level::Error,
            "warning" => Level::Warning,
            _ => Level::Note,
        };
        report.add(level, problem.text);
    }
    unresolved(dump, report);
    failing(dump, report);
}

fn listeners(dump: &Dump, whole: &Dump, are_several: bool, report: &mut Report) {
    let down = whole.runtime.iter().flat_map(|it| &it.binds_down);
    let down: BTreeSet<&str> = down.map(|it| it.bind.as_str()).collect();
    for listener in &dump.listeners {
        let port = dump.binds.iter().find(|it| it.key == listener.bind);
        let routes = dump.routes.iter().filter(|it| it.listener == listener.key);
        let routes: BTreeSet<String> = routes.map(|it| Key::parse(&it.key).object()).collect();
        report.listeners.push(ListenerReport {
            listener_set: of(listener, are_several),
            name: listener.name.clone(),
            port: port.map_or(0, |it| it.port),
            protocol: listener.protocol.clone(),
            hostname: listener.hostname.clone(),
            routes: u32::try_from(routes.len()).unwrap_or(u32::MAX),
            status: if down.contains(listener.bind.as_str()) {
                "down".to_owned()
            } else {
                "ok".to_owned()
            },
        });
    }
}

/// The ListenerSet of a listener, or its Gateway where there are several.
fn of(listener: &Listener, are_several: bool) -> Option<String> {
    let key = Key::parse(&listener.key);
    let is_own = key.kind == "Gateway";
    (!is_own || are_several).then(|| format!("{} {}/{}", key.kind, key.namespace, key.name))
}

fn routes(dump: &Dump, report: &mut Report) {
    let mut seen = BTreeSet::new();
    for route in &dump.routes {
        let key = Key::parse(&route.key);
        let section = Key::parse(&route.listener).part.to_owned();
        if !seen.insert((key.object(), route.listener.clone())) {
            continue;
        }
        let rules = dump.routes.iter();
        let mut rules = rules.filter(|it| {
            it.listener == route.listener && Key::parse(&it.key).object() == key.object()
        });
        let is_broken = rules.any(|it| {
            let mut backends = it.backends.iter();
            backends.any(|it| matches!(it.target, Target::Invalid { .. }))
        });
        report.routes.push(RouteReport {
            kind: key.kind.to_owned(),
            namespace: key.namespace.to_owned(),
            name: key.name.to_owned(),
            hostnames: route.hostnames.clone(),
            listener: Some(section),
            status: if is_broken { "invalid backends" } else { "ok" }.to_owned(),
        });
    }
}

/// Backends that cannot serve anything, which the controller, or the log of files, explains.
fn backends(dump: &Dump, report: &mut Report) {
    let services: BTreeMap<&str, &[Endpoint]> = dump
        .services
        .iter()
        .map(|it| (it.key.as_str(), &*it.endpoints))
        .collect();
    for route in &dump.routes {
        let key = Key::parse(&route.key);
        let title = format!("{} {}/{}", key.kind, key.namespace, key.name);
        let rule = route.order.rule;
        for (index, backend) in route.backends.iter().enumerate() {
            let field = format!("{title} spec.rules[{rule}].backendRefs[{index}]");
            match &backend.target {
                Target::Invalid { reason, reference } => {
                    let text = format!("{field}: {reference} cannot be used ({reason})");
                    report.add(Level::Error, text);
                }
                Target::Service { service, port } if backend.weight > 0 => {
                    let endpoints = services.get(service.as_str()).copied().unwrap_or_default();
                    let of_port = endpoints
                        .iter()
                        .filter(|it| it.port.is_none_or(|it| it == *port));
                    let mut ready = of_port.filter(|it| it.status != EndpointHealth::NotReady);
                    if ready.next().is_none() {
                        let text = format!(
                            "{field}: {service} has no endpoint that is ready for port {port}, so its requests get \
                             status 503"
                        );
                        report.add(Level::Error, text);
                    }
                }
                Target::Service { .. } | Target::Backend { .. } => {}
            }
        }
    }
}

/// Backends without an address, because no name of theirs has one.
fn unresolved(dump: &Dump, report: &mut Report) {
    for backend in dump.backends.iter().filter(|it| it.endpoints.is_empty()) {
        let names: Vec<&str> = match &backend.hosts {
            Hosts::Dns { name, .. } => vec![name],
            Hosts::Static { hosts } => hosts.iter().map(|it| &*it.host).collect(),
            Hosts::Unix { .. } | Hosts::Pool { .. } => continue,
        };
        let text = format!(
            "{}: no address is found for {}, so its requests get status 503: correct the name, or what answers for \
             it; the proxy's log has the answer",
            backend.key,
            names.join(", ")
        );
        report.add(Level::Error, text);
    }
}

/// Endpoints whose last attempts failed.
fn failing(dump: &Dump, report: &mut Report) {
    let of_services = dump.services.iter().map(|it| (&it.key, &it.endpoints));
    let of_backends = dump.backends.iter().map(|it| (&it.key, &it.endpoints));
    for (key, endpoints) in of_services.chain(of_backends) {
        for endpoint in endpoints {
            let failures = endpoint.live.consecutive_failures;
            if failures > 0 {
                let text = format!(
                    "{key}: the last {failures} attempts at endpoint {} failed; `gwctl trace` shows why",
                    endpoint.name
                );
                report.add(Level::Warning, text);
            }
        }
    }
}
