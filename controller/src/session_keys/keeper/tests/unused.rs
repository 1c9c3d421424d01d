//! Keys of Gateways that are gone.

use super::*;

#[tokio::test]
async fn the_keys_of_a_gateway_that_is_gone_are_removed_after_ten_minutes() {
    let server = ApiServer::default();
    let mut leader = Replica::leader(&server);
    leader.steps_after(SECOND).await;
    let keys = leader.keys();
    leader.has_gateway(false);
    leader.steps_after(MINUTE).await;
    assert_eq!(leader.outputs.session_keys.get(&edge()), None);
    // It was created again within this time.
    leader.has_gateway(true);
    leader.steps_after(2 * MINUTE).await;
    assert_eq!(leader.keys(), keys);
    leader.has_gateway(false);
    leader.steps_after(3 * MINUTE).await;
    leader.steps_after(12 * MINUTE).await;
    assert!(server.get(SECRET).is_some());
    leader.steps_after(13 * MINUTE).await;
    assert!(server.get(SECRET).is_none());
}

/// Its class was deleted, or it is beyond a budget; its proxies serve on.
#[tokio::test]
async fn the_keys_of_a_gateway_that_is_not_carried_are_kept() {
    let server = ApiServer::default();
    let mut leader = Replica::leader(&server);
    leader.steps_after(SECOND).await;
    let keys = leader.keys();
    leader.outputs.infrastructure.set(&edge(), None);
    for time in [1, 12, 60] {
        leader.steps_after(time * MINUTE).await;
    }
    assert_eq!((leader.keys(), leader.writes()), (keys, 1));
    assert!(server.get(SECRET).is_some());
}
