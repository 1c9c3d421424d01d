//! Active health checks: endpoints are asked whether they can serve.
//!
//! Once for the whole proxy, on a thread of its own: neither a shard nor the compilation of a large configuration
//! delays a probe. The steps: the compiler gives each ready endpoint of a checked cluster a [`ProbeState`], which
//! stays across configurations; `plan` lists what is asked of whom; `schedule` says when, within the `rate` of
//! all; `prober` runs each `probe` as a task; `verdict` makes a standing of the results, which shards read in
//! their draw. Unchecked clusters have none of this.

mod failure;
mod grpc;
mod http;
mod limited;
mod plan;
mod probe;
mod prober;
mod rate;
mod schedule;
mod state;
mod verdict;

pub use limited::{CheckLimit, LimitedCheck};
pub(in crate::config) use prober::HealthChecks;
pub use state::{CheckedEndpoints, ProbeCounts, ProbeState, Standing};

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::time::Duration;

    use xds::model::{HealthCheck, HealthProbe, InitialHealth};

    /// Three failures or two successes in a row count.
    pub(super) fn check() -> HealthCheck {
        HealthCheck {
            probe: HealthProbe::Tcp,
            port: None,
            interval: Duration::from_secs(10),
            timeout: Duration::from_secs(2),
            unhealthy_after: NonZeroU32::new(3).expect("not 0"),
            healthy_after: NonZeroU32::new(2).expect("not 0"),
            initial: InitialHealth::Healthy,
            panic_percent: 30,
        }
    }
}
