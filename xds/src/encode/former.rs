//! The form of rules for proxies without the feature `shared-rules`: one for each listener.
//!
//! Only proxies of releases before that feature need it. It goes with the second release after the one that
//! brought the feature: until then, the controller of a release serves the proxies of the one before it.

use prost::Message as _;

use super::route::head_bytes;
use crate::limits::{FORMER_BYTES, FORMER_REPORT_BYTES, FORMER_RULES, REPORT_ENTRY_BYTES};
use crate::model::{ListenerKey, Route, RouteKey};
use crate::proto;

/// What rules are in this form: reckoned before they are divided, since they may become many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FormerCost {
    rules: u64,
    bytes: u64,
    report: u64,
}

impl FormerCost {
    /// Of a rule, given its message.
    pub(crate) fn of(route: &Route, message: &[u8]) -> Self {
        let content = message.len().saturating_sub(head_bytes(message));
        let rule = route.key.rule().len();
        let mut cost = Self::default();
        for attachment in route.attachments.iter() {
            let listener = attachment.listener.as_str().len();
            let key = rule.saturating_add("/".len()).saturating_add(listener);
            let hosts = attachment.hostnames.iter();
            let hosts = hosts.map(|host| host.as_str().len().saturating_add(TEXT_BYTES));
            let own = [content, key, listener, hosts.sum(), 2 * TEXT_BYTES];
            cost = cost.with(Self {
                rules: 1,
                bytes: own.into_iter().fold(0, usize::saturating_add) as u64,
                report: key.saturating_add(REPORT_ENTRY_BYTES) as u64,
            });
        }
        cost
    }

    /// The sum of both.
    pub(crate) fn with(self, other: Self) -> Self {
        Self {
            rules: self.rules.saturating_add(other.rules),
            bytes: self.bytes.saturating_add(other.bytes),
            report: self.report.saturating_add(other.report),
        }
    }

    /// What is left without another one, which is in the sum.
    pub(crate) fn without(self, other: Self) -> Self {
        Self {
            rules: self.rules.saturating_sub(other.rules),
            bytes: self.bytes.saturating_sub(other.bytes),
            report: self.report.saturating_sub(other.report),
        }
    }

    /// Whether there are more of them than the release before ever sent.
    pub(crate) fn exceeds_limits(self) -> bool {
        self.rules > FORMER_RULES || self.bytes > FORMER_BYTES || self.report > FORMER_REPORT_BYTES
    }
}

/// Bytes of the tag and the length of a text.
const TEXT_BYTES: usize = 3;

/// A rule at each of its listeners, from the bytes of its message: its key there, and its message.
pub(crate) fn at_listeners(bytes: &[u8]) -> Vec<(RouteKey, Vec<u8>)> {
    let Ok(message) = proto::Route::decode(bytes) else {
        debug_assert!(false, "the bytes are those of a rule");
        return Vec::new();
    };
    let Ok(key) = RouteKey::parse(&message.key) else {
        debug_assert!(false, "a rule has a key");
        return Vec::new();
    };
    if message.attachments.is_empty() {
        return vec![(key, bytes.to_vec())];
    }
    let attachments = message.attachments;
    // The same for each listener. Its fields follow those of the listener.
    let rule = proto::Route {
        order: message.order,
        rule: message.rule,
        features: message.features,
        ..proto::Route::default()
    };
    let rule = rule.encode_to_vec();
    let mut all = Vec::new();
    for group in attachments {
        for name in &group.listeners {
            let Ok(listener) = ListenerKey::parse(&format!("{}/{name}", group.object)) else {
                continue;
            };
            let key = key.at(&listener);
            let own = proto::Route {
                key: key.to_string(),
                listener: listener.to_string(),
                hostnames: group.hostnames.clone(),
                ..proto::Route::default()
            };
            let mut bytes = own.encode_to_vec();
            bytes.extend_from_slice(&rule);
            all.push((key, bytes));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode;
    use crate::model::{Kind, Resource};

    #[test]
    fn a_rule_becomes_one_for_each_listener() {
        let attachment = |object: &str, listeners: &[&str], host: &str| proto::Attachment {
            object: object.to_owned(),
            listeners: listeners.iter().map(|name| (*name).to_owned()).collect(),
            hostnames: vec![host.to_owned()],
        };
        let l4 = proto::L4Rule::default();
        let message = proto::Route {
            key: "TCPRoute/app/shop/0/infra/edge".to_owned(),
            attachments: vec![
                attachment("Gateway/infra/edge", &["a", "b"], "a.test"),
                attachment("ListenerSet/app/more", &["c"], "c.test"),
            ],
            order: Some(proto::Order {
                created: 1,
                object: "app/shop".to_owned(),
                rule: 0,
            }),
            rule: Some(proto::route::Rule::Tcp(l4)),
            ..proto::Route::default()
        };
        let bytes = message.encode_to_vec();
        let Ok(Resource::Route(route)) = decode::resource(Kind::Route, &bytes) else {
            panic!("it is valid");
        };
        let former = at_listeners(&bytes).into_iter();
        let former: Vec<Resource> = former
            .map(|(key, bytes)| {
                let resource = decode::resource(Kind::Route, &bytes).expect("it is valid");
                assert_eq!(resource.key(), key.as_str());
                assert_eq!(crate::encode::resource(&resource), bytes, "its own form");
                resource
            })
            .collect();
        let expected: Vec<Resource> = route
            .at_listeners()
            .map(|it| {
                Resource::from(Route {
                    key: it.key(),
                    attachments: it.attachment.clone().into(),
                    ..Route::clone(&route)
                })
            })
            .collect();
        assert_eq!(former, expected);
        let only = crate::encode::resource(&former[0]);
        let again = at_listeners(&only);
        assert_eq!(again.len(), 1);
        assert_eq!(again[0].1, only, "one that has this form keeps it");
    }
}
