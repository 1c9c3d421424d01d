//! Health checks.

use std::num::NonZeroU32;
use std::time::Duration;

use proptest::prelude::*;
use proptest::{collection::vec, option};
use xds::model::{HealthCheck, HealthProbe, InitialHealth, ProbePath, StatusRange};

use super::value::{duration, exact_hostname, port};

prop_compose! {
    pub(super) fn health_check()(
        probe in probe(),
        port in option::of(port()),
        (interval, timeout) in (duration(), duration()),
        (unhealthy_after, healthy_after) in (in_a_row(), in_a_row()),
        is_initially_healthy in any::<bool>(),
        panic_percent in 0..=100_u32,
    ) -> HealthCheck {
        HealthCheck {
            probe,
            port,
            interval: interval.clamp(HealthCheck::LEAST_INTERVAL, HealthCheck::MOST_INTERVAL),
            timeout: timeout.clamp(Duration::from_millis(1), HealthCheck::MOST_TIMEOUT),
            unhealthy_after,
            healthy_after,
            initial: if is_initially_healthy {
                InitialHealth::Healthy
            } else {
                InitialHealth::Unhealthy
            },
            panic_percent,
        }
    }
}

fn in_a_row() -> impl Strategy<Value = NonZeroU32> {
    (1..=HealthCheck::MOST_IN_A_ROW).prop_filter_map("not 0", NonZeroU32::new)
}

fn probe() -> impl Strategy<Value = HealthProbe> {
    let path = "/[a-z]{0,8}(\\?[a-z]=1)?";
    let path = path.prop_map(|text| ProbePath::parse(&text).expect("a path"));
    let http = (path, option::of(exact_hostname()), vec(range(), 1..4));
    let grpc = (
        option::of(exact_hostname()),
        "([a-z]{1,8}[.][A-Z][a-z]{1,8})?",
    );
    prop_oneof![
        http.prop_map(|(path, host, expect)| HealthProbe::Http { path, host, expect }),
        grpc.prop_map(|(host, service)| HealthProbe::Grpc { host, service }),
        Just(HealthProbe::Tcp),
    ]
}

fn range() -> impl Strategy<Value = StatusRange> {
    (200..600_u32, 0..400_u32).prop_map(|(first, more)| {
        StatusRange::of_answers(first, (first + more).min(599)).expect("a range")
    })
}
