//! The listeners of a rule.

use std::fmt;
use std::ops::Deref;
use std::slice;
use std::sync::Arc;

use super::{Hostname, ListenerKey};

/// A listener of a rule, with the rule's hosts there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attachment {
    /// The listener.
    pub listener: ListenerKey,
    /// Hosts that match both the route and the listener; empty means every host of the listener.
    pub hostnames: Arc<[Hostname]>,
}

/// The listeners of a rule, each once, in the order of their keys. All rules of a route have the same, and
/// share them. Most rules have one listener, which needs no allocation.
#[derive(Clone, PartialEq, Eq)]
pub struct Attachments(Entries);

#[derive(Clone, PartialEq, Eq)]
enum Entries {
    One(Attachment),
    /// None, or several.
    List(Arc<[Attachment]>),
}

impl Attachments {
    /// The attachment to this listener, with its place in the list.
    #[must_use]
    pub fn find(&self, listener: &ListenerKey) -> Option<(usize, &Attachment)> {
        let at = self.binary_search_by(|it| it.listener.cmp(listener)).ok()?;
        Some((at, self.get(at)?))
    }

    /// Whether both are the same in memory: an answer that costs nothing, but may be a wrong `false`.
    #[must_use]
    pub fn is_shared_with(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Entries::List(one), Entries::List(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl From<Attachment> for Attachments {
    fn from(only: Attachment) -> Self {
        Self(Entries::One(only))
    }
}

/// Of two with the same listener, the first counts.
impl FromIterator<Attachment> for Attachments {
    fn from_iter<I: IntoIterator<Item = Attachment>>(attachments: I) -> Self {
        let mut list: Vec<Attachment> = attachments.into_iter().collect();
        list.sort_by(|one, other| one.listener.cmp(&other.listener));
        list.dedup_by(|later, first| later.listener == first.listener);
        match <[Attachment; 1]>::try_from(list) {
            Ok([only]) => only.into(),
            Err(list) => Self(Entries::List(list.into())),
        }
    }
}

impl Deref for Attachments {
    type Target = [Attachment];

    fn deref(&self) -> &[Attachment] {
        match &self.0 {
            Entries::One(only) => slice::from_ref(only),
            Entries::List(list) => list,
        }
    }
}

impl fmt::Debug for Attachments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&**self).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ObjectName;

    fn at(name: &str, host: Option<&str>) -> Attachment {
        let hosts = host.map(|host| Hostname::parse(host).expect("a host name"));
        Attachment {
            listener: ListenerKey::new("Gateway", &ObjectName::new("infra", "edge"), name),
            hostnames: hosts.into_iter().collect(),
        }
    }

    #[test]
    fn each_listener_is_there_once_in_order() {
        let all = [
            at("b", None),
            at("a", Some("a.test")),
            at("b", Some("b.test")),
        ];
        let attachments = Attachments::from_iter(all);
        assert_eq!(*attachments, [at("a", Some("a.test")), at("b", None)]);
        let found = attachments.find(&at("b", None).listener);
        assert_eq!(found, Some((1, &at("b", None))));
        assert_eq!(attachments.find(&at("c", None).listener), None);
        assert_eq!(
            Attachments::from_iter([at("a", None)]),
            at("a", None).into()
        );
        assert_eq!(Attachments::from_iter([]).len(), 0);
    }
}
