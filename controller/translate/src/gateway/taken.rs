//! Host names that ListenerSets take from the Gateway's own listeners: requests go to the listener with
//! the narrowest name, whoever declares it.

use xds::model::Hostname;

use crate::objects::owner::Owner;
use crate::status::{ConditionStatus, ConditionType, Conditions, Reason};

/// Names listed in a condition. Further ones are counted, so that its length has a bound.
const LISTED: usize = 4;

/// The host names that ListenerSets take from one listener.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct TakenNames {
    /// The first of them, each with its ListenerSet.
    listed: Vec<String>,
    count: usize,
}

impl TakenNames {
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The names for a message.
    pub(crate) fn list(&self) -> String {
        let listed = self.listed.join(", ");
        match self.count - self.listed.len() {
            0 => listed,
            more => format!("{listed}, and {more} more"),
        }
    }

    pub(crate) fn add(&mut self, hostname: &Hostname, owner: &Owner) {
        self.count += 1;
        if self.listed.len() < LISTED {
            let set = owner.name();
            let hostname = hostname.as_str();
            self.listed
                .push(format!("`{hostname}` (ListenerSet {set})"));
        }
    }
}

impl Conditions {
    /// That ListenerSets take host names from a listener: information, since the Gateway allows it.
    pub(crate) fn hostnames_taken(self, taken: &TakenNames) -> Self {
        if taken.is_empty() {
            return self;
        }
        let message = format!(
            "listeners of ListenerSets have narrower host names, and get their requests: {}",
            taken.list()
        );
        let (kind, status) = (ConditionType::HostnamesTaken, ConditionStatus::True);
        self.with(kind, status, Reason::ListenerSets, message.into(), None)
            .that_follows()
    }
}
