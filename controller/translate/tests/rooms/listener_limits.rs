//! The limits of listeners by parameters, while the reference to these is wrong.

use jiff::Timestamp;
use serde_json::{Value, json};
use translate::budgets::{Budget, Limits};
use translate::{Delta, Event, ListenerLimits, Object, Options, Translator};
use xds::model::{ObjectName, Resource};

use crate::support::{GATEWAY_API, admitted};

/// A Gateway at its class's limit lost what it had by it with any mistake in the class: new listeners were
/// refused.
#[test]
fn limits_of_listeners_stay_while_a_reference_to_parameters_is_wrong() {
    let large = || ObjectName::new("infra", "large");
    let of_class = |name: &str| {
        let parameters = Some(ObjectName::new("infra", name));
        Event::ClassParameters("gateway".to_owned(), parameters)
    };
    let other_kind = || json!({"group": "example.com", "kind": "Config", "name": "large"});
    let missing =
        || json!({"group": "gateway-system.io", "kind": "GatewayParameters", "name": "missing"});
    let gone = || {
        let none = ListenerLimits::default();
        vec![
            Event::Parameters(large(), false),
            Event::ListenerLimits(large(), none),
        ]
    };
    for (mistake, reference) in [
        (vec![of_class("typo")], Value::Null),
        (gone(), Value::Null),
        (Vec::new(), other_kind()),
        (Vec::new(), missing()),
    ] {
        let mut translator = translator();
        let mut batch = vec![
            Event::Start,
            of_class("large"),
            Event::Upsert(gateway(3, &Value::Null)),
        ];
        batch.extend(given(&large(), 4));
        assert_eq!(ports(&translator.apply(batch, Timestamp::UNIX_EPOCH)), 3);
        let mut batch = mistake;
        batch.push(Event::Upsert(gateway(4, &reference)));
        let delta = translator.apply(batch, Timestamp::UNIX_EPOCH);
        assert_eq!(ports(&delta), 1, "the new one is served: {reference}");
        let mut batch = vec![of_class("small"), Event::Upsert(gateway(5, &Value::Null))];
        batch.extend(given(&ObjectName::new("infra", "small"), 1));
        let delta = translator.apply(batch, Timestamp::UNIX_EPOCH);
        let binds = delta
            .resources
            .iter()
            .filter(|(key, _)| key.key.starts_with("tcp/"));
        let removed = binds.filter(|(_, bind)| bind.is_none()).count();
        assert_eq!(removed, 3, "valid ones take effect again: {reference}");
    }
}

/// One that has no valid parameters yet has the default.
#[test]
fn a_new_gateway_with_a_wrong_reference_to_parameters_has_the_default_limits() {
    let mut translator = translator();
    let missing = ObjectName::new("infra", "missing");
    let batch = vec![
        Event::Start,
        Event::ClassParameters("gateway".to_owned(), Some(missing)),
        Event::Upsert(gateway(3, &Value::Null)),
    ];
    assert_eq!(ports(&translator.apply(batch, Timestamp::UNIX_EPOCH)), 2);
}

/// A limit of two ports by default.
fn translator() -> Translator {
    Translator::new(Options {
        budgets: Limits::default().with(Budget::GatewayPorts, 2),
        ..Options::cluster()
    })
}

/// Parameters with a limit of ports.
fn given(name: &ObjectName, ports: u64) -> [Event; 2] {
    let limits = ListenerLimits {
        ports: Some(ports),
        listeners: None,
    };
    [
        Event::Parameters(name.clone(), true),
        Event::ListenerLimits(name.clone(), limits),
    ]
}

/// Number of binds that are sent anew.
fn ports(delta: &Delta) -> usize {
    let resources = delta.resources.iter();
    resources
        .filter(|(_, it)| matches!(it, Some(Resource::Bind(_))))
        .count()
}

fn gateway(listeners: usize, parameters: &Value) -> Object {
    let listeners = (0..listeners).map(|number| {
        json!({"name": format!("listener-{number}"), "port": 8000 + number, "protocol": "HTTP"})
    });
    let mut value = json!({
        "metadata": {"namespace": "infra", "name": "edge"},
        "spec": {"gatewayClassName": "gateway", "listeners": listeners.collect::<Vec<_>>()},
    });
    if !parameters.is_null() {
        value["spec"]["infrastructure"] = json!({"parametersRef": parameters});
    }
    admitted(GATEWAY_API, "Gateway", value)
}
