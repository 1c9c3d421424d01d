//! The election of a leader.

use std::time::Duration;

use controller::election::Candidate;
use controller::leadership::Leadership;
use controller::stopping::{Stop, Stopping};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::cluster::Cluster;

struct Replica {
    leadership: Leadership,
    stop: Stop,
    task: JoinHandle<()>,
}

fn replica(cluster: &Cluster, name: &str) -> Replica {
    let (election, leadership) = Leadership::new();
    let (stop, stopping) = Stopping::new();
    let candidate = Candidate::new(cluster.client(), "gateway-system", name, election);
    Replica {
        leadership,
        stop,
        task: tokio::spawn(candidate.run(stopping)),
    }
}

#[tokio::test(start_paused = true)]
async fn another_replica_takes_over_immediately_when_the_leader_exits() {
    let cluster = Cluster::new();
    let mut one = replica(&cluster, "one");
    one.leadership.acquired().await;
    let mut other = replica(&cluster, "other");
    sleep(Duration::from_mins(1)).await;
    assert!(one.leadership.is_leader() && !other.leadership.is_leader());
    let started = Instant::now();
    one.stop.stop();
    one.task.await.expect("an end");
    other.leadership.acquired().await;
    assert!(!one.leadership.is_leader());
    assert!(
        started.elapsed() < Duration::from_secs(3),
        "{:?}",
        started.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_vanished_leader_is_replaced_when_its_lease_expires() {
    let cluster = Cluster::new();
    let mut one = replica(&cluster, "one");
    one.leadership.acquired().await;
    let mut other = replica(&cluster, "other");
    sleep(Duration::from_secs(5)).await;
    one.task.abort();
    let started = Instant::now();
    other.leadership.acquired().await;
    let took = started.elapsed();
    let expected = Duration::from_secs(12)..Duration::from_secs(19);
    assert!(expected.contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_its_lease_stops_before_another_may_take_it() {
    let cluster = Cluster::new();
    let mut one = replica(&cluster, "one");
    one.leadership.acquired().await;
    let started = Instant::now();
    cluster.set_away(true);
    one.leadership.lost().await;
    let took = started.elapsed();
    assert!(took <= Duration::from_secs(10), "{took:?}");
    cluster.set_away(false);
    one.leadership.acquired().await;
}

#[tokio::test(start_paused = true)]
async fn there_are_never_two_leaders() {
    let cluster = Cluster::new();
    let replicas = ["one", "other", "third"].map(|name| replica(&cluster, name));
    for seed in 0..20 {
        cluster.set_faults(Some(seed));
        for _ in 0..60 {
            sleep(Duration::from_millis(500)).await;
            let leaders = replicas.iter().filter(|it| it.leadership.is_leader());
            assert!(leaders.count() <= 1);
        }
        cluster.set_faults(None);
        sleep(Duration::from_secs(20)).await;
        let leaders = replicas.iter().filter(|it| it.leadership.is_leader());
        assert_eq!(leaders.count(), 1);
    }
}
