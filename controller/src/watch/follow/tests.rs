use std::convert::Infallible;

use http::{Request, Response};
use kube::client::Body;

use super::super::discovery;
use super::super::kinds::Kinds;
use super::*;
use crate::metrics::Metrics;

/// The scope can change while a watch ends, and the watch starts again with the new one.
#[tokio::test(start_paused = true)]
async fn objects_of_deselected_namespaces_are_deleted_when_a_watch_starts_again() {
    let scope_of = |namespace: &str| Some(Scope::Selected(Arc::new([namespace.into()].into())));
    let (scope, scopes) = watch::channel(scope_of("b"));
    let (sender, mut changes) = mpsc::channel(1);
    let (_service, mut follower) = follower(scopes, sender);
    let known = ObjectName::new("b", "web");
    follower
        .progress
        .known
        .insert(known.clone(), Uid::of(&Raw::default()));
    follower.progress.scope = scope_of("b");
    scope.send_replace(scope_of("a"));

    let following = follower.follow_as_served();
    let _ = tokio::time::timeout(Duration::from_secs(1), following).await;
    let change = changes.try_recv().ok();
    let what = change.map(|change| change.what);
    assert!(matches!(what, Some(ChangeKind::Delete(name)) if name == known));
}

/// Follows a namespaced kind of an API server that does not respond. The sender says how the kind is served.
fn follower(scopes: Scopes, changes: mpsc::Sender<Change>) -> (watch::Sender<Service>, Follower) {
    let kinds = Kinds::new(&[]);
    let built_in: Vec<_> = discovery::built_in(&kinds).into_iter().collect();
    let namespaced = kinds.iter().find_map(|kind| {
        let (_, resource) = built_in.iter().find(|(id, _)| *id == kind.id)?;
        kind.is_namespaced().then(|| (kind, resource.clone()))
    });
    let (kind, resource) = namespaced.expect("Services are namespaced");
    let (sender, service) = watch::channel(Service::Served(resource));
    let unresponsive = tower::service_fn(|_: Request<Body>| {
        std::future::pending::<Result<Response<Body>, Infallible>>()
    });
    let follower = Follower {
        kind: Arc::clone(kind),
        client: Client::new(unresponsive, "default"),
        service,
        rediscover: Arc::default(),
        scopes,
        selection: None,
        changes,
        readiness: Readiness::new(kinds.clone()),
        measures: Measures::register(&Metrics::default(), std::iter::once(kind.kind)),
        progress: Progress::default(),
    };
    (sender, follower)
}
