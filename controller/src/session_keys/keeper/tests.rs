//! The keeper of one replica or two, on an API server in this process.

mod given;
mod secrecy;
mod slow_server;
mod unused;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use xds::delta::{Member, Publication};
use xds::model::{
    Attachments, HttpRule, Resource, Route, RouteKey, RouteRule, SessionKeys, SessionPersistence,
    SessionToken,
};

use super::*;
use crate::leadership::Election;
use crate::outputs::{Acknowledgements, ExistingGateway};
use crate::testing::ApiServer;

const SECRETS: &str = "/api/v1/namespaces/gateway-system/secrets";
const SECRET: &str = "/api/v1/namespaces/gateway-system/secrets/session-keys.infra.edge";

/// The keeper of a replica.
struct Replica {
    server: ApiServer,
    outputs: Arc<Outputs>,
    keeper: SessionKeyKeeper,
    election: Election,
    leadership: Leadership,
    start: (Instant, Timestamp),
    registry: Metrics,
}

impl Replica {
    /// A leader that knows the Gateway infra/edge, and has read the Secrets.
    fn leader(server: &ApiServer) -> Self {
        let replica = Self::follower(server);
        replica.election.set(true);
        replica
    }

    fn follower(server: &ApiServer) -> Self {
        let mut replica = Self::unsynced(server);
        replica.reads_all();
        replica
    }

    fn unsynced(server: &ApiServer) -> Self {
        let (outputs, registry) = (Arc::new(Outputs::default()), Metrics::default());
        let (election, leadership) = Leadership::new();
        let client = server.client();
        let keeper =
            SessionKeyKeeper::new(client, "gateway-system", Arc::clone(&outputs), &registry);
        outputs.gateways_known.send_replace(true);
        let replica = Self {
            server: server.clone(),
            outputs,
            keeper,
            election,
            leadership,
            start: (
                Instant::now(),
                "2026-11-30T12:00:00Z".parse().expect("a time"),
            ),
            registry,
        };
        replica.has_gateway(true);
        replica
    }

    /// Creates or deletes the Gateway.
    fn has_gateway(&self, exists: bool) {
        let existing = ExistingGateway {
            uid: "1".into(),
            class: None,
        };
        self.outputs
            .gateways
            .set(&edge(), exists.then_some(existing));
        let infrastructure = exists.then(Arc::default);
        self.outputs.infrastructure.set(&edge(), infrastructure);
    }

    /// What a watch says when it begins.
    fn reads_all(&mut self) {
        self.keeper.take(Ok(Event::Init));
        if let Some(secret) = self.server.get(SECRET) {
            self.keeper.take(Ok(Event::InitApply(secret_of(secret))));
        }
        self.keeper.take(Ok(Event::InitDone));
    }

    /// What a watch says of a change.
    fn hears(&mut self) {
        let secret = self.server.get(SECRET).expect("there is one");
        self.keeper.take(Ok(Event::Apply(secret_of(secret))));
    }

    async fn steps_after(&mut self, time: Duration) {
        let (instant, timestamp) = self.start;
        let (instant, timestamp) = (instant + time, timestamp + time);
        self.keeper.step(&self.leadership, instant, timestamp).await;
    }

    fn keys(&self) -> SessionKeys {
        self.outputs.session_keys.get(&edge()).expect("keys")
    }

    fn problem(&self) -> Option<SessionKeyProblem> {
        self.outputs.session_key_problems.get(&edge())
    }

    /// Proxies acknowledge the keys as they are published.
    fn acknowledged_by(&self, proxies: usize, connected: usize) {
        let keys = session_keys::policy(&edge(), &self.keys());
        let acks = Acknowledgements {
            connected,
            session_keys: Some((Encoded::new(&keys.into()).version, proxies)),
            ..Acknowledgements::default()
        };
        let acks = Some(Arc::new(acks));
        self.outputs.acknowledgements.set(&edge(), acks);
    }

    fn asks_for_another_key(&mut self) {
        let mut secret = self.server.get(SECRET).expect("there is one");
        secret["metadata"]["annotations"]["gateway-system.io/rotate"] = json!("now");
        self.server.put(SECRET, secret);
        self.hears();
    }

    /// Writes so far.
    fn writes(&self) -> usize {
        self.server.writes().len()
    }
}

fn edge() -> ObjectName {
    ObjectName::new("infra", "edge")
}

fn secret_of(object: Value) -> Secret {
    serde_json::from_value(object).expect("a Secret")
}

const MINUTE: Duration = Duration::from_mins(1);
const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn two_leaders_at_once_make_one_key() {
    let server = ApiServer::default();
    let (mut one, mut other) = (Replica::leader(&server), Replica::leader(&server));
    one.steps_after(SECOND).await;
    other.steps_after(SECOND).await;
    assert_eq!(one.writes(), 2, "the second was rejected");
    other.hears();
    assert_eq!(one.keys(), other.keys());
    assert_eq!((one.problem(), other.problem()), (None, None));
    for replica in [&mut one, &mut other] {
        replica.steps_after(2 * SECOND).await;
    }
    assert_eq!(one.writes(), 2);
}

#[tokio::test]
async fn a_follower_reads_and_never_writes() {
    let server = ApiServer::default();
    let mut follower = Replica::follower(&server);
    follower.steps_after(SECOND).await;
    assert_eq!(follower.writes(), 0);
    let mut leader = Replica::leader(&server);
    leader.steps_after(SECOND).await;
    follower.hears();
    assert_eq!(follower.keys(), leader.keys());
    follower.asks_for_another_key();
    follower.acknowledged_by(1, 1);
    for time in [1, 2, 30] {
        follower.steps_after(time * MINUTE).await;
    }
    assert_eq!(follower.writes(), 1, "that of the leader");
}

#[tokio::test]
async fn a_restarted_controller_adopts_the_keys() {
    let server = ApiServer::default();
    let mut before = Replica::leader(&server);
    before.steps_after(SECOND).await;
    let mut after = Replica::leader(&server);
    assert_eq!(after.keys(), before.keys(), "before anything is translated");
    after.steps_after(SECOND).await;
    assert_eq!(after.keys(), before.keys());
    assert_eq!(after.writes(), 1);
}

#[tokio::test]
async fn nothing_is_written_before_gateways_and_secrets_are_known() {
    let server = ApiServer::default();
    let mut replica = Replica::unsynced(&server);
    replica.election.set(true);
    replica.steps_after(SECOND).await;
    assert!(!*replica.outputs.session_keys_known.borrow());
    replica.reads_all();
    assert!(*replica.outputs.session_keys_known.borrow());
    replica.outputs.gateways_known.send_replace(false);
    replica.steps_after(SECOND).await;
    assert_eq!(replica.writes(), 0);
}

#[tokio::test]
async fn a_new_key_signs_when_every_connected_proxy_has_had_it_for_a_minute() {
    let server = ApiServer::default();
    let mut leader = Replica::leader(&server);
    leader.steps_after(SECOND).await;
    let first = leader.keys().accepted()[0].clone();
    leader.asks_for_another_key();
    leader.steps_after(2 * SECOND).await;
    let announced = leader.keys();
    assert_eq!((announced.accepted().len(), announced.signing()), (2, 1));
    assert_eq!(announced.accepted()[1], first);
    let secret = server.get(SECRET).expect("there is one");
    let wish = &secret["metadata"]["annotations"]["gateway-system.io/rotate"];
    assert!(wish.is_null(), "it was granted");
    // Nobody is connected, one of two has it, and a disconnected one comes back without it.
    leader.steps_after(5 * MINUTE).await;
    leader.acknowledged_by(1, 2);
    leader.steps_after(7 * MINUTE).await;
    leader.acknowledged_by(2, 2);
    leader.steps_after(8 * MINUTE).await;
    leader.acknowledged_by(2, 3);
    leader.steps_after(8 * MINUTE + 30 * SECOND).await;
    leader.acknowledged_by(3, 3);
    leader.steps_after(9 * MINUTE).await;
    leader.steps_after(9 * MINUTE + 59 * SECOND).await;
    assert_eq!(leader.keys(), announced);
    leader.steps_after(10 * MINUTE).await;
    let switched = leader.keys();
    assert_eq!(switched.accepted(), announced.accepted());
    assert_eq!(switched.signing(), 0);
    // The Gateway has no sessions, so the key before is kept for an hour.
    leader.steps_after(70 * MINUTE).await;
    assert_eq!(leader.keys(), switched);
    leader.steps_after(70 * MINUTE + SECOND).await;
    assert_eq!(leader.keys().accepted(), &switched.accepted()[..1]);
    assert_eq!(leader.problem(), None);
}

#[tokio::test]
async fn the_minute_before_a_new_key_signs_begins_again_with_the_leadership() {
    let server = ApiServer::default();
    let mut leader = Replica::leader(&server);
    leader.steps_after(SECOND).await;
    leader.asks_for_another_key();
    leader.steps_after(2 * SECOND).await;
    leader.acknowledged_by(1, 1);
    leader.steps_after(3 * SECOND).await;
    leader.election.set(false);
    leader.steps_after(4 * SECOND).await;
    leader.election.set(true);
    leader.steps_after(2 * MINUTE).await;
    assert_eq!(leader.keys().signing(), 1, "another led meanwhile");
    leader.steps_after(3 * MINUTE).await;
    assert_eq!(leader.keys().signing(), 0);
}

#[tokio::test]
async fn a_key_that_waits_for_proxies_for_long_is_reported() {
    let server = ApiServer::default();
    let mut leader = Replica::leader(&server);
    leader.steps_after(SECOND).await;
    leader.asks_for_another_key();
    leader.steps_after(2 * SECOND).await;
    leader.steps_after(9 * MINUTE).await;
    assert_eq!(leader.problem(), None);
    leader.steps_after(11 * MINUTE).await;
    let problem = leader.problem().expect("it waits");
    assert_eq!(problem.reason, Reason::SessionKeysPending);
    let gauge = leader.registry.text();
    assert!(gauge.contains("session_key_problems 1"), "{gauge}");
}

#[tokio::test]
async fn a_damaged_secret_is_kept_and_reported() {
    let server = ApiServer::default();
    let mut leader = Replica::leader(&server);
    leader.steps_after(SECOND).await;
    let (keys, intact) = (leader.keys(), server.get(SECRET).expect("there is one"));
    let mut damaged = intact.clone();
    damaged["data"]["keys"] = json!(STANDARD.encode("[\"hunter2\"]"));
    server.put(SECRET, damaged);
    leader.hears();
    let writes = leader.writes();
    for time in [1, 2, 60] {
        leader.steps_after(time * MINUTE).await;
    }
    assert_eq!(leader.writes(), writes, "it is never overwritten");
    assert_eq!(leader.keys(), keys, "proxies keep their keys");
    let problem = leader.problem().expect("it is reported");
    assert_eq!(problem.reason, Reason::SessionKeysInvalid);
    assert!(
        problem.message.contains("session-keys.infra.edge"),
        "{problem:?}"
    );
    assert!(!problem.message.contains("hunter2"), "{problem:?}");
    // It is restored from a backup.
    server.put(
        SECRET,
        json!({"metadata": intact["metadata"], "data": intact["data"]}),
    );
    leader.hears();
    leader.steps_after(61 * MINUTE).await;
    assert_eq!((leader.problem(), leader.keys()), (None, keys));
}

#[tokio::test]
async fn a_deleted_secret_is_made_again_with_another_key() {
    let server = ApiServer::default();
    let mut leader = Replica::leader(&server);
    leader.steps_after(SECOND).await;
    let keys = leader.keys();
    let deleted = secret_of(server.get(SECRET).expect("there is one"));
    server.remove(SECRET);
    leader.keeper.take(Ok(Event::Delete(deleted)));
    assert_eq!(leader.keys(), keys, "until there are others");
    leader.steps_after(2 * SECOND).await;
    assert_ne!(leader.keys(), keys);
    assert_eq!(leader.keys().accepted().len(), 1);
}

#[tokio::test]
async fn a_controller_that_may_not_write_says_so_and_tries_again() {
    let server = ApiServer::default();
    server.refuse(SECRETS, 403);
    let mut leader = Replica::leader(&server);
    leader.steps_after(SECOND).await;
    leader.steps_after(2 * SECOND).await;
    assert_eq!(leader.writes(), 1, "not at once");
    let problem = leader.problem().expect("it is reported");
    assert_eq!(problem.reason, Reason::SessionKeysUnavailable);
    let text = &problem.message;
    assert!(
        text.contains("namespace gateway-system") && text.contains("Role"),
        "{text}"
    );
    server.accept_all();
    leader.steps_after(MINUTE).await;
    assert_eq!(leader.problem(), None);
    assert_eq!(leader.keys().accepted().len(), 1);
}

/// Someone took its label away.
#[tokio::test]
async fn a_secret_that_is_there_and_not_heard_of_is_reported() {
    let server = ApiServer::default();
    server.put(
        SECRET,
        json!({"metadata": {"name": "session-keys.infra.edge"}}),
    );
    let mut leader = Replica::leader(&server);
    for time in [1, 2, 29] {
        leader.steps_after(time * SECOND).await;
    }
    assert_eq!((leader.writes(), leader.problem()), (1, None));
    leader.steps_after(MINUTE).await;
    let problem = leader.problem().expect("it is reported");
    assert!(
        problem.message.contains("gateway-system.io/session-keys"),
        "{problem:?}"
    );
    server.remove(SECRET);
    leader.steps_after(3 * MINUTE).await;
    assert_eq!(
        (leader.problem(), leader.keys().accepted().len()),
        (None, 1)
    );
}

#[tokio::test]
async fn a_controller_that_may_not_read_holds_nothing_up() {
    let server = ApiServer::default();
    let mut leader = Replica::unsynced(&server);
    leader.election.set(true);
    leader
        .keeper
        .take(Err(watcher::Error::InitialListFailed(forbidden())));
    assert!(*leader.outputs.session_keys_known.borrow());
    leader.steps_after(SECOND).await;
    assert_eq!(leader.writes(), 0);
    let problem = leader.problem().expect("it is reported");
    assert!(
        problem.message.contains("secrets is forbidden"),
        "{problem:?}"
    );
    // The list is asked for again, and not read yet.
    leader.keeper.take(Ok(Event::Init));
    leader.steps_after(2 * SECOND).await;
    assert!(leader.problem().is_some());
    leader.reads_all();
    leader.steps_after(3 * SECOND).await;
    assert_eq!(leader.problem(), None);
}

fn forbidden() -> kube::Error {
    let status = kube::core::Status::failure("secrets is forbidden", "Forbidden").with_code(403);
    kube::Error::Api(status.boxed())
}

/// The watch goes on where it ended, so there is no new list.
#[tokio::test]
async fn a_refused_restart_of_the_watch_stops_nothing() {
    let server = ApiServer::default();
    let mut leader = Replica::leader(&server);
    leader
        .keeper
        .take(Err(watcher::Error::WatchStartFailed(forbidden())));
    leader.steps_after(SECOND).await;
    assert_eq!((leader.writes(), leader.problem()), (1, None));
    leader.asks_for_another_key();
    leader.steps_after(2 * SECOND).await;
    assert_eq!(leader.keys().accepted().len(), 2);
}

#[tokio::test]
async fn a_change_by_another_is_not_overwritten() {
    let server = ApiServer::default();
    let mut leader = Replica::leader(&server);
    leader.steps_after(SECOND).await;
    let mut other = Replica::leader(&server);
    leader.asks_for_another_key();
    other.hears();
    leader.steps_after(2 * SECOND).await;
    other.steps_after(2 * SECOND).await;
    assert_ne!(other.keys(), leader.keys(), "its own was rejected");
    other.hears();
    assert_eq!(other.keys(), leader.keys());
    assert_eq!(other.problem(), None);
}

#[tokio::test]
async fn a_replaced_key_is_kept_for_the_longest_session() {
    let server = ApiServer::default();
    let mut leader = Replica::leader(&server);
    leader
        .outputs
        .published
        .publish(sessions_of(Duration::from_hours(5)));
    leader.steps_after(SECOND).await;
    leader.asks_for_another_key();
    leader.steps_after(2 * SECOND).await;
    leader.acknowledged_by(1, 1);
    leader.steps_after(MINUTE).await;
    leader.steps_after(2 * MINUTE).await;
    assert_eq!(leader.keys().signing(), 0);
    leader.steps_after(5 * 60 * MINUTE).await;
    assert_eq!(leader.keys().accepted().len(), 2);
    leader.steps_after(5 * 60 * MINUTE + 3 * MINUTE).await;
    assert_eq!(leader.keys().accepted().len(), 1);
}

/// A rule of the Gateway with sessions of this duration.
fn sessions_of(duration: Duration) -> Publication {
    let rule = HttpRule {
        session: Some(Box::new(SessionPersistence {
            token: SessionToken::Header(http::HeaderName::from_static("x-session")),
            absolute_timeout: Some(duration),
            idle_timeout: None,
        })),
        ..HttpRule::refusing(Vec::new())
    };
    let route = Encoded::new(&Resource::from(Route {
        key: RouteKey::new("HTTPRoute", &ObjectName::new("a", "b"), 0, &edge()),
        attachments: [].into_iter().collect::<Attachments>(),
        created: 0,
        rule: RouteRule::Http(rule),
    }));
    Publication {
        members: vec![(edge(), route.key.clone(), Member::Joined)],
        resources: vec![(route.key.clone(), Some(Arc::new(route)))],
    }
}
