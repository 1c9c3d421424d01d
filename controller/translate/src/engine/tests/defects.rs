//! Units that panic.

use serde_json::json;

use xds::model::Resource;

use super::*;
use crate::files::admit_value;
use crate::objects::kinds::ObjectKind;
use crate::objects::store::Object;

const GATEWAY_API: &str = "gateway.networking.k8s.io";

fn admitted(group: &str, kind: &str, value: serde_json::Value) -> Object {
    let serde_json::Value::Object(fields) = value else {
        panic!("it is an object");
    };
    let admitted = admit_value(ObjectKind::find(group, kind).expect("a kind"), fields)
        .expect("a kind that is read");
    let findings = admitted.findings;
    admitted.object.unwrap_or_else(|| panic!("{findings:?}"))
}

fn gateway(name: &str) -> Object {
    let value = json!({
        "metadata": {"namespace": "infra", "name": name},
        "spec": {"gatewayClassName": "gateway", "listeners": [{
            "name": "http", "port": 80, "protocol": "HTTP",
            "allowedRoutes": {"namespaces": {"from": "All"}},
        }]},
    });
    admitted(GATEWAY_API, "Gateway", value)
}

fn route(name: &str, path: &str) -> Object {
    let value = json!({
        "metadata": {"namespace": "app", "name": name},
        "spec": {
            "parentRefs": [{"namespace": "infra", "name": "edge"}],
            "hostnames": ["app.example.com"],
            "rules": [{"matches": [{"path": {"value": path}}]}],
        },
    });
    admitted(GATEWAY_API, "HTTPRoute", value)
}

fn policy(name: &str, target: &str, field: &str) -> Object {
    let mut spec = json!({
        "targetRefs": [{"group": GATEWAY_API, "kind": "HTTPRoute", "name": target}],
    });
    spec[field] = match field {
        "authorization" => json!({"deny": [{"when": "true"}]}),
        _ => json!({"connectTimeout": "3s"}),
    };
    let value = json!({"metadata": {"namespace": "app", "name": name}, "spec": spec});
    admitted("gateway-system.io", "TrafficPolicy", value)
}

fn apply(translator: &mut Translator, objects: impl IntoIterator<Item = Object>) -> Delta {
    let upserts = objects.into_iter().map(Event::Upsert);
    translator.apply(upserts.collect(), Timestamp::UNIX_EPOCH)
}

fn started() -> Translator {
    let mut translator = Translator::new(Options::cluster());
    translator.apply(vec![Event::Start], Timestamp::UNIX_EPOCH);
    translator
}

/// A panic of one of them ended the controller, again and again.
#[test]
fn objects_whose_translation_panics_change_nothing_of_others() {
    let good = [
        gateway("edge"),
        route("good", "/"),
        policy("good", "good", "authorization"),
    ];
    let mut alone = started();
    let expected = apply(&mut alone, good.clone());
    let units = alone.units_run();

    let defects = (0..1_000).flat_map(|number| {
        let name = format!("defect-of-translation-{number}");
        [
            gateway(&name),
            route(&name, "/admin"),
            policy(&name, &name, "authorization"),
            policy(&format!("{name}-limits"), &name, "limits"),
        ]
    });
    let mut translator = started();
    apply(&mut translator, defects);
    assert_eq!(translator.take_defects().len(), 4_000);
    // The defective routes find the Gateway that they name, and policies find these routes.
    let delta = apply(&mut translator, good.clone());
    assert_eq!(translator.take_defects().len(), 3_000);
    for (object, status) in &expected.statuses {
        let found = delta.statuses.iter().find(|(it, _)| it == object);
        assert_eq!(found.map(|(_, it)| it), Some(status), "{object}");
    }
    for (key, resource) in &expected.resources {
        let found = delta.resources.iter().find(|(it, _)| it == key);
        assert_eq!(found.map(|(_, it)| it), Some(resource), "{key}");
    }
    let changed = apply(&mut translator, [route("good", "/other")]);
    assert!(
        translator.units_run() <= units,
        "{}",
        translator.units_run()
    );
    assert_eq!(translator.take_defects(), []);
    assert!(!changed.resources.is_empty());
}

#[test]
fn what_cannot_be_translated_is_closed() {
    let mut translator = started();
    let (route, policy) = (
        route("defect-of-translation", "/admin"),
        policy("defect-of-translation", "good", "authorization"),
    );
    let good = [gateway("edge"), self::route("good", "/")];
    let delta = apply(&mut translator, good.into_iter().chain([route, policy]));
    let defects = translator.take_defects();
    let units: Vec<&str> = defects.iter().map(|it| &*it.unit).collect();
    assert_eq!(units.len(), 2, "{units:?}");
    assert!(
        units.iter().all(|it| it.contains("defect-of-translation")),
        "{units:?}"
    );
    let routes = delta.resources.iter().filter_map(|(_, it)| match it {
        Some(Resource::Route(route)) => Some(route),
        _ => None,
    });
    let closed = routes.filter(|it| it.key.as_str().contains("defect"));
    let closed: Vec<_> = closed.filter_map(|it| it.rule.http()).collect();
    assert_eq!(closed.len(), 1);
    assert!(closed[0].backends.is_empty() && closed[0].filters.is_empty());
    let policies = delta.resources.iter().filter_map(|(_, it)| match it {
        Some(Resource::Policy(policy)) => Some(policy),
        _ => None,
    });
    let policies: Vec<_> = policies.collect();
    assert!(
        policies.len() == 1 && policies[0].spec.is_invalid,
        "{policies:?}"
    );
}
