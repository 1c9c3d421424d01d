//! The limits of budgets, which options and owners of Gateways may set.

use std::sync::LazyLock;

use super::{Budget, COUNT};

/// The limit of each budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits([u64; COUNT]);

impl Limits {
    /// The limit of a budget.
    #[must_use]
    pub fn of(&self, budget: Budget) -> u64 {
        self.0[budget as usize]
    }

    /// The limits for one machine: without those of Gateways, all of which belong to whoever writes the
    /// files, and of what is sent to proxies.
    #[must_use]
    pub fn of_machine() -> Self {
        let mut limits = Self::default();
        for budget in [
            Budget::ViewResources,
            Budget::ViewBytes,
            Budget::ViewReport,
            Budget::ViewAttachments,
            Budget::GatewayClosedHosts,
            Budget::GatewayPolicies,
            Budget::GatewayPolicyBytes,
            Budget::GatewayNetworks,
            Budget::GatewayNetworkBytes,
            Budget::GatewayRateRules,
            Budget::GatewayRateTables,
            Budget::GatewayAnswers,
            Budget::GatewayAnswerBytes,
            Budget::GatewayPathRewrites,
            Budget::GatewayPathRewriteBytes,
            Budget::GatewayHashTables,
            Budget::GatewayHashTableBytes,
            Budget::GatewayClosingPolicies,
            Budget::GatewayBackends,
            Budget::GatewayBackendBytes,
            Budget::GatewayEndpoints,
            Budget::GatewayEndpointBytes,
            Budget::ResourceBytes,
            Budget::GatewayExpressionBytes,
            Budget::GatewayPorts,
            Budget::SetListeners,
            Budget::SetCertificateBytes,
            Budget::ServiceEndpoints,
        ] {
            limits.0[budget as usize] = u64::MAX;
        }
        limits
    }

    /// Sets the limit of a budget, at most its cap.
    #[must_use]
    pub fn with(mut self, budget: Budget, limit: u64) -> Self {
        self.0[budget as usize] = limit.min(budget.definition().cap);
        self
    }
}

impl Limits {
    /// The same with a lower limit of a budget, or none that is higher.
    #[must_use]
    pub(crate) fn within(mut self, budget: Budget, limit: u64) -> Self {
        let own = &mut self.0[budget as usize];
        *own = limit.min(*own);
        self
    }

    /// The room of a Gateway beyond these limits for what closes refused routes and listeners.
    #[must_use]
    pub(crate) fn for_closed(&self) -> Self {
        // A rule that closes a route matches what its rules match: it has as many entries as they would.
        let mut closed = Self(self.0.map(|limit| limit / CLOSED_PART));
        closed.0[Budget::ViewAttachments as usize] = self.of(Budget::ViewAttachments);
        closed
    }
}

/// The defaults of the table.
impl Default for Limits {
    fn default() -> Self {
        static DEFAULTS: LazyLock<[u64; COUNT]> =
            LazyLock::new(|| Budget::ALL.map(|budget| budget.definition().default));
        Self(*DEFAULTS)
    }
}

/// What closes refused objects has a fourth of a limit, beside it: a closing rule takes about a tenth of
/// what it stands for.
const CLOSED_PART: u64 = 4;
