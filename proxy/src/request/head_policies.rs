//! What overriding policies decide once the head is read: before a rule is selected, so for requests too that
//! no rule serves.

use crate::config::ListenerSettings;
use crate::exchange::Exchange;
use crate::failure::Failure;
use crate::policy::normalise::Target;
use crate::policy::rate_limit::Moment;

impl<'a> Exchange<'a> {
    /// Refuses the request by overriding policies of its listener, or of the Gateway if it has none.
    pub(super) fn check_head_policies(
        &mut self,
        host: &str,
        target: Target<'a>,
    ) -> Result<(), Failure> {
        let policies = match self.record.listener {
            Some(listener) => &listener.head_policies,
            None => &self.bind.head_policies,
        };
        let Some(policies) = policies.as_deref() else {
            return Ok(());
        };
        self.check_by_networks(&policies.networks)?;
        match &policies.rate_limits {
            Some(limits) => self.count_at(limits, Moment::Head, (host, target)),
            None => Ok(()),
        }
    }

    /// Refuses the request by overriding policies that its listener has now, and did not have when its head was
    /// read: authorization servers took their time meanwhile. A rule that has counted it does not count again.
    pub(super) fn check_new_head_policies(
        &mut self,
        now: &ListenerSettings,
        host: &str,
        target: Target<'a>,
    ) -> Result<(), Failure> {
        let Some(now) = now.head_policies.as_deref() else {
            return Ok(());
        };
        let before = self.record.listener;
        let before = before.and_then(|listener| listener.head_policies.as_deref());
        if before == Some(now) {
            return Ok(());
        }
        self.check_by_networks(&now.networks)?;
        let counted = before.and_then(|before| before.rate_limits.as_ref());
        let limits = now.rate_limits.as_ref();
        match limits.and_then(|limits| limits.at_head_beyond(counted)) {
            Some(limits) => self.count_at(&limits, Moment::Head, (host, target)),
            None => Ok(()),
        }
    }
}
