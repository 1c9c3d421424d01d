//! Keys of users.

use translate::Infrastructure;

use super::*;
use crate::session_keys::given::derived;

const USERS: &str = "/api/v1/namespaces/infra/secrets/own";

/// A user's Secret with a key of this byte.
fn users_secret(byte: u8) -> Value {
    // In base64 as the user wrote it, and again as Kubernetes keeps it.
    let key = STANDARD.encode(STANDARD.encode([byte; 32]));
    json!({"metadata": {"name": "own"}, "data": {"key": key}})
}

#[tokio::test]
async fn the_key_of_a_user_comes_from_the_secret_in_the_parameters() {
    let server = ApiServer::default();
    let mut leader = Replica::leader(&server);
    let parameters = ObjectName::new("infra", "nodes");
    let infrastructure = Infrastructure {
        parameters: Some(parameters.clone()),
        ..Infrastructure::default()
    };
    let outputs = Arc::clone(&leader.outputs);
    outputs
        .infrastructure
        .set(&edge(), Some(Arc::new(infrastructure)));
    // Parameters that are not known change nothing.
    leader.steps_after(SECOND).await;
    assert_eq!(leader.writes(), 0);
    let spec = json!({"sessionKeyRef": {"name": "own"}});
    outputs.parameters.set(&parameters, Some(Arc::new(spec)));
    leader.steps_after(2 * SECOND).await;
    let problem = leader.problem().expect("the Secret does not exist");
    assert_eq!(problem.reason, Reason::SessionKeysInvalid);
    assert!(
        problem
            .message
            .contains("Secret infra/own: it does not exist"),
        "{problem:?}"
    );
    server.put(USERS, users_secret(1));
    leader.steps_after(MINUTE).await;
    assert_eq!(
        (leader.problem(), leader.keys().accepted()[0].secret()),
        (None, &[1; 32][..])
    );
    // Another one is accepted first.
    server.put(USERS, users_secret(2));
    leader.steps_after(2 * MINUTE).await;
    let keys = leader.keys();
    let bytes: Vec<u8> = keys.accepted().iter().map(|it| it.secret()[0]).collect();
    assert_eq!((bytes, keys.signing()), (vec![2, 1], 1));
    // One that is too short changes nothing.
    server.put(
        USERS,
        json!({"metadata": {"name": "own"}, "data": {"key": STANDARD.encode("hunter2")}}),
    );
    leader.steps_after(3 * MINUTE).await;
    let problem = leader.problem().expect("it is too short");
    assert!(
        problem.message.contains("has 7") && !problem.message.contains("hunter2"),
        "{problem:?}"
    );
    assert_eq!(leader.keys(), keys);
}

/// A tenant sees what its proxies have, and must not make tokens for another's.
#[tokio::test]
async fn a_key_of_the_class_is_derived_for_each_gateway() {
    let server = ApiServer::default();
    server.put(USERS, users_secret(1));
    let mut leader = Replica::leader(&server);
    let (parameters, other) = (
        ObjectName::new("infra", "nodes"),
        ObjectName::new("infra", "other"),
    );
    let outputs = Arc::clone(&leader.outputs);
    let class = Infrastructure::default().class;
    outputs
        .class_parameters
        .set(&class, Some(Ok(parameters.clone())));
    let spec = json!({"sessionKeyRef": {"name": "own"}});
    outputs.parameters.set(&parameters, Some(Arc::new(spec)));
    outputs.infrastructure.set(&other, Some(Arc::default()));
    leader.steps_after(SECOND).await;
    let given = SessionKey::new(&[1; 32]).expect("a key");
    for gateway in [edge(), other.clone()] {
        let keys = outputs.session_keys.get(&gateway).expect("keys");
        let derived = derived(&given, &gateway).expect("a key");
        assert_eq!(keys.accepted(), [derived], "{gateway}");
    }
    let first = |gateway: &ObjectName| {
        let keys: SessionKeys = outputs.session_keys.get(gateway).expect("keys");
        keys.accepted()[0].clone()
    };
    assert_ne!(first(&edge()), first(&other));
    assert_ne!(first(&edge()), given);
    // The Gateway's own parameters name the same Secret.
    let own = Infrastructure {
        parameters: Some(parameters),
        ..Infrastructure::default()
    };
    outputs.infrastructure.set(&other, Some(Arc::new(own)));
    leader.steps_after(2 * SECOND).await;
    assert_eq!(first(&other), given);
}

#[tokio::test]
async fn a_follower_does_not_read_the_keys_of_users() {
    let server = ApiServer::default();
    let mut follower = Replica::follower(&server);
    let parameters = ObjectName::new("infra", "nodes");
    let infrastructure = Infrastructure {
        parameters: Some(parameters.clone()),
        ..Infrastructure::default()
    };
    let outputs = Arc::clone(&follower.outputs);
    outputs
        .infrastructure
        .set(&edge(), Some(Arc::new(infrastructure)));
    let spec = json!({"sessionKeyRef": {"name": "own"}});
    outputs.parameters.set(&parameters, Some(Arc::new(spec)));
    follower.steps_after(SECOND).await;
    assert_eq!(server.requests().len(), 0);
    follower.election.set(true);
    follower.steps_after(2 * SECOND).await;
    assert_eq!(server.requests().len(), 1, "as the leader it reads");
}
