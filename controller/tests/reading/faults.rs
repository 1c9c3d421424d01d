//! Random schedules of changes and faults: once the faults stop, the published model must match the
//! objects.

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::Value;

use crate::cluster::Cluster;
use crate::objects::{class, gateway, namespace, route, service, slice, udp_route};
use crate::reader::Reader;

#[tokio::test(start_paused = true)]
async fn the_state_converges_once_faults_stop() {
    for seed in 0..SCHEDULES {
        schedule(seed, "[]").await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_state_converges_once_faults_stop_with_selected_namespaces() {
    for seed in 0..SCHEDULES {
        schedule(seed, "[{matchLabels: {team: a}}]").await;
    }
}

async fn schedule(seed: u64, selectors: &str) {
    let mut random = SmallRng::seed_from_u64(seed);
    let cluster = Cluster::new();
    cluster.put(&class());
    for name in ["a", "b"] {
        cluster.put(&namespace(name, name));
    }
    cluster.set_faults(Some(seed));
    let reader = Reader::start(&cluster, selectors);
    for _ in 0..STEPS {
        let object = object(&mut random);
        match random.random_range(0..20) {
            0..5 => cluster.delete(&object),
            5 => cluster.compact(),
            6 => cluster.disconnect(),
            7 => cluster.get_stuck(),
            8 => {
                cluster.set_away(true);
                tokio::time::sleep(Duration::from_secs(random.random_range(0..40))).await;
                cluster.set_away(false);
            }
            _ => cluster.put(&object),
        }
        if random.random_ratio(1, 3) {
            tokio::time::sleep(Duration::from_millis(random.random_range(0..20_000))).await;
        }
    }
    cluster.set_faults(None);
    // A stuck watch, the longest wait after errors, and a list.
    reader.expect(&cluster, Duration::from_secs(200)).await;
}

fn object(random: &mut SmallRng) -> Value {
    let space = if random.random() { "a" } else { "b" };
    let other = if random.random() { "a" } else { "b" };
    let number: u16 = random.random_range(0..3);
    match random.random_range(0..7) {
        0 => gateway(space, "gw"),
        1 => service(space, "web", 8000 + number),
        2 => slice(space, "web", &format!("10.0.0.{number}")),
        3 => udp_route(space, "u", "gw"),
        4 => namespace(space, other),
        _ => route(
            space,
            &format!("r{number}"),
            (other, "gw"),
            &format!("/{}", random.random_range(0..4)),
        ),
    }
}

const SCHEDULES: u64 = 24;
const STEPS: usize = 60;
