//! Keys of users.

use translate::Infrastructure;

use super::*;

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
