//! Resources for proxies that have not all features: those of earlier releases.

use std::sync::Arc;

use super::encoded::Encoded;
use crate::decode;
use crate::encode::former;
use crate::model::{Feature, Features, Kind, ResourceKey};

/// What proxies with these features get of a resource: the resource if they can enforce it, or else what
/// refuses the same requests. A rule is divided by listeners where they do not know rules that have several.
pub(super) fn adapted(encoded: &Arc<Encoded>, features: Features) -> Vec<Arc<Encoded>> {
    let enforceable = if features.contains_all(encoded.needs) {
        Arc::clone(encoded)
    } else {
        let (kind, key) = (encoded.key.kind, &encoded.key.key);
        let refusing = decode::substitute(kind, key, &encoded.bytes);
        // Without what refuses requests there is nothing to send: the resource must not be there without it.
        let Some(refusing) = refusing.and_then(|it| it.enforceable_with(features)) else {
            return Vec::new();
        };
        Arc::new(Encoded::new(&refusing))
    };
    if enforceable.key.kind == Kind::Route && is_divided(features) {
        let rules = former::at_listeners(&enforceable.bytes).into_iter();
        let rules = rules.map(|(key, bytes)| {
            let key = ResourceKey {
                kind: Kind::Route,
                key: key.to_shared(),
            };
            Arc::new(Encoded::of_bytes(key, bytes, enforceable.needs))
        });
        return rules.collect();
    }
    vec![enforceable]
}

/// Whether proxies with these features get a rule for each listener.
pub(super) fn is_divided(features: Features) -> bool {
    !features.contains(Feature::SharedRules)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Resource, RouteRule};
    use crate::proto;

    /// A resource that needs all features, under this key.
    fn needs_all(kind: Kind, key: &str, message: &impl prost::Message) -> Arc<Encoded> {
        let key = ResourceKey {
            kind,
            key: key.into(),
        };
        Arc::new(Encoded::of_bytes(
            key,
            message.encode_to_vec(),
            Features::all(),
        ))
    }

    fn decoded(encoded: &Encoded) -> Resource {
        let decoded = decode::resource(encoded.key.kind, &encoded.bytes).expect("it is valid");
        assert_eq!(decoded.key(), &*encoded.key.key);
        decoded
    }

    #[test]
    fn a_policy_that_a_proxy_cannot_enforce_refuses_every_request() {
        let key = "TrafficPolicy/infra/p/Gateway/infra/edge";
        let gateway = proto::ObjectName {
            namespace: "infra".to_owned(),
            name: "edge".to_owned(),
        };
        let message = proto::Policy {
            key: key.to_owned(),
            target: Some(proto::PolicyTarget {
                kind: Some(proto::policy_target::Kind::Gateway(gateway)),
            }),
            // Only proxies with the feature know what restricts access.
            features: Features::all().names(),
            ..proto::Policy::default()
        };
        let policy = needs_all(Kind::Policy, key, &message);
        assert_eq!(adapted(&policy, Features::all()), [Arc::clone(&policy)]);
        let [refusing] = &adapted(&policy, Features::NONE)[..] else {
            panic!("one policy");
        };
        let Resource::Policy(refusing) = decoded(refusing) else {
            panic!("a policy");
        };
        assert!(refusing.spec.is_invalid);
    }

    #[test]
    fn a_rule_that_a_proxy_cannot_enforce_responds_with_500() {
        let key = "HTTPRoute/app/shop/0/infra/edge";
        let prefix = proto::path_match::Kind::Prefix("/admin".to_owned());
        let message = proto::Route {
            key: key.to_owned(),
            attachments: vec![proto::Attachment {
                object: "Gateway/infra/edge".to_owned(),
                listeners: vec!["a".to_owned(), "b".to_owned()],
                hostnames: Vec::new(),
            }],
            order: Some(proto::Order {
                created: 7,
                object: "app/shop".to_owned(),
                rule: 0,
            }),
            rule: Some(proto::route::Rule::Http(proto::HttpRule {
                protocol: proto::RequestProtocol::Http.into(),
                matches: vec![proto::HttpMatch {
                    path: Some(proto::PathMatch { kind: Some(prefix) }),
                    ..proto::HttpMatch::default()
                }],
                filters: Some(proto::Filters::default()),
                ..proto::HttpRule::default()
            })),
            ..proto::Route::default()
        };
        let rule = needs_all(Kind::Route, key, &message);
        let at_listeners = adapted(&rule, Features::NONE);
        assert_eq!(at_listeners.len(), 2, "one for each listener");
        for rule in at_listeners {
            let Resource::Route(route) = decoded(&rule) else {
                panic!("a rule");
            };
            let RouteRule::Http(rule) = &route.rule else {
                panic!("of HTTP");
            };
            assert!(rule.backends.is_empty(), "500");
            assert_eq!((rule.matches.len(), route.created), (1, 7));
        }
    }
}
