use std::convert::Infallible;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures_lite::stream;
use http::{Request, Response, StatusCode};
use http_body_util::StreamBody;
use hyper::body::Frame;
use kube::client::Body;
use serde_json::json;
use tokio::task::yield_now;

use super::*;

/// The events of Services from a server that returns endless pages, each with one object, or an
/// error. The counter has the number of requests.
fn events(status: StatusCode) -> (Events, Arc<AtomicUsize>) {
    let requests = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&requests);
    let server = tower::service_fn(move |_: Request<Body>| {
        counter.fetch_add(1, Ordering::Relaxed);
        let page = json!({
            "kind": "ServiceList", "apiVersion": "v1",
            "metadata": {"resourceVersion": "1", "continue": "more"},
            "items": [{"metadata": {"name": "web", "namespace": "a", "resourceVersion": "1"}}],
        });
        let response = Response::builder().status(status);
        let response = response.body(Body::from(page.to_string().into_bytes()));
        async { Ok::<_, Infallible>(response.expect("a response")) }
    });
    let client = Client::new(server, "default");
    let resource = ApiResource::erase::<k8s_openapi::api::core::v1::Service>(&());
    (Events::new(&client, &resource, None), requests)
}

/// Lets every task run until it waits.
async fn settle() {
    for _ in 0..100 {
        yield_now().await;
    }
}

#[tokio::test]
async fn pages_are_requested_ahead_of_their_reader() {
    let (mut events, requests) = events(StatusCode::OK);
    events.resume();
    assert!(matches!(events.next().await, Some((_, Ok(Event::Init)))));
    settle().await;
    assert!(requests.load(Ordering::Relaxed) > 1);
}

#[tokio::test]
async fn pages_ahead_of_a_slow_reader_are_bounded() {
    let (events, requests) = events(StatusCode::OK);
    events.resume();
    for _ in 0..PAGE {
        settle().await;
    }
    let before = requests.load(Ordering::Relaxed);
    settle().await;
    assert_eq!(requests.load(Ordering::Relaxed), before);
    assert!(before <= PAGE as usize + 1, "{before}");
}

#[tokio::test]
async fn nothing_is_requested_after_an_error_until_it_is_resumed() {
    let (mut events, requests) = events(StatusCode::FORBIDDEN);
    events.resume();
    assert!(matches!(events.next().await, Some((_, Ok(Event::Init)))));
    assert!(matches!(events.next().await, Some((_, Err(_)))));
    settle().await;
    assert_eq!(requests.load(Ordering::Relaxed), 1);
    events.resume();
    assert!(matches!(events.next().await, Some((_, Ok(Event::Init)))));
    assert!(matches!(events.next().await, Some((_, Err(_)))));
    assert_eq!(requests.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn nothing_is_requested_before_the_start() {
    let (mut events, requests) = events(StatusCode::OK);
    settle().await;
    assert_eq!(requests.load(Ordering::Relaxed), 0);
    events.resume();
    assert!(events.next().await.is_some());
}

/// Part of a response: bytes, or that the connection breaks. Without an end, the response is endless.
type Part = Result<String, std::io::Error>;

/// The events of Services from a server with these responses, and the paths of the requests.
fn scripted(responses: Vec<(Vec<Part>, bool)>) -> (Events, Arc<Mutex<Vec<String>>>) {
    let paths = Arc::new(Mutex::new(Vec::new()));
    let requests = Arc::clone(&paths);
    let responses = Mutex::new(responses.into_iter());
    let server = tower::service_fn(move |request: Request<Body>| {
        requests
            .lock()
            .expect("no panic")
            .push(request.uri().to_string());
        let next = responses.lock().expect("no panic").next();
        async move {
            let Some((parts, ends)) = next else {
                return std::future::pending().await;
            };
            let parts = parts.into_iter();
            let parts = parts.map(|it| it.map(|text| Frame::data(Bytes::from(text))));
            let rest = stream::poll_fn(move |_| {
                if ends {
                    std::task::Poll::Ready(None)
                } else {
                    std::task::Poll::Pending
                }
            });
            let body = StreamBody::new(stream::iter(parts).chain(rest));
            Ok::<_, Infallible>(Response::new(body))
        }
    });
    let client = Client::new(server, "default");
    let resource = ApiResource::erase::<k8s_openapi::api::core::v1::Service>(&());
    let events = Events::new(&client, &resource, None);
    events.resume();
    (events, paths)
}

fn object(name: &str, version: &str) -> serde_json::Value {
    json!({"metadata": {"name": name, "namespace": "a", "resourceVersion": version}})
}

fn list(names: &[&str], metadata: &serde_json::Value) -> String {
    let items: Vec<_> = names.iter().map(|name| object(name, "1")).collect();
    json!({"kind": "ServiceList", "apiVersion": "v1", "items": items, "metadata": metadata})
        .to_string()
}

fn watched(kind: &str, object: &serde_json::Value) -> String {
    json!({"type": kind, "object": object}).to_string() + "\n"
}

/// The next event, or the error, in one word and a name.
async fn next(events: &mut Events) -> String {
    let (_, event) = events.next().await.expect("an event");
    match event {
        Ok(Event::Init) => "list".to_owned(),
        Ok(Event::InitApply(raw)) => format!("listed {}", raw.name().name),
        Ok(Event::InitDone) => "listed all".to_owned(),
        Ok(Event::Apply(raw)) => format!("changed {}", raw.name().name),
        Ok(Event::Delete(raw)) => format!("deleted {}", raw.name().name),
        Err(watcher::Error::InitialListFailed(_)) => "list failed".to_owned(),
        Err(watcher::Error::WatchFailed(_)) => "watch failed".to_owned(),
        Err(watcher::Error::WatchError(status)) => format!("error {}", status.code),
        Err(other) => other.to_string(),
    }
}

async fn expect(events: &mut Events, expected: &[&str]) {
    for expected in expected {
        assert_eq!(next(events).await, *expected);
    }
}

#[tokio::test]
async fn objects_of_a_list_are_there_before_its_end() {
    let padding = " ".repeat(PARSED_AT_ONCE);
    let start = format!(
        r#"{{"kind":"ServiceList","items":[{},{padding}"#,
        object("one", "1")
    );
    let (mut events, _) = scripted(vec![(vec![Ok(start)], false)]);
    expect(&mut events, &["list", "listed one"]).await;
}

#[tokio::test]
async fn an_object_can_be_larger_than_what_is_parsed_at_once() {
    let mut large = object("large", "1");
    large["data"] = json!({"text": "a".repeat(5 * PARSED_AT_ONCE)});
    let list = json!({"items": [object("one", "1"), large, object("two", "1")], "metadata": {"resourceVersion": "5"}});
    let list = list.to_string();
    let parts = list.as_bytes().chunks(1_000);
    let parts = parts.map(|part| Ok(String::from_utf8_lossy(part).into_owned()));
    let (mut events, _) = scripted(vec![(parts.collect(), true)]);
    let expected = [
        "list",
        "listed one",
        "listed large",
        "listed two",
        "listed all",
    ];
    expect(&mut events, &expected).await;
}

#[tokio::test]
async fn a_watch_follows_the_last_page_and_continues_after_its_end() {
    let bookmark = json!({
        "kind": "Service", "apiVersion": "v1",
        "metadata": {"resourceVersion": "9", "creationTimestamp": null}, "spec": {},
    });
    let changes = [
        watched("ADDED", &object("three", "6")),
        watched("DELETED", &object("one", "7")),
        watched("BOOKMARK", &bookmark),
    ];
    let first = list(
        &["one"],
        &json!({"resourceVersion": "5", "continue": "more"}),
    );
    let last = list(&["two"], &json!({"resourceVersion": "5", "continue": ""}));
    let (mut events, paths) = scripted(vec![
        (vec![Ok(first)], true),
        (vec![Ok(last)], true),
        (changes.map(Ok).into(), true),
    ]);
    let expected = [
        "list",
        "listed one",
        "listed two",
        "listed all",
        "changed three",
        "deleted one",
    ];
    expect(&mut events, &expected).await;
    settle().await;
    let paths = paths.lock().expect("no panic");
    let [first, second, watch, resumed] = &**paths else {
        panic!("{paths:?}");
    };
    assert!(
        first.contains("limit=1000") && !first.contains("continue"),
        "{first}"
    );
    assert!(second.contains("continue=more"), "{second}");
    assert!(
        watch.contains("watch=true") && watch.contains("resourceVersion=5"),
        "{watch}"
    );
    assert!(
        resumed.contains("watch=true") && resumed.contains("resourceVersion=9"),
        "{resumed}"
    );
}

#[tokio::test]
async fn a_list_that_breaks_off_starts_again() {
    let whole = list(&["one"], &json!({"resourceVersion": "5"}));
    let (start, _) = whole.split_at(whole.len() / 2);
    let broken = std::io::Error::other("connection reset");
    let (mut events, _) = scripted(vec![
        (vec![Ok(start.to_owned()), Err(broken)], true),
        (vec![Ok(start.to_owned())], true),
        (vec![Ok(whole)], true),
    ]);
    for _ in 0..2 {
        expect(&mut events, &["list", "list failed"]).await;
        events.resume();
    }
    expect(&mut events, &["list", "listed one", "listed all"]).await;
}

#[tokio::test]
async fn a_watch_that_fails_continues_where_it_was() {
    let gone = json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"});
    let (mut events, paths) = scripted(vec![
        (vec![Ok(list(&[], &json!({"resourceVersion": "5"})))], true),
        (
            vec![
                Ok(watched("ADDED", &object("one", "6"))),
                Err(std::io::Error::other("reset")),
            ],
            true,
        ),
        (vec![Ok(watched("ERROR", &gone))], true),
    ]);
    expect(
        &mut events,
        &["list", "listed all", "changed one", "watch failed"],
    )
    .await;
    events.resume();
    // Its receiver then lists with new events.
    expect(&mut events, &["error 410"]).await;
    let paths = paths.lock().expect("no panic");
    assert!(paths[2].contains("resourceVersion=6"), "{paths:?}");
}
