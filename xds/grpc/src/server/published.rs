//! What was published, and who is woken when it changes.

use std::collections::HashMap;

use tokio::sync::watch;
use xds::delta::{Publication, Views};
use xds::model::ObjectName;

#[derive(Debug, Default)]
pub(super) struct Published {
    views: Views,
    /// One for each Gateway with streams.
    wakes: HashMap<ObjectName, watch::Sender<()>>,
}

impl Published {
    pub(super) fn views(&self) -> &Views {
        &self.views
    }

    pub(super) fn views_mut(&mut self) -> &mut Views {
        &mut self.views
    }

    pub(super) fn publish(&mut self, publication: Publication) {
        let is_first = !self.views.is_complete();
        let changed = self.views.publish(publication);
        for (gateway, wake) in &self.wakes {
            // At first, also who needs nothing is told so.
            if is_first || changed.contains(gateway) {
                wake.send_replace(());
            }
        }
    }

    /// Notifies of publications for a Gateway from now on.
    pub(super) fn follow(&mut self, gateway: &ObjectName) -> watch::Receiver<()> {
        let wake = self.wakes.entry(gateway.clone()).or_default();
        wake.subscribe()
    }

    /// Forgets the notification of a Gateway that nobody follows. The caller has dropped its own.
    pub(super) fn tidy(&mut self, gateway: &ObjectName) {
        let wake = self.wakes.get(gateway);
        if wake.is_some_and(|wake| wake.receiver_count() == 0) {
            self.wakes.remove(gateway);
        }
    }
}
