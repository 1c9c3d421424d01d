//! Since when no proxy of a Gateway has been connected. Pure: time is passed in.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::Instant;
use xds::model::ObjectName;

use super::programmed::ABSENCE;

/// The Gateways without a connected proxy.
#[derive(Debug, Default)]
pub(super) struct Presence {
    connected: BTreeSet<ObjectName>,
    /// Since when, and whether the end of [`ABSENCE`] is still to come. A new leader, or one that has
    /// just started, has seen nobody yet: for it, the time begins then.
    without: BTreeMap<ObjectName, Instant>,
    due: BTreeSet<(Instant, ObjectName)>,
}

impl Presence {
    /// A Gateway exists.
    pub(super) fn gateway(&mut self, gateway: &ObjectName, now: Instant) {
        if !self.connected.contains(gateway) && !self.without.contains_key(gateway) {
            self.without.insert(gateway.clone(), now);
            self.due.insert((now + ABSENCE, gateway.clone()));
        }
    }

    /// Whether proxies of a Gateway are connected.
    pub(super) fn connected(&mut self, gateway: &ObjectName, is_connected: bool, now: Instant) {
        if is_connected {
            self.forget(gateway);
            self.connected.insert(gateway.clone());
        } else {
            self.connected.remove(gateway);
            self.gateway(gateway, now);
        }
    }

    /// The Gateway was deleted.
    pub(super) fn forget(&mut self, gateway: &ObjectName) {
        self.connected.remove(gateway);
        if let Some(since) = self.without.remove(gateway) {
            self.due.remove(&(since + ABSENCE, gateway.clone()));
        }
    }

    /// Whether no proxy has been connected for [`ABSENCE`].
    pub(super) fn is_absent(&self, gateway: &ObjectName, now: Instant) -> bool {
        let since = self.without.get(gateway);
        since.is_some_and(|it| now.saturating_duration_since(*it) >= ABSENCE)
    }

    /// When [`Presence::is_absent`] changes next.
    pub(super) fn next_change(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// The Gateways for which it has changed by now.
    pub(super) fn take_absent(&mut self, now: Instant) -> BTreeSet<ObjectName> {
        let mut absent = BTreeSet::new();
        while let Some((at, gateway)) = self.due.pop_first() {
            if at > now {
                self.due.insert((at, gateway));
                break;
            }
            absent.insert(gateway);
        }
        absent
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn proxies_are_absent_after_five_minutes_without_any() {
        let (mut presence, start) = (Presence::default(), Instant::now());
        let edge = ObjectName::new("a", "edge");
        presence.connected(&edge, true, start);
        presence.gateway(&edge, start);
        assert_eq!(presence.next_change(), None);
        presence.connected(&edge, false, start);
        let later = start + Duration::from_mins(4);
        presence.gateway(&edge, later);
        assert!(!presence.is_absent(&edge, later));
        assert_eq!(presence.next_change(), Some(start + ABSENCE));
        assert!(presence.take_absent(later).is_empty());
        let then = start + ABSENCE;
        assert_eq!(presence.take_absent(then), BTreeSet::from([edge.clone()]));
        assert!(presence.is_absent(&edge, then));
        assert_eq!(presence.next_change(), None);
        // It is back for a moment.
        presence.connected(&edge, true, then);
        assert!(!presence.is_absent(&edge, then));
        presence.connected(&edge, false, then);
        assert_eq!(presence.next_change(), Some(then + ABSENCE));
        presence.forget(&edge);
        assert_eq!(presence.next_change(), None);
    }
}
