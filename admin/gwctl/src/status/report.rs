//! The status of a Gateway and its parts, computed from the cluster's objects and the reports of its
//! proxies.

use std::collections::BTreeSet;

use serde::Serialize;

use super::objects::{Condition, Object, ParentRef, problems, summary};
use super::proxy::Proxy;

/// Everything that was read for a Gateway.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) gateway: Object,
    /// None where the class may not be read.
    pub(super) class: Option<Class>,
    pub(super) listener_sets: Vec<Object>,
    pub(super) routes: Vec<Object>,
    pub(super) policies: Vec<Object>,
    pub(super) proxies: Vec<Proxy>,
    /// Parts of the cluster that could not be read.
    pub(super) unread: Vec<String>,
}

/// The GatewayClass that a Gateway names.
#[derive(Debug)]
pub(super) enum Class {
    Missing,
    Present {
        controller: String,
        /// Whether an installation of our controller has claimed it.
        is_claimed: bool,
        conditions: Vec<Condition>,
    },
}

/// The status of a Gateway.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) class: String,
    pub(super) addresses: Vec<String>,
    pub(super) conditions: Vec<Condition>,
    pub(super) listeners: Vec<ListenerReport>,
    pub(super) proxies: Vec<Proxy>,
    pub(super) routes: Vec<RouteReport>,
    pub(super) policies: Vec<PolicyReport>,
    /// Problems, with their causes.
    pub(super) problems: Vec<String>,
    /// Facts worth knowing that are not problems.
    pub(super) notes: Vec<String>,
}

/// A listener of the Gateway or of its ListenerSets.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListenerReport {
    /// None for a listener of the Gateway itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) listener_set: Option<String>,
    pub(super) name: String,
    pub(super) port: u16,
    pub(super) protocol: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hostname: Option<String>,
    pub(super) routes: u32,
    pub(super) status: String,
}

/// A route that refers to the Gateway.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RouteReport {
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) hostnames: Vec<String>,
    /// Listener or port that it is limited to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) listener: Option<String>,
    pub(super) status: String,
}

/// A policy that applies to the Gateway or to parts of it.
#[derive(Debug, Serialize)]
pub(super) struct PolicyReport {
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) status: String,
}

impl Report {
    /// Evaluates the findings.
    pub(super) fn new(findings: Findings) -> Self {
        let gateway = &findings.gateway;
        let mut report = Self {
            namespace: gateway.namespace.clone(),
            name: gateway.name.clone(),
            class: gateway.class().to_owned(),
            addresses: gateway
                .addresses()
                .iter()
                .map(|it| it.value.clone())
                .collect(),
            conditions: gateway.conditions().to_vec(),
            listeners: Vec::new(),
            proxies: Vec::new(),
            routes: Vec::new(),
            policies: Vec::new(),
            problems: Vec::new(),
            notes: findings.unread.clone(),
        };
        let is_ours = report.check_gateway(gateway, findings.class.as_ref());
        if is_ours {
            report.check_proxies(&findings.proxies);
        }
        let mut parents = vec![gateway.key()];
        report.check_listeners(gateway, None);
        for set in &findings.listener_sets {
            for (_, _) in set.parents(&parents[..1]) {
                parents.push(set.key());
                report.check_listeners(set, Some(&set.title()));
            }
        }
        let mut targets = parents.clone();
        for route in &findings.routes {
            if report.check_route(route, &parents) {
                targets.push(route.key());
            }
        }
        let namespaces: BTreeSet<String> = findings
            .routes
            .iter()
            .chain(&findings.listener_sets)
            .filter(|it| targets.contains(&it.key()))
            .map(|it| it.namespace.clone())
            .chain([gateway.namespace.clone()])
            .collect();
        for policy in &findings.policies {
            report.check_policy(policy, &targets, &namespaces);
        }
        // A route with several parents has the same problem with each.
        report.problems.dedup();
        report.proxies = findings.proxies;
        report
    }

    /// Returns whether a controller manages the Gateway.
    fn check_gateway(&mut self, gateway: &Object, class: Option<&Class>) -> bool {
        let name = gateway.class();
        match class {
            Some(Class::Missing) => self.problems.push(format!(
                "GatewayClass {name} does not exist: is the controller installed, and is the name right?"
            )),
            Some(Class::Present {
                conditions,
                is_claimed,
                ..
            }) => {
                let found = problems(conditions);
                let found = found.iter().filter(|it| it.kind == "Accepted");
                let claim = if *is_claimed { "" } else { NOT_CLAIMED };
                let found = found.map(|it| format!("GatewayClass {name}: {}{claim}", it.text()));
                self.problems.extend(found);
            }
            None => {}
        }
        // The CRD's default is the reason Pending.
        let conditions = gateway.conditions();
        if conditions.iter().all(|it| it.reason == "Pending") {
            let controller = match class {
                Some(Class::Present { controller, .. }) => format!(" {controller}"),
                _ => String::new(),
            };
            self.problems.push(format!(
                "no controller has processed the Gateway: is the controller{controller} running? Its pods \
                 and their log say more"
            ));
            return false;
        }
        let found = problems(conditions).into_iter().map(Condition::text);
        self.problems.extend(found);
        let observed = conditions.iter().map(|it| it.observed_generation).min();
        if observed.is_some_and(|it| it < gateway.generation) {
            self.problems.push(
                "the status is of an earlier version of the Gateway: the controller has not processed \
                 the last change"
                    .to_owned(),
            );
        }
        true
    }

    fn check_proxies(&mut self, proxies: &[Proxy]) {
        if proxies.is_empty() {
            self.problems.push(
                "there are no proxies: the conditions, and the events of the Gateway's Deployment, say why"
                    .to_owned(),
            );
        }
        for proxy in proxies {
            let pod = &proxy.pod;
            if !proxy.ready && proxy.state != TERMINATING {
                let pending = proxy.own.as_ref().map(|it| it.pending.join(", "));
                let pending = pending.filter(|it| !it.is_empty());
                let pending = pending.map_or_else(String::new, |it| format!(", waiting for {it}"));
                self.problems
                    .push(format!("proxy {pod} is {}{pending}", proxy.state));
            }
            if let Some(silent) = &proxy.silent {
                self.notes
                    .push(format!("proxy {pod} does not respond: {silent}"));
            }
            let Some(own) = &proxy.own else { continue };
            if let Some(why) = &own.disconnected {
                self.problems.push(format!(
                    "proxy {pod} is not connected to the controller and serves its current configuration: {why}"
                ));
            }
            let refused = own.refused.iter();
            self.problems
                .extend(refused.map(|it| format!("proxy {pod} refuses {it}")));
            let down = own.down.iter();
            self.problems
                .extend(down.map(|it| format!("proxy {pod} cannot listen on {it}")));
            let keys = own.keys_missing.iter();
            self.problems
                .extend(keys.map(|it| format!("proxy {pod} lacks keys of {it}")));
            let kept = own.previous_versions.iter();
            self.problems.extend(kept.map(|it| {
                format!(
                    "proxy {pod} keeps the previous version of {it}, as the one in its files is \
                     invalid: its log says why"
                )
            }));
            if let Some(why) = &own.driver_reason {
                self.notes
                    .push(format!("proxy {pod} uses {}: {why}", own.driver));
            }
        }
    }

    fn check_listeners(&mut self, object: &Object, listener_set: Option<&str>) {
        for (listener, status) in object.listeners() {
            let name = &listener.name;
            let conditions = status.map_or(&[][..], |it| &it.conditions);
            let of = listener_set.map(|it| format!(" of {it}"));
            let of = of.unwrap_or_default();
            // The Gateway's own condition reports that already.
            let found = problems(conditions)
                .into_iter()
                .filter(|it| it.reason != "Pending");
            let found = found.map(|it| format!("listener {name}{of}: {}", it.text()));
            self.problems.extend(found);
            self.listeners.push(ListenerReport {
                listener_set: listener_set.map(str::to_owned),
                name: name.clone(),
                port: listener.port,
                protocol: listener.protocol.clone(),
                hostname: listener.hostname.clone(),
                routes: status.map_or(0, |it| it.attached_routes),
                status: summary(conditions),
            });
        }
    }

    /// Returns whether the route refers to one of the parents.
    fn check_route(&mut self, route: &Object, parents: &[String]) -> bool {
        let references = route.parents(parents);
        let is_ours = !references.is_empty();
        for (parent, verdict) in references {
            let conditions = verdict.map_or(&[][..], |it| &it.conditions);
            let title = route.title();
            if conditions.is_empty() {
                self.problems.push(format!(
                    "{title}: no controller has processed it for this Gateway"
                ));
            }
            let found = problems(conditions).into_iter();
            self.problems
                .extend(found.map(|it| format!("{title}: {}", it.text())));
            self.routes.push(RouteReport {
                kind: route.kind.clone(),
                namespace: route.namespace.clone(),
                name: route.name.clone(),
                hostnames: route.hostnames().to_vec(),
                listener: limited_to(parent),
                status: summary(conditions),
            });
        }
        is_ours
    }

    /// A policy of a target that does not exist belongs to no Gateway, and what it should protect may be
    /// open: it counts at each Gateway that has something in its namespace.
    fn check_policy(&mut self, policy: &Object, parents: &[String], namespaces: &BTreeSet<String>) {
        let mut verdicts = policy.verdicts(parents);
        for missing in policy.without_target(namespaces) {
            if verdicts.iter().all(|it| !std::ptr::eq(*it, missing)) {
                verdicts.push(missing);
            }
        }
        for verdict in verdicts {
            let title = policy.title();
            let found = problems(&verdict.conditions).into_iter();
            self.problems
                .extend(found.map(|it| format!("{title}: {}", it.text())));
            self.policies.push(PolicyReport {
                kind: policy.kind.clone(),
                namespace: policy.namespace.clone(),
                name: policy.name.clone(),
                status: summary(&verdict.conditions),
            });
        }
    }
}

/// The state of a pod that another replaces.
const TERMINATING: &str = "Terminating";

fn limited_to(parent: &ParentRef) -> Option<String> {
    let port = parent.port.map(|it| it.to_string());
    parent.section_name.clone().or(port)
}

/// Follows the problem of a class without a claim: its controller does not run, or cannot write the claim.
const NOT_CLAIMED: &str = "; no installation has claimed the class: if the controller runs, an Event of the class, \
     CannotBeClaimed, says why";
