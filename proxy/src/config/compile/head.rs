//! What overriding policies decide once the head of a request is read.

use std::num::NonZeroU32;

use super::enforced::Enforced;
use super::networks::SharedNetworks;
use super::rate_limit::RateLimiters;
use crate::config::HeadPolicies;
use crate::policy::rate_limit::RateLimits;

/// Compiles the head policies of listeners and binds.
pub(super) struct HeadCompiler<'c> {
    pub(super) networks: &'c mut SharedNetworks,
    pub(super) rate_limits: &'c mut RateLimiters,
    pub(super) shards: NonZeroU32,
}

impl HeadCompiler<'_> {
    /// The head policies of what is enforced; most listeners have none.
    pub(super) fn compile(&mut self, enforced: &Enforced<'_>) -> Option<Box<HeadPolicies>> {
        let limits = enforced.rate_limits.iter().copied();
        let compiled = HeadPolicies {
            networks: self.networks.all_of(enforced.networks.iter().copied()),
            rate_limits: RateLimits::at_head(self.rate_limits.of_each(limits, self.shards)),
        };
        (compiled != HeadPolicies::default()).then(|| Box::new(compiled))
    }
}
