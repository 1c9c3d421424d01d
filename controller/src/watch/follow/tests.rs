mod lists;

use std::convert::Infallible;

use http::{Request, Response};
use kube::client::Body;

use translate::ObjectKind;

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

fn scope_of(namespaces: &[&str]) -> Scope {
    Scope::Selected(Arc::new(namespaces.iter().map(|it| (*it).into()).collect()))
}

#[tokio::test(start_paused = true)]
async fn a_list_is_not_complete_for_a_namespace_that_was_deselected_meanwhile() {
    let (scope, scopes) = watch::channel(Some(scope_of(&["a", "b"])));
    let (sender, _changes) = mpsc::channel(8);
    let (service, mut follower) = follower(scopes, sender);
    let Service::Served(resource) = &*service.borrow() else {
        panic!("it is served");
    };
    let now = Instant::now();
    follower.rescope(now).await.expect("it is received");
    for (event, selected) in [
        (Event::Init, ["a"].as_slice()),
        (Event::InitApply(Raw::default()), &["a", "b"]),
        (Event::InitDone, &["a", "b"]),
    ] {
        let taken = follower.take(event, resource).await;
        taken.expect("it is received");
        scope.send_replace(Some(scope_of(selected)));
        follower.rescope(now).await.expect("it is received");
    }
    let kind = follower.kind;
    assert_eq!(follower.reports.scope_listed(kind), Some(scope_of(&["a"])));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_deselected_during_a_list_is_deleted_once() {
    let (scope, scopes) = watch::channel(Some(scope_of(&["a", "b"])));
    let (sender, mut changes) = mpsc::channel(8);
    let (service, mut follower) = follower(scopes, sender);
    let Service::Served(resource) = &*service.borrow() else {
        panic!("it is served");
    };
    follower
        .rescope(Instant::now())
        .await
        .expect("it is received");
    let names = [("a", "deleted"), ("a", "kept"), ("b", "deselected")];
    let names = names.map(|(namespace, name)| ObjectName::new(namespace, name));
    let known = names
        .iter()
        .map(|name| (name.clone(), Uid::of(&Raw::default())));
    follower.progress.known.extend(known);
    let kept = r#"{"metadata": {"namespace": "a", "name": "kept"}}"#;
    let kept = Event::InitApply(serde_json::from_str(kept).expect("an object"));
    for event in [Event::Init, kept, Event::InitDone] {
        follower
            .take(event, resource)
            .await
            .expect("it is received");
        scope.send_replace(Some(scope_of(&["a"])));
        follower
            .rescope(Instant::now())
            .await
            .expect("it is received");
    }
    let deleted = std::iter::from_fn(|| changes.try_recv().ok()).filter_map(|change| {
        let ChangeKind::Delete(name) = change.what else {
            return None;
        };
        Some(name)
    });
    let [missing, _, deselected] = names;
    assert_eq!(deleted.collect::<Vec<_>>(), [deselected, missing]);
}

/// Otherwise there would be a list after each short wait.
#[tokio::test(start_paused = true)]
async fn waits_grow_while_each_watch_fails_after_its_list() {
    let (_scope, scopes) = watch::channel(None);
    let (sender, _changes) = mpsc::channel(100);
    let (service, mut follower) = follower(scopes, sender);
    let Service::Served(resource) = &*service.borrow() else {
        panic!("it is served");
    };
    let mut waited = Duration::ZERO;
    for _ in 0..6 {
        let failed = follower.fail(&watcher::Error::NoResourceVersion).await;
        failed.expect("it is received");
        let until = follower.progress.paused_until.expect("a wait");
        waited = until - Instant::now();
        tokio::time::advance(waited).await;
        for event in [Event::Init, Event::InitDone] {
            let taken = follower.take(event, resource).await;
            taken.expect("it is received");
        }
    }
    assert!(waited > Duration::from_secs(3), "{waited:?}");
}

/// In two changes, what a policy protects could be published without either in between.
#[tokio::test(start_paused = true)]
async fn an_invalid_object_replaces_a_deleted_one_of_its_name_in_one_change() {
    let (_scope, scopes) = watch::channel(None);
    let (sender, mut changes) = mpsc::channel(8);
    let (service, mut follower) = follower(scopes, sender);
    let Service::Served(resource) = &*service.borrow() else {
        panic!("it is served");
    };
    follower.progress.scope = Some(Scope::Selected(Arc::new(["a".into()].into())));
    let valid = r#"[{"port": 80}]"#;
    for (uid, ports) in [
        ("1", valid),
        ("1", "0"),
        ("2", "0"),
        ("2", "0"),
        ("3", valid),
    ] {
        let text = format!(
            r#"{{"metadata": {{"namespace": "a", "name": "web", "uid": "{uid}"}}, "spec": {{"ports": {ports}}}}}"#
        );
        let raw = serde_json::from_str(&text).expect("an object");
        follower
            .upsert(raw, resource)
            .await
            .expect("it is received");
    }
    let replaces = std::iter::from_fn(|| changes.try_recv().ok()).map(|change| match change.what {
        ChangeKind::Replace(_, Content::Invalid { .. }) => true,
        ChangeKind::Upsert(..) => false,
        other => panic!("{other:?}"),
    });
    assert_eq!(
        replaces.collect::<Vec<_>>(),
        [false, false, true, false, false]
    );
}

/// Follows a namespaced kind of an API server that does not respond. The sender says how the kind is served.
fn follower(scopes: Scopes, changes: mpsc::Sender<Change>) -> (watch::Sender<Service>, Follower) {
    let kinds = Kinds::new(&[]);
    let built_in: Vec<_> = discovery::built_in(&kinds).into_iter().collect();
    let mut built_in = built_in.into_iter();
    let served = built_in.find(|(kind, _)| *kind == ObjectKind::Service);
    let (kind, resource) = served.expect("every API server has Services");
    let (sender, service) = watch::channel(Service::Served(resource));
    let unresponsive = tower::service_fn(|_: Request<Body>| {
        std::future::pending::<Result<Response<Body>, Infallible>>()
    });
    let follower = Follower {
        kind,
        client: Client::new(unresponsive, "default"),
        service,
        rediscover: Arc::default(),
        scopes,
        reports: Reports::default(),
        selection: None,
        changes,
        readiness: Readiness::new(kinds.clone()),
        measures: Measures::register(&Metrics::default(), std::iter::once(kind.name())),
        reads: Reads::default(),
        progress: Progress::default(),
    };
    (sender, follower)
}
