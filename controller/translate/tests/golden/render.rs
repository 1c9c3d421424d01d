//! A translation as text: first the statuses for the user, then the configuration of the proxies.

use std::collections::BTreeMap;
use std::fmt::{Debug, Display, Write as _};

use translate::status::{Blame, Condition, ListenerStatus, PolicyStatus, Status, Statuses};
use translate::{Infrastructure, Translation};
use xds::model::{Hostname, Keyed, ListenerKey, Model, ObjectName, Resources, RouteKey, RouteRule};

use super::debug_text;

pub(crate) fn translation(translation: &Translation) -> String {
    let mut out = String::new();
    statuses(&mut out, &translation.statuses);
    infrastructure(&mut out, &translation.infrastructure);
    if let Some(time) = translation.changes_after {
        line(&mut out, 0, format_args!("\nchanges after {time}"));
    }
    model(&mut out, &translation.model);
    let mut problems = translation.statuses.problem_conditions().peekable();
    if problems.peek().is_some() {
        line(&mut out, 0, "\nproblems");
    }
    for problem in problems {
        line(&mut out, 1, problem);
    }
    out
}

fn infrastructure(out: &mut String, infrastructure: &BTreeMap<ObjectName, Infrastructure>) {
    if !infrastructure.is_empty() {
        line(out, 0, "\ninfrastructure");
    }
    for (name, requested) in infrastructure {
        line(out, 1, format_args!("Gateway {name}"));
        for (key, value) in &requested.labels {
            line(out, 2, format_args!("label {key}: {value}"));
        }
        for (key, value) in &requested.annotations {
            line(out, 2, format_args!("annotation {key}: {value}"));
        }
        if let Some(parameters) = &requested.parameters {
            line(out, 2, format_args!("parameters {parameters}"));
        }
        if requested.has_foreign_parameters {
            line(out, 2, "parameters of another kind");
        }
        for address in &requested.addresses {
            let (kind, value) = (&address.kind, &address.value);
            let scope = &address.routability;
            let requested = format!("asks for {kind} {value:?} {scope}");
            line(out, 2, format_args!("{}", requested.trim_end()));
        }
    }
}

fn statuses(out: &mut String, statuses: &Statuses) {
    for (object, status) in statuses.iter() {
        line(out, 0, object);
        match status {
            Status::GatewayClass(_) => {}
            Status::Gateway(status) => {
                for address in &status.addresses {
                    let (kind, value) = (&address.kind, &address.value);
                    let has = format!("address {kind} {value} {}", address.routability);
                    line(out, 1, format_args!("{}", has.trim_end()));
                }
                if status.attached_listener_sets > 0 {
                    let sets = status.attached_listener_sets;
                    line(out, 1, format_args!("listener sets: {sets}"));
                }
                conditions(out, 1, &status.conditions);
                listeners(out, &status.listeners);
            }
            Status::ListenerSet(status) => {
                conditions(out, 1, &status.conditions);
                listeners(out, &status.listeners);
            }
            Status::Route(status) => {
                for parent in &status.parents {
                    let reference = serde_json::to_string(&parent.parent_ref).expect("plain data");
                    let by = &parent.controller_name;
                    line(out, 1, format_args!("parent {reference} by {by}"));
                    conditions(out, 2, &parent.conditions);
                }
            }
            Status::Backend(status) => conditions(out, 1, &status.conditions),
            Status::Policy(status) => policy(out, status),
        }
    }
}

fn listeners(out: &mut String, listeners: &[ListenerStatus]) {
    for listener in listeners {
        let kinds = listener.supported_kinds.iter().map(|it| &*it.kind);
        let kinds: Vec<&str> = kinds.collect();
        let (name, attached) = (&listener.name, listener.attached_routes);
        line(
            out,
            1,
            format_args!("listener {name}: attached {attached}, kinds {kinds:?}"),
        );
        conditions(out, 2, &listener.conditions);
    }
}

fn policy(out: &mut String, status: &PolicyStatus) {
    for ancestor in &status.ancestors {
        let (target, by) = (&ancestor.ancestor_ref, &ancestor.controller_name);
        line(out, 1, format_args!("{target} ({}) by {by}", target.group));
        conditions(out, 2, &ancestor.conditions);
    }
}

fn conditions(out: &mut String, depth: usize, conditions: &[Condition]) {
    for it in conditions {
        let follows = match it.blame {
            Blame::Own => "",
            Blame::Follows => " (follows)",
        };
        let field = it
            .field
            .as_ref()
            .map_or_else(String::new, |field| format!(" @{field}"));
        let generation = it.observed_generation;
        line(
            out,
            depth,
            format_args!(
                "{}={:?} {} gen {generation}{follows}{field}: {}",
                it.kind, it.status, it.reason, it.message
            ),
        );
    }
}

fn model(out: &mut String, model: &Model) {
    section(out, "binds", &model.binds);
    section(out, "listeners", &model.listeners);
    routes(out, model);
    section(out, "backends", &model.backends);
    section(out, "policies", &model.policies);
    section(out, "services", &model.services);
    section(out, "workloads", &model.workloads);
}

/// A rule at one of its listeners.
#[derive(Debug)]
#[expect(dead_code, reason = "its text is compared")]
struct Route<'a> {
    key: RouteKey,
    listener: &'a ListenerKey,
    hostnames: &'a [Hostname],
    created: i64,
    rule: &'a RouteRule,
}

fn routes(out: &mut String, model: &Model) {
    let rules = model.rules_at_listeners();
    let rules = rules.map(|it| Route {
        key: it.key(),
        listener: &it.attachment.listener,
        hostnames: &it.attachment.hostnames,
        created: it.route.created,
        rule: &it.route.rule,
    });
    for (number, rule) in rules.enumerate() {
        if number == 0 {
            line(out, 0, format_args!("\nroutes"));
        }
        line(out, 1, debug_text::of(&rule, 2));
    }
}

fn section<T: Keyed + Debug>(out: &mut String, title: &str, resources: &Resources<T>) {
    if !resources.is_empty() {
        line(out, 0, format_args!("\n{title}"));
    }
    for value in resources {
        line(out, 1, debug_text::of(value, 2));
    }
}

fn line(out: &mut String, depth: usize, text: impl Display) {
    writeln!(out, "{:1$}{text}", "", depth * 2).expect("a string takes everything");
}
