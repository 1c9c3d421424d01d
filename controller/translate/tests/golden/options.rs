//! The options of a case, from the `#! …` lines at its head.

use std::collections::{BTreeMap, BTreeSet};

use translate::api::{GatewayAddress, ROUTABLE_IN_CLUSTER};
use translate::budgets::{Budget, Limits};
use translate::{CLUSTER_DOMAIN, Environment, ListenerLimits, Options};
use xds::model::ObjectName;

/// Parses `cluster`, `domain NAME`, `no-trust-bundles`, `now TIME`, `port-offset N`,
/// `machine-address IP`, `assigned NS/GATEWAY TYPE ADDRESS`, `assigned-cluster-ip NS/GATEWAY
/// ADDRESS`, `parameters NS/NAME`, `limits NS/NAME PORTS LISTENERS` and `budget NAME N`.
pub(crate) fn of(text: &str) -> Options {
    let mut options = Options::machine();
    for line in text.lines().filter_map(|line| line.strip_prefix("#! ")) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match (&*words, &mut options.environment) {
            (["cluster"], place) => {
                options.budgets = Limits::default();
                *place = cluster();
            }
            (["domain", name], Environment::Cluster { domain, .. }) => {
                (*name).clone_into(domain);
            }
            (
                ["no-trust-bundles"],
                Environment::Cluster {
                    has_trust_bundles, ..
                },
            ) => {
                *has_trust_bundles = false;
            }
            (["unadmitted" | "refused"], _) => {}
            (["budget", name, limit], _) => {
                let mut budgets = Budget::ALL.into_iter();
                let budget = budgets.find(|it| it.definition().name == *name);
                let limit = limit.parse().expect("a number");
                let budgets = options.budgets.clone();
                options.budgets = budgets.with(budget.expect("a budget"), limit);
            }
            (["now", time], _) => options.now = Some(time.parse().expect("a time")),
            (["port-offset", offset], _) => {
                options.port_offset = offset.parse().expect("an offset");
            }
            (["machine-address", address], Environment::Machine { addresses }) => {
                addresses.insert(address.parse().expect("an address"));
            }
            (["assigned", gateway, kind, value], Environment::Cluster { assigned, .. }) => {
                let addresses = assigned.entry(name(gateway)).or_default();
                addresses.default.push(address(kind, value, ""));
            }
            (["assigned-cluster-ip", gateway, value], Environment::Cluster { assigned, .. }) => {
                let addresses = assigned.entry(name(gateway)).or_default();
                let routability = ROUTABLE_IN_CLUSTER;
                addresses
                    .cluster
                    .push(address("IPAddress", value, routability));
            }
            (["limits", object, ports, listeners], Environment::Cluster { limits, .. }) => {
                let number = |text: &str| Some(text.parse().expect("a number"));
                let given = ListenerLimits {
                    ports: number(ports),
                    listeners: number(listeners),
                };
                limits.insert(name(object), given);
            }
            (["parameters", object], Environment::Cluster { parameters, .. }) => {
                parameters.insert(name(object));
            }
            _ => panic!("unknown option `{line}`"),
        }
    }
    options
}

fn cluster() -> Environment {
    Environment::Cluster {
        domain: CLUSTER_DOMAIN.to_owned(),
        assigned: BTreeMap::new(),
        parameters: BTreeSet::new(),
        limits: BTreeMap::new(),
        last_limits: BTreeMap::new(),
        session_keys: BTreeMap::new(),
        class_parameters: BTreeMap::new(),
        has_trust_bundles: true,
    }
}

fn address(kind: &str, value: &str, routability: &str) -> GatewayAddress {
    GatewayAddress {
        kind: kind.to_owned(),
        value: value.to_owned(),
        routability: routability.to_owned(),
    }
}

fn name(text: &str) -> ObjectName {
    let (namespace, name) = text.split_once('/').expect("namespace/name");
    ObjectName::new(namespace, name)
}
