//! Lists that policies refer to, which the watch of ConfigMaps reads for that of policies.

use std::sync::Mutex;
use translate::{Object, ObjectKind};

use super::*;
use crate::watch::entries::{EntryKind, PARSES};
use crate::watch::requests::Requests;

/// The watches of policies and of ConfigMaps, of an API server that gives these responses one after another.
struct Watches {
    policies: Follower,
    maps: Follower,
    changes: mpsc::Receiver<Change>,
    /// The resource of either; only its version matters.
    resource: ApiResource,
    namespace: &'static str,
}

impl Watches {
    fn new(namespace: &'static str, responses: Vec<(u16, String)>) -> Self {
        let (_scope, scopes) = watch::channel(Some(Scope::Everything));
        let (sender, changes) = mpsc::channel(16);
        let requests = Requests::default();
        let responses = Arc::new(Mutex::new(responses.into_iter()));
        let responds = tower::service_fn(move |request: Request<Body>| {
            let path = format!("/api/v1/namespaces/{namespace}/configmaps");
            assert_eq!(request.uri().path(), path);
            let next = responses.lock().expect("no panic").next();
            async move {
                let Some((status, text)) = next else {
                    return std::future::pending().await;
                };
                let response = Response::builder().status(status);
                Ok::<_, Infallible>(response.body(Body::from(text.into_bytes())).expect("valid"))
            }
        });
        let client = Client::new(responds, "default");
        let mut resource = None;
        let [policies, maps] = [ObjectKind::TrafficPolicy, ObjectKind::ConfigMap].map(|kind| {
            let (service, mut follower) = follower(scopes.clone(), sender.clone());
            let Service::Served(served) = service.borrow().clone() else {
                panic!("it is served");
            };
            resource = Some(served);
            follower.kind = kind;
            follower.progress.scope = Some(Scope::Everything);
            // It is known which entries are needed.
            for known in [kind, ObjectKind::TrafficPolicy, ObjectKind::ReferenceGrant] {
                follower.readiness.set(known, State::Synced);
            }
            follower.reads = Reads::new(&requests);
            follower.client = client.clone();
            follower
        });
        Self {
            policies,
            maps,
            changes,
            resource: resource.expect("two watches"),
            namespace,
        }
    }

    fn map(&self, version: u64, list: &str) -> String {
        let namespace = self.namespace;
        format!(
            r#"{{"metadata": {{"namespace": "{namespace}", "name": "lists", "resourceVersion": "{version}"}},
            "data": {{"a": "{list}", "b": "x"}}}}"#
        )
    }

    /// An event of a ConfigMap.
    async fn event(&mut self, map: Raw) {
        let taken = self.maps.take(Event::Apply(map), &self.resource).await;
        taken.expect("it is received");
    }

    async fn delete(&mut self, map: &str) {
        let deleted = Event::Delete(parse(map));
        let taken = self.maps.take(deleted, &self.resource).await;
        taken.expect("it is received");
    }

    async fn apply_policy(&mut self, name: &str, networks: &str) {
        let namespace = self.namespace;
        let text = format!(
            r#"{{"metadata": {{"namespace": "{namespace}", "name": "{name}"}}, "spec": {{"targetRefs":
            [{{"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "gw"}}], "networks": {networks}}}}}"#
        );
        let taken = self.policies.upsert(parse(&text), &self.resource).await;
        taken.expect("it is received");
    }

    /// Reads until a ConfigMap is reported.
    async fn read(&mut self) {
        let reread = self
            .maps
            .reads
            .next(&self.maps.client, EntryKind::ConfigMap)
            .await;
        let taken = self.maps.take_reread(reread, &self.resource).await;
        taken.expect("it is received");
    }

    /// The changes that were sent: policies by name, and ConfigMaps by their list.
    async fn sent(&mut self) -> Vec<String> {
        self.policies.release().await.expect("it is received");
        let changes = std::iter::from_fn(|| self.changes.try_recv().ok());
        let sent = changes.map(|change| match change.what {
            ChangeKind::Upsert(_, Content::Valid { object, .. }) => match object {
                Object::ConfigMap(map) => {
                    let list = map.entry("a").unwrap_or(b"none");
                    String::from_utf8_lossy(list).into_owned()
                }
                other => other.metadata().name.name.to_string(),
            },
            ChangeKind::Delete(name) => format!("deleted {}", name.name),
            other => panic!("{other:?}"),
        });
        sent.collect()
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        self.policies.forget(&ObjectName::new(self.namespace, "p"));
    }
}

fn parse(text: &str) -> Raw {
    PARSES.sync_scope(EntryKind::ConfigMap, || {
        serde_json::from_str(text).expect("an object")
    })
}

fn list_of(map: &str) -> (u16, String) {
    let list = format!(r#"{{"kind": "ConfigMapList", "metadata": {{}}, "items": [{map}]}}"#);
    (200, list)
}

const FROM_LIST: &str = r#"{"denyFrom": [{"name": "lists", "key": "a"}]}"#;

/// Otherwise its targets would be closed in between.
#[tokio::test(start_paused = true)]
async fn a_policy_waits_for_its_list_and_keeps_no_other_waiting() {
    let map = Watches::new("waits", Vec::new()).map(1, "10.0.0.0/8");
    let mut watches = Watches::new("waits", vec![list_of(&map)]);
    watches.apply_policy("p", FROM_LIST).await;
    watches.apply_policy("q", r#"{"deny": ["::/0"]}"#).await;
    assert_eq!(watches.sent().await, ["q"]);
    watches.read().await;
    assert_eq!(watches.sent().await, ["10.0.0.0/8", "p"]);
    watches.apply_policy("p", FROM_LIST).await;
    assert_eq!(watches.sent().await, ["p"], "it is read only once");
}

#[tokio::test(start_paused = true)]
async fn a_failed_read_is_repeated_while_the_policy_takes_effect() {
    let map = Watches::new("fails", Vec::new()).map(1, "10.0.0.0/8");
    let responses = vec![
        (429, "{}".to_owned()),
        (500, "{}".to_owned()),
        list_of(&map),
    ];
    let mut watches = Watches::new("fails", responses);
    watches.apply_policy("p", FROM_LIST).await;
    let (reads, policies) = (&mut watches.maps.reads, &watches.policies.reads.requests);
    tokio::select! {
        biased;
        _ = reads.next(&watches.maps.client, EntryKind::ConfigMap) => panic!("it fails"),
        () = policies.tried() => {}
    }
    assert_eq!(watches.sent().await, ["p"]);
    watches.read().await;
    assert_eq!(watches.sent().await, ["10.0.0.0/8"]);
}

#[tokio::test(start_paused = true)]
async fn an_older_version_never_replaces_what_was_read() {
    let before = Watches::new("versions", Vec::new());
    let maps = [(1, "10.0.0.0/8"), (2, "::1"), (3, "::3")];
    let [first, second, third] = maps.map(|it| before.map(it.0, it.1));
    drop(before);
    // Both were parsed before a policy needed them.
    let [stripped, read_ahead] = [parse(&first), parse(&second)];
    let mut watches = Watches::new("versions", vec![list_of(&third)]);
    watches.event(stripped).await;
    watches.apply_policy("p", FROM_LIST).await;
    watches.read().await;
    assert_eq!(watches.sent().await, ["none", "::3", "p"]);
    watches.event(read_ahead).await;
    watches.delete(&second).await;
    assert_eq!(watches.sent().await, Vec::<String>::new());
    watches.delete(&third).await;
    assert_eq!(watches.sent().await, ["deleted lists"]);
}

/// The policy was taken after the event was parsed, and before it was looked at.
#[tokio::test(start_paused = true)]
async fn an_event_that_lacks_an_entry_is_read_again() {
    let before = Watches::new("lacks", Vec::new());
    let [first, second] = [(1, "10.0.0.0/8"), (2, "::1")].map(|it| before.map(it.0, it.1));
    drop(before);
    let stripped = parse(&second);
    let mut watches = Watches::new("lacks", vec![list_of(&first), list_of(&second)]);
    watches.apply_policy("p", FROM_LIST).await;
    watches.read().await;
    watches.event(stripped).await;
    watches.read().await;
    assert_eq!(watches.sent().await, ["10.0.0.0/8", "none", "::1", "p"]);
}

/// The response is older than the event that arrives while it is read.
#[tokio::test(start_paused = true)]
async fn an_event_during_a_read_makes_it_be_read_again() {
    let before = Watches::new("during", Vec::new());
    let [first, second] = [(1, "10.0.0.0/8"), (2, "::1")].map(|it| before.map(it.0, it.1));
    drop(before);
    let mut watches = Watches::new("during", vec![list_of(&first), list_of(&second)]);
    watches.apply_policy("p", FROM_LIST).await;
    let polled = futures_lite::future::poll_once(
        watches
            .maps
            .reads
            .next(&watches.maps.client, EntryKind::ConfigMap),
    )
    .await;
    assert!(polled.is_none(), "it is being read");
    watches.event(parse(&second)).await;
    watches.read().await;
    assert_eq!(watches.sent().await, ["::1", "::1", "p"]);
}
