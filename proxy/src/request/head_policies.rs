//! What overriding policies decide once the head is read: before a rule is selected, so for requests too that
//! no rule serves.

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
}
