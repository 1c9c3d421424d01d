//! Processor time of the gateway for a request with an endpoint picker, compared with one without.
//!
//! It measures, so it runs only on request, with a release build:
//! `GATEWAY_UNDER_TEST=target/release/gateway cargo test -p proxy --all-features --test wire
//! picker_cost -- --ignored --nocapture`.

use std::time::Duration;

use super::inference::{ROUTE, pool_with};
use crate::support::{Gateway, PickerBehavior, on_both_drivers, origin, picker, plain_picker};

/// Requests of one round, and rounds: they alternate, so that both are measured under the same
/// conditions.
const REQUESTS: u32 = 2_000;
const ROUNDS: u32 = 6;

on_both_drivers! {
    #[ignore = "measures"]
    fn the_cost_of_a_request_with_and_without_a_picker(driver) {
        for over in ["TLS", "plain text"] {
            let pod = origin();
            let picks = PickerBehavior::Picks(vec![pod.address()]);
            let (picker, port) = match over {
                "TLS" => (picker(picks), "appProtocol: http2"),
                _ => (plain_picker(picks), "appProtocol: kubernetes.io/h2c"),
            };
            let gateway = pool_with(driver, &[pod.address()], picker.address(), "FailClose", port)
                .backend("pod", &[pod.address()])
                .rule("{matches: [{path: {value: /balanced}}], backendRefs: [{@pod}]}")
                .rule(ROUTE)
                .start();
            let [mut balanced, mut picked] = [Duration::ZERO; 2];
            for _ in 0..ROUNDS {
                balanced += cost(&gateway, "/balanced");
                picked += cost(&gateway, "/picked");
                picker.forgets();
                pod.take();
            }
            let per_request = |all: Duration| all.as_secs_f64() * 1e6 / f64::from(REQUESTS * ROUNDS);
            let (balanced, picked) = (per_request(balanced), per_request(picked));
            eprintln!(
                "{driver:?}, picker over {over}: {balanced:.1} µs balanced, {picked:.1} µs picked, {:.2} times",
                picked / balanced
            );
            assert!(picked > 0.0 && balanced > 0.0);
        }
    }
}

/// Processor time of the gateway for requests of one round.
fn cost(gateway: &Gateway, path: &str) -> Duration {
    let mut client = gateway.client();
    let before = processor_time(gateway);
    for _ in 0..REQUESTS {
        client.gets(path).expects(200);
    }
    processor_time(gateway).saturating_sub(before)
}

/// Processor time of all threads of the gateway.
pub(super) fn processor_time(gateway: &Gateway) -> Duration {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", gateway.pid())).expect("it runs");
    let ran = tasks.map(|task| {
        let file = task.expect("a thread").path().join("schedstat");
        let text = std::fs::read_to_string(file).expect("the thread runs");
        let nanos = text.split(' ').next().and_then(|it| it.parse().ok());
        Duration::from_nanos(nanos.expect("nanoseconds on a processor"))
    });
    ran.sum()
}
