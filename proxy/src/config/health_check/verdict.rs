//! From the results of probes to the standing of an endpoint.

use xds::model::{HealthCheck, InitialHealth};

use super::state::Standing;

/// The results of an endpoint's probes in a row.
#[derive(Debug, Default)]
pub(super) struct Streak {
    failures: u32,
    successes: u32,
    /// Whether any probe has ever succeeded.
    has_succeeded: bool,
}

impl Streak {
    /// Records a result. Returns the standing that follows from it, if that is another one.
    pub(super) fn record(
        &mut self,
        is_success: bool,
        standing: Standing,
        check: &HealthCheck,
    ) -> Option<Standing> {
        let is_first_success = is_success && !self.has_succeeded;
        if is_success {
            self.failures = 0;
            self.successes = self.successes.saturating_add(1);
            self.has_succeeded = true;
        } else {
            self.successes = 0;
            self.failures = self.failures.saturating_add(1);
        }
        match standing {
            _ if !is_success => {
                let is_out = self.failures >= check.unhealthy_after.get();
                (is_out && standing != Standing::Unhealthy).then_some(Standing::Unhealthy)
            }
            Standing::Untried | Standing::Waiting => Some(Standing::Healthy),
            Standing::Healthy => None,
            Standing::Unhealthy => {
                let is_admitted = is_first_success && check.initial == InitialHealth::Unhealthy;
                let is_back = self.successes >= check.healthy_after.get();
                (is_admitted || is_back).then_some(Standing::Healthy)
            }
        }
    }

    /// Failures since the last success.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// Successes since the last failure.
    pub(super) fn successes(&self) -> u32 {
        self.successes
    }
}

#[cfg(test)]
mod tests {
    use super::super::state::Standing::{self, Healthy, Unhealthy, Untried, Waiting};
    use super::super::tests::check;
    use super::Streak;
    use xds::model::{HealthCheck, InitialHealth};

    /// The standing after each result.
    fn standings(check: &HealthCheck, first: Standing, results: &str) -> Vec<Standing> {
        let (mut streak, mut standing) = (Streak::default(), first);
        let results = results.chars().map(|result| {
            standing = streak
                .record(result == '+', standing, check)
                .unwrap_or(standing);
            standing
        });
        results.collect()
    }

    #[test]
    fn only_results_in_a_row_count() {
        let (h, u) = (Healthy, Unhealthy);
        let found = standings(&check(), Untried, "--+---+-++-");
        let expected = [Untried, Untried, h, h, h, u, u, u, u, h, h];
        assert_eq!(found, expected, "3 failures, 2 successes");
    }

    #[test]
    fn the_first_success_of_an_endpoint_that_waits_admits_it() {
        let check = HealthCheck {
            initial: InitialHealth::Unhealthy,
            ..check()
        };
        let found = standings(&check, Waiting, "--+");
        assert_eq!(found, [Waiting, Waiting, Healthy]);
        let found = standings(&check, Waiting, "---+---+-++");
        let (h, u) = (Healthy, Unhealthy);
        let expected = [Waiting, Waiting, u, h, h, h, u, u, u, u, h];
        assert_eq!(found, expected, "later ones come in a row");
    }
}
