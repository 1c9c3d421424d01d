//! One change to many proxies costs one encoding.

use std::time::Instant;

use crate::support::{Controller, ServerEvent, Stream, publication, versions, web, within};

const PROXIES: usize = 100;

async fn connected(controller: &Controller) -> Vec<Stream> {
    let mut proxies = Vec::new();
    for at in 0..PROXIES {
        let name = format!("p{at}");
        let mut proxy = controller.proxy(&name).await;
        let batch = proxy.batch().await;
        proxy.acknowledge(&batch).await;
        for _ in &batch {
            controller
                .sees(&name, |seen| *seen == ServerEvent::Accepted)
                .await;
        }
        proxies.push(proxy);
    }
    proxies
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_change_is_encoded_once_for_a_hundred_proxies() {
    let controller = Controller::start().await;
    let names: Vec<String> = (0..1_000).map(|name| name.to_string()).collect();
    let services: Vec<_> = names.iter().map(|name| (name.as_str(), Some(1))).collect();
    controller.publish(&services);
    let mut proxies = connected(&controller).await;
    let before = controller.batches();
    let change = publication(&web(), &[("7", Some(2))]);
    let started = Instant::now();
    controller.published.publish(change);
    let published = started.elapsed();
    for proxy in &mut proxies {
        let batch = proxy.batch().await;
        assert_eq!(versions(&batch).len(), 1, "what changed, and nothing else");
        proxy.acknowledge(&batch).await;
    }
    let received = started.elapsed();
    assert_eq!(controller.batches() - before, 1);
    eprintln!("published in {published:?}; received by {PROXIES} proxies in {received:?}");
    drop(proxies);
    controller.server.close();
    within(controller.serving).await.expect("no panic");
}
