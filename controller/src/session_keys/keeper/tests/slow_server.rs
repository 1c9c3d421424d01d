//! A server that does not respond.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_step_ends_after_a_request_without_a_response() {
    let server = ApiServer::default();
    let mut leader = Replica::leader(&server);
    let other = ObjectName::new("infra", "other");
    let infrastructure = Some(Arc::default());
    leader.outputs.infrastructure.set(&other, infrastructure);
    server.set_latency(10 * SECOND);
    let problems = |leader: &Replica| leader.outputs.session_key_problems.keys();
    leader.steps_after(SECOND).await;
    assert_eq!(problems(&leader), [edge()]);
    assert!(leader.registry.text().contains("session_key_problems 1"));
    // The next one goes on, and tries the first again half a minute after it failed.
    leader.steps_after(7 * SECOND).await;
    assert_eq!(problems(&leader).len(), 2);
    server.set_latency(Duration::ZERO);
    leader.steps_after(34 * SECOND).await;
    assert_eq!(leader.writes(), 0);
    leader.steps_after(36 * SECOND).await;
    assert_eq!(problems(&leader), [other]);
    leader.steps_after(41 * SECOND).await;
    assert_eq!((problems(&leader), leader.writes()), (vec![], 2));
}
