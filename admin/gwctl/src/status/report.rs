//! The status of a Gateway and its parts, or of what a namespace has at others' Gateways, computed from the
//! cluster's objects, what is found out about them, and the reports of proxies.

use std::collections::BTreeSet;

use serde::Serialize;
use translate::Level;
use translate::diagnosis::Diagnosis;
use translate::status::Reason;

use super::known::KnownProblems;
use super::objects::{Condition, Object, ParentRef, Verdict, problems, summary};
use super::proxy::Proxy;

/// Everything that was read for a Gateway.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) gateway: Object,
    /// None where the class may not be read.
    pub(super) class: Option<Class>,
    pub(super) proxies: Proxies,
    /// Why the API server lets not all pods be made.
    pub(super) no_pods: Option<String>,
}

/// Where the proxies of a Gateway are.
#[derive(Debug, Default)]
pub(super) enum Proxies {
    #[default]
    /// Nobody runs any: files are evaluated.
    NotAsked,
    Asked(Vec<Proxy>),
}

/// What was read for all Gateways.
#[derive(Debug, Default)]
pub(super) struct Everything {
    pub(super) listener_sets: Vec<Object>,
    pub(super) routes: Vec<Object>,
    pub(super) policies: Vec<Object>,
    pub(super) diagnoses: Vec<Diagnosis>,
    /// Parts of the cluster that could not be read.
    pub(super) unread: Vec<String>,
    /// Parts that could be read in the own namespace only.
    pub(super) partly_read: Vec<String>,
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

/// The status of a Gateway, of a namespace, or of a proxy.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    /// `Gateway default/edge`.
    pub(super) title: String,
    pub(super) namespace: String,
    pub(super) name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) class: String,
    /// The Gateways elsewhere that the objects of a namespace name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) gateways: Option<BTreeSet<String>>,
    pub(super) addresses: Vec<String>,
    pub(super) conditions: Vec<Condition>,
    pub(super) listeners: Vec<ListenerReport>,
    pub(super) proxies: Vec<Proxy>,
    pub(super) routes: Vec<RouteReport>,
    pub(super) policies: Vec<PolicyReport>,
    /// Problems, with their causes: errors first.
    pub(super) problems: Vec<Problem>,
    /// Facts worth knowing that are not problems.
    pub(super) notes: Vec<String>,
    /// The objects that are listed, by key.
    #[serde(skip)]
    pub(super) listed: BTreeSet<String>,
}

/// Something that does not work, or is probably not meant so.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Problem {
    pub(super) level: Level,
    pub(super) text: String,
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
    /// Evaluates what was read for a Gateway.
    pub(super) fn new(findings: Findings, all: &Everything) -> Self {
        let gateway = &findings.gateway;
        let addresses = gateway.addresses().iter();
        let mut report = Self {
            title: gateway.title(),
            namespace: gateway.namespace.clone(),
            name: gateway.name.clone(),
            class: gateway.class().to_owned(),
            addresses: addresses.map(|it| it.value.clone()).collect(),
            conditions: gateway.conditions().to_vec(),
            ..Self::default()
        };
        report.could_not_be_read(all);
        report.listed.insert(gateway.key());
        let is_ours = report.check_gateway(gateway, findings.class.as_ref());
        if let (Proxies::Asked(proxies), true) = (&findings.proxies, is_ours) {
            report.check_proxies(proxies, findings.no_pods.as_deref());
        }
        let own = BTreeSet::from([gateway.key()]);
        let mut parents = own.clone();
        report.check_listeners(gateway, None);
        for set in &all.listener_sets {
            if !set.parents(&own).is_empty() {
                parents.insert(set.key());
                report.check_listener_set(set);
            }
        }
        let mut targets = parents.clone();
        for route in &all.routes {
            if report.check_route(route, route.parents(&parents)) {
                targets.insert(route.key());
                targets.extend(route.backends());
            }
        }
        let attached = all.routes.iter().chain(&all.listener_sets);
        let attached = attached.filter(|it| targets.contains(&it.key()));
        let namespaces = attached.map(|it| it.namespace.clone());
        let namespaces: BTreeSet<String> = namespaces.chain([gateway.namespace.clone()]).collect();
        for policy in &all.policies {
            report.check_policy(policy, &targets, &namespaces);
        }
        report.check_diagnoses(&all.diagnoses, &namespaces);
        if let Proxies::Asked(proxies) = findings.proxies {
            report.proxies = proxies;
        }
        report.finish()
    }

    /// What a namespace has at Gateways of others, besides what is `listed` already. `None` if that is nothing.
    pub(super) fn of_namespace(
        namespace: &str,
        all: &Everything,
        listed: &BTreeSet<String>,
    ) -> Option<Self> {
        let mut report = Self {
            title: format!("Namespace {namespace}"),
            namespace: namespace.to_owned(),
            ..Self::default()
        };
        let is_left = |it: &&Object| it.namespace == namespace && !listed.contains(&it.key());
        let mut gateways = BTreeSet::new();
        for set in all.listener_sets.iter().filter(is_left) {
            gateways.extend(set.all_parents().iter().map(|it| it.0.key(namespace)));
            report.check_listener_set(set);
        }
        let lost = all.diagnoses.iter();
        let lost = lost.filter(|it| it.reason == Reason::NoMatchingParent);
        let lost: BTreeSet<String> = lost.map(key).collect();
        for route in all.routes.iter().filter(is_left) {
            let parents = route.all_parents();
            gateways.extend(parents.iter().map(|it| it.0.key(namespace)));
            // Whether a parent exists is not for its status to say.
            let is_nobodys = lost.contains(&route.key());
            let parents = parents
                .into_iter()
                .filter(|it| !is_nobodys || it.1.is_some());
            report.check_route(route, parents.collect());
            report.listed.insert(route.key());
        }
        for policy in all.policies.iter().filter(is_left) {
            let verdicts = policy.all_verdicts();
            for verdict in verdicts {
                report.check_verdict(policy, &verdict.conditions);
            }
            if verdicts.is_empty() {
                let text = format!("{}: no controller has processed it", policy.title());
                report.add(Level::Error, text);
            }
        }
        // A grant is at no Gateway.
        let grants = all.diagnoses.iter().filter(|it| {
            it.object.kind.to_string() == "ReferenceGrant"
                && *it.object.name.namespace == *namespace
        });
        report.listed.extend(grants.map(key));
        let namespaces = BTreeSet::from([namespace.to_owned()]);
        let left = all.diagnoses.iter();
        let left = left.filter(|it| !listed.contains(&key(it))).cloned();
        report.check_diagnoses(&left.collect::<Vec<_>>(), &namespaces);
        if report.listed.is_empty() && report.problems.is_empty() {
            return None;
        }
        report.could_not_be_read(all);
        report.gateways = Some(gateways);
        Some(report.finish())
    }

    /// Whether a command that shows it is to fail.
    pub(super) fn is_failure(&self, strict: bool) -> bool {
        let least = if strict { Level::Warning } else { Level::Error };
        self.problems.iter().any(|it| it.level >= least)
    }

    /// Adds a problem; one that is merely worth knowing to the notes.
    pub(super) fn add(&mut self, level: Level, text: String) {
        if level == Level::Note {
            self.notes.push(text);
        } else {
            self.problems.push(Problem { level, text });
        }
    }

    /// The worst first, each once: a route with several parents has the same problem with each.
    pub(super) fn finish(mut self) -> Self {
        self.problems.sort_by_key(|it| std::cmp::Reverse(it.level));
        let mut seen = BTreeSet::new();
        self.problems.retain(|it| seen.insert(it.text.clone()));
        self.notes.retain(|it| seen.insert(it.clone()));
        self
    }

    fn could_not_be_read(&mut self, all: &Everything) {
        for unread in &all.unread {
            self.add(
                Level::Error,
                format!("part of the status is unknown: {unread}"),
            );
        }
        self.notes.extend(all.partly_read.iter().cloned());
    }

    fn add_conditions(&mut self, of: &str, conditions: &[Condition]) {
        for it in problems(conditions) {
            let of = if of.is_empty() {
                String::new()
            } else {
                format!("{of}: ")
            };
            self.add(it.level(), format!("{of}{}", it.text()));
        }
    }

    /// Returns whether a controller manages the Gateway.
    fn check_gateway(&mut self, gateway: &Object, class: Option<&Class>) -> bool {
        let name = gateway.class();
        match class {
            Some(Class::Missing) => self.add(Level::Error, format!(
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
                for it in found {
                    let text = format!("GatewayClass {name}: {}{claim}", it.text());
                    self.add(it.level(), text);
                }
            }
            None => {}
        }
        // The CRD's default is the reason Pending.
        let conditions = gateway.conditions();
        if conditions.iter().all(Condition::is_default) {
            let controller = match class {
                Some(Class::Present { controller, .. }) => format!(" {controller}"),
                _ => String::new(),
            };
            self.add(Level::Error, format!(
                "no controller has processed the Gateway: is the controller{controller} running? Its pods \
                 and their log say more"
            ));
            return false;
        }
        self.add_conditions("", conditions);
        let observed = conditions.iter().map(|it| it.observed_generation).min();
        if observed.is_some_and(|it| it < gateway.generation) {
            let text = "the status is of an earlier version of the Gateway: the controller has not processed \
                        the last change";
            self.add(Level::Error, text.to_owned());
        }
        true
    }

    fn check_proxies(&mut self, proxies: &[Proxy], no_pods: Option<&str>) {
        if let Some(why) = no_pods {
            // The controller says so some seconds later.
            let mut known = self.conditions.iter();
            if !known.any(|it| it.message.contains(why)) {
                self.add(Level::Error, why.to_owned());
            }
        } else if proxies.is_empty() {
            let text = "there are no proxies: the conditions, and the events of the Gateway's Deployment, say why";
            self.add(Level::Error, text.to_owned());
        }
        for proxy in proxies {
            for (level, text) in proxy.problems() {
                self.add(level, text);
            }
        }
    }

    fn check_listener_set(&mut self, set: &Object) {
        self.listed.insert(set.key());
        self.add_conditions(&set.title(), set.conditions());
        self.check_listeners(set, Some(&set.title()));
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
            for it in found {
                self.add(it.level(), format!("listener {name}{of}: {}", it.text()));
            }
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

    /// Lists a route with these of its parents. Returns whether there are any.
    fn check_route(
        &mut self,
        route: &Object,
        parents: Vec<(&ParentRef, Option<&Verdict>)>,
    ) -> bool {
        let is_ours = !parents.is_empty();
        if is_ours {
            self.listed.insert(route.key());
        }
        for (parent, verdict) in parents {
            let conditions = verdict.map_or(&[][..], |it| &it.conditions);
            let title = route.title();
            if conditions.is_empty() {
                let text = format!(
                    "{title}: no controller has processed it for {}",
                    parent.key(&route.namespace)
                );
                self.add(Level::Error, text);
            }
            self.add_conditions(&title, conditions);
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
    fn check_policy(
        &mut self,
        policy: &Object,
        parents: &BTreeSet<String>,
        namespaces: &BTreeSet<String>,
    ) {
        let mut verdicts = policy.verdicts(parents);
        for missing in policy.without_target(namespaces) {
            if verdicts.iter().all(|it| !std::ptr::eq(*it, missing)) {
                verdicts.push(missing);
            }
        }
        for verdict in verdicts {
            self.check_verdict(policy, &verdict.conditions);
        }
    }

    fn check_verdict(&mut self, policy: &Object, conditions: &[Condition]) {
        self.listed.insert(policy.key());
        self.add_conditions(&policy.title(), conditions);
        self.policies.push(PolicyReport {
            kind: policy.kind.clone(),
            namespace: policy.namespace.clone(),
            name: policy.name.clone(),
            status: summary(conditions),
        });
    }

    /// What the objects themselves show: of those that are listed, and of those that probably mean something
    /// of these namespaces.
    fn check_diagnoses(&mut self, diagnoses: &[Diagnosis], namespaces: &BTreeSet<String>) {
        let is_meant = |it: &&Diagnosis| {
            let namespace = &*it.object.name.namespace;
            let is_lost = it.reason == Reason::NoMatchingParent && namespaces.contains(namespace);
            is_lost || self.listed.contains(&key(it))
        };
        let routes = self.routes.iter();
        let routes = routes.map(|it| title(&it.kind, &it.namespace, &it.name));
        let policies = self.policies.iter();
        let policies = policies.map(|it| title(&it.kind, &it.namespace, &it.name));
        let conditions = self.problems.iter().map(|it| &*it.text);
        let known = KnownProblems::of(routes.chain(policies), conditions);
        let new = diagnoses.iter().filter(is_meant);
        let new: Vec<&Diagnosis> = new.filter(|it| !known.contains(it)).collect();
        for it in new {
            self.add(it.level, it.to_string());
        }
    }
}

/// How output names an object: `Kind namespace/name`.
fn title(kind: &str, namespace: &str, name: &str) -> String {
    format!("{kind} {namespace}/{name}")
}

/// The key of the object that a finding is about.
fn key(diagnosis: &Diagnosis) -> String {
    let object = &diagnosis.object;
    format!("{}/{}", object.kind, object.name)
}

fn limited_to(parent: &ParentRef) -> Option<String> {
    let port = parent.port.map(|it| it.to_string());
    parent.section_name.clone().or(port)
}

/// Follows the problem of a class without a claim: its controller does not run, or cannot write the claim.
const NOT_CLAIMED: &str = "; no installation has claimed the class: if the controller runs, an Event of the class, \
     CannotBeClaimed, says why";
