//! Keeps statuses within their budgets. An object of a few KB can have a problem in each of its rules at
//! each of its parents; a status beyond what etcd takes would never be written.

use std::collections::HashMap;

use super::length::{limit, message_bytes, to_length};
use super::{Blame, Condition, ConditionType, Status};
use crate::budgets::Budget;

impl Status {
    /// Shortens its messages until it fits: first those that repeat another entry's refer to that, then the
    /// longest are cut, until it fits or only short ones are left.
    pub fn shorten(&mut self) {
        if self.bytes() <= limit(Budget::StatusBytes) {
            return;
        }
        self.refer_to_first();
        let mut length = message_bytes();
        while self.bytes() > limit(Budget::StatusBytes) && length > SHORTEST {
            length /= 2;
            for (_, conditions) in self.entries() {
                for condition in conditions {
                    let message = std::mem::take(&mut condition.message);
                    condition.message = to_length(message, length);
                }
            }
        }
    }

    /// Replaces a message that an earlier entry has, too.
    fn refer_to_first(&mut self) {
        let mut known: HashMap<(ConditionType, String), String> = HashMap::new();
        for (entry, conditions) in self.entries() {
            for condition in conditions {
                if condition.message.len() <= SHORTEST {
                    continue;
                }
                let key = (condition.kind, condition.message.to_string());
                if let Some(first) = known.get(&key) {
                    condition.message = format!("as for {first}, which has the details").into();
                    condition.blame = Blame::Follows;
                } else {
                    known.insert(key, entry.clone());
                }
            }
        }
    }

    /// Bytes of its JSON, about: what surrounds the texts is bounded.
    fn bytes(&mut self) -> usize {
        let entries = self.entries().into_iter();
        let bytes = entries.map(|(entry, conditions)| {
            let conditions = conditions.iter();
            let conditions = conditions.map(|it| it.message.len() + CONDITION_BYTES);
            entry.len() + ENTRY_BYTES + conditions.sum::<usize>()
        });
        bytes.sum()
    }

    /// All conditions, of its parts too.
    pub(crate) fn conditions_mut(&mut self) -> impl Iterator<Item = &mut Condition> {
        let entries = self.entries().into_iter();
        entries.flat_map(|(_, conditions)| conditions)
    }

    /// The lists of conditions, each with what it is about.
    fn entries(&mut self) -> Vec<(String, &mut Vec<Condition>)> {
        let whole = |conditions| (String::new(), conditions);
        let of_listener = |name: &str| format!("listener `{name}`");
        match self {
            Self::GatewayClass(status) => vec![whole(&mut status.conditions)],
            Self::Backend(status) => vec![whole(&mut status.conditions)],
            Self::Gateway(status) => {
                let listeners = status.listeners.iter_mut();
                let listeners = listeners.map(|it| (of_listener(&it.name), &mut it.conditions));
                [whole(&mut status.conditions)]
                    .into_iter()
                    .chain(listeners)
                    .collect()
            }
            Self::ListenerSet(status) => {
                let listeners = status.listeners.iter_mut();
                let listeners = listeners.map(|it| (of_listener(&it.name), &mut it.conditions));
                [whole(&mut status.conditions)]
                    .into_iter()
                    .chain(listeners)
                    .collect()
            }
            Self::Route(status) => {
                let parents = status.parents.iter_mut();
                let parents = parents.map(|it| (it.parent_ref.to_string(), &mut it.conditions));
                parents.collect()
            }
            Self::Policy(status) => {
                let ancestors = status.ancestors.iter_mut();
                let ancestors =
                    ancestors.map(|it| (it.ancestor_ref.to_string(), &mut it.conditions));
                ancestors.collect()
            }
        }
    }
}

/// Bytes to which a message is always allowed: a sentence.
const SHORTEST: usize = 128;
/// Bytes of a condition in JSON without its message.
const CONDITION_BYTES: usize = 200;
/// Bytes of an entry in JSON without its conditions and the name of what it is about.
const ENTRY_BYTES: usize = 300;

#[cfg(test)]
mod tests {
    use super::super::length::CUT;
    use super::*;
    use crate::route::api::ParentReference;
    use crate::route::status::{RouteParentStatus, RouteStatus};
    use crate::status::{ConditionStatus, Conditions, Reason};

    fn parent(number: usize, messages: [String; 2]) -> RouteParentStatus {
        let kinds = [ConditionType::Accepted, ConditionType::ResolvedRefs];
        let mut conditions = Conditions::of(1);
        for (kind, message) in kinds.into_iter().zip(messages) {
            let status = ConditionStatus::False;
            conditions = conditions.with(kind, status, Reason::Invalid, message.into(), None);
        }
        RouteParentStatus {
            parent_ref: ParentReference {
                group: "gateway.networking.k8s.io".into(),
                kind: "Gateway".into(),
                namespace: Some("infra".into()),
                name: format!("edge-{number}").as_str().into(),
                section_name: None,
                port: None,
            },
            controller_name: "gateway-system.io/controller".to_owned(),
            conditions: conditions.done(),
        }
    }

    fn shortened_route(message: impl Fn(usize) -> String) -> RouteStatus {
        let parents = (0..32).map(|number| parent(number, [message(number), message(number)]));
        let mut status = Status::Route(RouteStatus {
            parents: parents.collect(),
        });
        status.shorten();
        let json = |status: &Status| match status {
            Status::Route(status) => serde_json::to_string(status).expect("JSON"),
            other => panic!("{other:?}"),
        };
        assert!(json(&status).len() <= 64 << 10, "{}", json(&status).len());
        let Status::Route(status) = status else {
            panic!("it is a route's");
        };
        status
    }

    #[test]
    fn a_message_has_at_most_two_kib() {
        let text = "é".repeat(4_000);
        let conditions = parent(0, [text.clone(), text]).conditions;
        for condition in conditions {
            let message = condition.message;
            assert!(
                (2_030..=2_048).contains(&message.len()),
                "{}",
                message.len()
            );
            assert!(message.ends_with("é… (shortened)"), "{message}");
        }
    }

    #[test]
    fn details_stand_at_the_first_parent() {
        let status = shortened_route(|_| "x".repeat(2_000));
        let [first, others @ ..] = &*status.parents else {
            panic!("there are parents");
        };
        assert_eq!(first.conditions[0].message.len(), 2_000);
        for parent in others {
            let message = &parent.conditions[0].message;
            assert_eq!(
                &**message,
                "as for Gateway infra/edge-0, which has the details"
            );
            assert_eq!(parent.conditions[0].blame, Blame::Follows);
        }
    }

    #[test]
    fn a_status_with_a_long_message_for_each_parent_fits() {
        let status = shortened_route(|number| format!("{number}{}", "x".repeat(2_000)));
        for parent in &status.parents {
            let message = &parent.conditions[0].message;
            assert!(message.len() >= 400 && message.ends_with(CUT), "{message}");
        }
    }

    #[test]
    fn a_status_that_fits_is_not_changed() {
        let status = RouteStatus {
            parents: vec![parent(0, ["x".repeat(1_000), "x".repeat(1_000)])],
        };
        let mut shortened = Status::Route(status.clone());
        shortened.shorten();
        assert_eq!(shortened, Status::Route(status));
    }
}
