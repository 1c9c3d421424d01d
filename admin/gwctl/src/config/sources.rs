//! `gwctl config policies --rule`: the settings in effect at a rule, and the policy that each comes from.

use std::collections::{BTreeMap, BTreeSet};

use admin_types::dump::{Dump, Listener, Policy, PolicyTarget, Route};
use serde::Serialize;
use serde_json::Value;

use super::key::Key;
use super::policies::target;
use crate::table::Table;

/// A setting in effect at a rule.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Setting {
    /// Key of the listener that the rule is at.
    listener: String,
    field: String,
    /// Of limits; other fields are in the policy.
    #[serde(skip_serializing_if = "String::is_empty")]
    value: String,
    /// `kind/namespace/name`.
    policy: String,
    target: String,
    effect: &'static str,
}

/// The settings of all rules that `wanted` selects, in the dump's order of listeners: `kind/namespace/name` of a
/// route, and the name of a rule after it.
pub(super) fn settings(dump: &Dump, wanted: &str) -> Vec<Setting> {
    let selected = dump.routes.iter().filter(|route| is_meant(route, wanted));
    let mut settings: Vec<Setting> = Vec::new();
    for route in selected {
        for setting in at_rule(dump, route) {
            // Rules of a route differ in few settings.
            if !settings.contains(&setting) {
                settings.push(setting);
            }
        }
    }
    settings
}

/// One row for each setting.
pub(super) fn table(settings: &[Setting]) -> Table<6> {
    let mut table = Table::new(["LISTENER", "FIELD", "VALUE", "EFFECT", "POLICY", "TARGET"]);
    for it in settings {
        table.row([
            it.listener.clone(),
            it.field.clone(),
            it.value.clone(),
            it.effect.to_owned(),
            it.policy.clone(),
            it.target.clone(),
        ]);
    }
    table
}

/// Whether there is such a rule.
pub(super) fn has_rule(dump: &Dump, wanted: &str) -> bool {
    dump.routes.iter().any(|route| is_meant(route, wanted))
}

fn is_meant(route: &Route, wanted: &str) -> bool {
    let object = Key::parse(&route.key).object();
    let rule = route.name.as_deref().unwrap_or_default();
    object == wanted || format!("{object}/{rule}") == wanted
}

fn at_rule(dump: &Dump, route: &Route) -> Vec<Setting> {
    let listener = dump.listeners.iter().find(|it| it.key == route.listener);
    let way = listener.map_or_else(Vec::new, |listener| way(listener, route));
    let policies = way.iter().flat_map(|step| {
        let policies = dump.policies.iter();
        policies.filter(move |policy| policy.target == *step)
    });
    let mut policies: Vec<(&Policy, BTreeMap<String, Value>)> =
        policies.map(|policy| (policy, fields(policy))).collect();
    keep_credentials_of_one(&mut policies);
    let names = policies.iter().flat_map(|(_, fields)| fields.keys());
    let names: BTreeSet<&String> = names.filter(|name| applies(route, name)).collect();
    let settings = names.into_iter().flat_map(|name| {
        let with_field = policies.iter();
        let with_field =
            with_field.filter_map(|(policy, fields)| Some((*policy, fields.get(name)?)));
        in_effect(name, with_field.collect())
            .into_iter()
            .map(|(policy, value, effect)| Setting {
                listener: route.listener.clone(),
                field: name.clone(),
                value: match value {
                    Value::Object(_) | Value::Array(_) | Value::Bool(_) | Value::Null => {
                        String::new()
                    }
                    Value::String(text) => text.clone(),
                    Value::Number(number) => number.to_string(),
                },
                policy: Key::parse(&policy.key).object(),
                target: target(&policy.target),
                effect,
            })
    });
    settings.collect()
}

/// The targets that a request of a rule passes, the widest first.
fn way(listener: &Listener, route: &Route) -> Vec<PolicyTarget> {
    let key = Key::parse(&listener.key);
    let set = (key.kind == "ListenerSet").then(|| PolicyTarget::ListenerSet {
        listener_set: format!("{}/{}", key.namespace, key.name),
    });
    let object = Key::parse(&route.key).object();
    let rule = route.name.clone().map(|rule| PolicyTarget::Rule {
        route: object.clone(),
        rule,
    });
    let gateway = PolicyTarget::Gateway {
        gateway: listener.gateway.clone(),
    };
    let listener = PolicyTarget::Listener {
        listener: listener.key.clone(),
    };
    let wide = [gateway].into_iter().chain(set).chain([listener]);
    wide.chain([PolicyTarget::Route { route: object }])
        .chain(rule)
        .collect()
}

/// The fields of a policy; limits one by one.
fn fields(policy: &Policy) -> BTreeMap<String, Value> {
    let mut fields = policy.spec.clone();
    let limits = match fields.remove("limits") {
        Some(Value::Object(limits)) => limits,
        _ => serde_json::Map::new(),
    };
    let limits = limits
        .into_iter()
        .map(|(name, value)| (format!("limits.{name}"), value));
    let no_settings = [
        "precedence",
        "hidden",
        "clientCertificate",
        "sessionKeys",
        "invalidForConnections",
    ];
    let others = fields.into_iter();
    let others = others.filter(|(name, _)| !no_settings.contains(&name.as_str()));
    others.chain(limits).collect()
}

/// The fields that say how clients authenticate themselves, which belong together.
const CREDENTIALS: [&str; 4] = ["jwt", "basicAuth", "apiKeys", "requireAll"];

/// Removes credentials of all policies, the widest first, but the one whose credentials are in effect.
fn keep_credentials_of_one(policies: &mut [(&Policy, BTreeMap<String, Value>)]) {
    let has_some =
        |fields: &BTreeMap<String, Value>| CREDENTIALS.iter().any(|it| fields.contains_key(*it));
    let with_some: Vec<usize> = { policies.iter().enumerate() }
        .filter(|(_, (_, fields))| has_some(fields))
        .map(|(at, _)| at)
        .collect();
    let overrides = |at: &usize| policies[*at].0.precedence() == Some("Overrides");
    let enforced = with_some.iter().copied().find(overrides);
    let in_effect = enforced.or(with_some.last().copied());
    for (at, (_, fields)) in policies.iter_mut().enumerate() {
        if Some(at) != in_effect {
            fields.retain(|name, _| !CREDENTIALS.contains(&name.as_str()));
        }
    }
}

/// Whether a field has an effect on rules of this kind.
fn applies(route: &Route, field: &str) -> bool {
    let of_requests = ["HTTP", "GRPC"].contains(&route.protocol.as_str());
    let of_all = ["accessLog", "networks", "invalid"].contains(&field);
    of_requests || of_all || field.starts_with("limits.")
}

/// Which of the policies that set a field, the widest first, are in effect, and how.
fn in_effect<'a>(
    field: &str,
    policies: Vec<(&'a Policy, &'a Value)>,
) -> Vec<(&'a Policy, &'a Value, &'static str)> {
    if field == "invalid" {
        let closing = policies.into_iter();
        return closing
            .map(|(policy, value)| (policy, value, "refuses all"))
            .collect();
    }
    let overrides = |policy: &Policy| policy.precedence() == Some("Overrides");
    let (enforced, replaceable): (Vec<_>, Vec<_>) = policies
        .into_iter()
        .partition(|(policy, _)| overrides(policy));
    let nearest = replaceable.last().copied();
    let with = |how: &'static str| move |(policy, value)| (policy, value, how);
    if enforced.is_empty() {
        return nearest.map(with("default")).into_iter().collect();
    }
    if field.starts_with("limits.") {
        let bounds = enforced.into_iter().map(with("bound"));
        return bounds.chain(nearest.map(with("within bounds"))).collect();
    }
    if ["authorization", "networks", "rateLimit"].contains(&field) {
        let all = enforced.into_iter().map(with("overrides"));
        return all.chain(nearest.map(with("in addition"))).collect();
    }
    if field == "respond" {
        let all = enforced.into_iter().map(with("overrides"));
        return all.chain(nearest.map(with("where excepted"))).collect();
    }
    enforced
        .into_iter()
        .take(1)
        .map(with("overrides"))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn dump() -> Dump {
        let route = |listener: &str, rule: u8, name: &str| {
            json!({
                "key": format!("HTTPRoute/app/shop/{rule}/{listener}"), "listener": listener,
                "protocol": "HTTP", "order": {"created": 0, "object": "app/shop", "rule": rule},
                "name": name, "backends": [],
            })
        };
        let listener = |key: &str| {
            json!({
                "key": key, "bind": "tcp/80/infra/gw", "gateway": "infra/gw", "name": "own",
                "protocol": "HTTP",
            })
        };
        let (of_gateway, of_set) = ("Gateway/infra/gw/http", "ListenerSet/app/set/own");
        Dump {
            listeners: [of_gateway, of_set]
                .map(|key| serde_json::from_value(listener(key)).expect("a listener"))
                .into(),
            routes: [
                (of_gateway, 0, "first"),
                (of_set, 0, "first"),
                (of_gateway, 1, "second"),
            ]
            .map(|(key, rule, name)| {
                serde_json::from_value(route(key, rule, name)).expect("a route")
            })
            .into(),
            policies: policies(),
            ..Dump::default()
        }
    }

    fn policies() -> Vec<Policy> {
        let of_gateway = json!({"type": "Gateway", "gateway": "infra/gw"});
        let of_set = json!({"type": "ListenerSet", "listenerSet": "app/set"});
        let of_route = json!({"type": "Route", "route": "HTTPRoute/app/shop"});
        let of_rule = json!({"type": "Rule", "route": "HTTPRoute/app/shop", "rule": "first"});
        let authorization = json!({"deny": [], "allow": []});
        let log = json!({"off": true, "format": "json", "sample": 1.0});
        let overriding = json!({
            "precedence": "Overrides", "authorization": authorization, "accessLog": log,
        });
        let mut bounding = overriding.clone();
        bounding["limits"] = json!({"requestBodyBytes": 10});
        let usual = json!({"accessLog": log, "limits": {"headBytes": 1024}});
        let own = json!({"authorization": authorization, "limits": {"requestBodyBytes": 5}});
        let nearest = json!({"authorization": authorization, "accessLog": log});
        let all = [
            ("infra/base", of_gateway.clone(), bounding),
            ("infra/usual", of_gateway, usual),
            ("app/set", of_set, overriding),
            ("app/shop", of_route, own),
            ("app/first", of_rule, nearest),
        ];
        let all = all.into_iter().map(|(name, target, spec)| {
            let key = format!("TrafficPolicy/{name}/x");
            let policy = json!({"key": key, "target": target, "spec": spec});
            serde_json::from_value(policy).expect("a policy")
        });
        all.collect()
    }

    fn shown(wanted: &str) -> Vec<String> {
        let settings = settings(&dump(), wanted);
        let shown = settings.iter().map(|it| {
            let Setting {
                field,
                value,
                policy,
                effect,
                ..
            } = it;
            format!(
                "{} {field} {value} {effect} {policy}",
                Key::parse(&it.listener).kind
            )
        });
        shown.collect()
    }

    #[test]
    fn credentials_are_those_of_one_policy() {
        let mut dump = dump();
        let with = |policy: &mut Policy, field: &str| {
            policy.spec.insert(field.to_owned(), json!({}));
        };
        with(&mut dump.policies[1], "apiKeys");
        with(&mut dump.policies[3], "jwt");
        let shown = |dump: &Dump| -> Vec<String> {
            let settings = settings(dump, "HTTPRoute/app/shop/first").into_iter();
            let settings = settings.filter(|it| CREDENTIALS.contains(&it.field.as_str()));
            settings
                .map(|it| format!("{} {} {}", it.field, it.effect, it.policy))
                .collect()
        };
        let nearest = "jwt default TrafficPolicy/app/shop";
        assert_eq!(shown(&dump), [nearest, nearest], "at both listeners");
        with(&mut dump.policies[0], "apiKeys");
        let enforced = "apiKeys overrides TrafficPolicy/infra/base";
        assert_eq!(shown(&dump), [enforced, enforced]);
    }

    #[test]
    fn each_setting_of_a_rule_has_its_source() {
        let first = shown("HTTPRoute/app/shop/first");
        assert_eq!(
            first,
            [
                "Gateway accessLog  overrides TrafficPolicy/infra/base",
                "Gateway authorization  overrides TrafficPolicy/infra/base",
                "Gateway authorization  in addition TrafficPolicy/app/first",
                "Gateway limits.headBytes 1024 default TrafficPolicy/infra/usual",
                "Gateway limits.requestBodyBytes 10 bound TrafficPolicy/infra/base",
                "Gateway limits.requestBodyBytes 5 within bounds TrafficPolicy/app/shop",
                "ListenerSet accessLog  overrides TrafficPolicy/infra/base",
                "ListenerSet authorization  overrides TrafficPolicy/infra/base",
                "ListenerSet authorization  overrides TrafficPolicy/app/set",
                "ListenerSet authorization  in addition TrafficPolicy/app/first",
                "ListenerSet limits.headBytes 1024 default TrafficPolicy/infra/usual",
                "ListenerSet limits.requestBodyBytes 10 bound TrafficPolicy/infra/base",
                "ListenerSet limits.requestBodyBytes 5 within bounds TrafficPolicy/app/shop",
            ]
        );
        let second = shown("HTTPRoute/app/shop/second");
        assert!(
            second
                .contains(&"Gateway authorization  in addition TrafficPolicy/app/shop".to_owned())
        );
        assert!(shown("HTTPRoute/app/shop").len() > first.len());
        assert!(shown("HTTPRoute/app/sho").is_empty());
    }
}
