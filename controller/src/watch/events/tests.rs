mod watches;

use std::convert::Infallible;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use bytes::Bytes;
use futures_lite::stream;
use http::{Request, Response, StatusCode};
use http_body_util::StreamBody;
use hyper::body::Frame;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::task::yield_now;

use translate::ObjectKind;

use super::super::heard::Heard;
use super::*;

const SERVICE: &KindDefinition = ObjectKind::Service.definition();

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
    (
        Events::new(
            &client,
            &resource,
            SERVICE,
            &Arc::default(),
            &Heard::default(),
        ),
        requests,
    )
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
    for _ in 0..2 * READ_AHEAD {
        settle().await;
    }
    let before = requests.load(Ordering::Relaxed);
    settle().await;
    assert_eq!(requests.load(Ordering::Relaxed), before);
    assert!(before <= READ_AHEAD + 1, "{before}");
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

/// Whether a path has a parameter.
fn has(path: &str, parameter: &str) -> bool {
    path.split(['?', '&']).any(|it| it == parameter)
}

/// A response in parts: text, or that the connection breaks.
struct Script {
    status: StatusCode,
    parts: Vec<std::io::Result<String>>,
    then: Then,
}

/// What follows the parts of a response.
#[derive(Clone, Copy)]
enum Then {
    End,
    Nothing,
}

impl Script {
    fn of(parts: impl IntoIterator<Item = String>) -> Self {
        Self {
            status: StatusCode::OK,
            parts: parts.into_iter().map(Ok).collect(),
            then: Then::End,
        }
    }

    /// The resource version, or that of a continue token, is too old.
    fn expired() -> Self {
        Self {
            status: StatusCode::GONE,
            ..Self::of([expired().to_string()])
        }
    }

    fn breaks(mut self) -> Self {
        let error = std::io::Error::other("connection reset");
        self.parts.push(Err(error));
        self
    }

    fn stays_open(self) -> Self {
        Self {
            then: Then::Nothing,
            ..self
        }
    }
}

/// The events of Services from a server with these responses, which answers nothing after them, and
/// the paths of the requests.
fn scripted(scripts: Vec<Script>) -> (Events, Arc<Mutex<Vec<String>>>) {
    scripted_and_heard(scripts, &Heard::default())
}

fn scripted_and_heard(scripts: Vec<Script>, heard: &Heard) -> (Events, Arc<Mutex<Vec<String>>>) {
    let paths = Arc::new(Mutex::new(Vec::new()));
    let requests = Arc::clone(&paths);
    let scripts = Mutex::new(scripts.into_iter());
    let server = tower::service_fn(move |request: Request<Body>| {
        let path = request.uri().to_string();
        requests.lock().expect("no panic").push(path);
        let next = scripts.lock().expect("no panic").next();
        async move {
            let Some(Script {
                status,
                parts,
                then,
            }) = next
            else {
                return std::future::pending().await;
            };
            let parts = parts.into_iter();
            let parts = parts.map(|it| it.map(|text| Frame::data(Bytes::from(text))));
            let rest = stream::poll_fn(move |_| match then {
                Then::End => Poll::Ready(None),
                Then::Nothing => Poll::Pending,
            });
            let body = StreamBody::new(stream::iter(parts).chain(rest));
            let response = Response::builder().status(status).body(body);
            Ok::<_, Infallible>(response.expect("a response"))
        }
    });
    let client = Client::new(server, "default");
    let resource = ApiResource::erase::<k8s_openapi::api::core::v1::Service>(&());
    let definition = KindDefinition {
        field_selector: Some("type!=none"),
        ..*SERVICE
    };
    let events = Events::new(&client, &resource, &definition, &Arc::default(), heard);
    events.resume();
    (events, paths)
}

fn object(name: &str, version: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "a", "resourceVersion": version}})
}

fn expired() -> Value {
    json!({
        "kind": "Status", "status": "Failure", "code": 410, "reason": "Expired",
        "message": "too old",
    })
}

fn list(names: &[&str], metadata: &Value) -> Script {
    let items: Vec<_> = names.iter().map(|name| object(name, "1")).collect();
    let list = json!({"kind": "ServiceList", "items": items, "metadata": metadata});
    Script::of([list.to_string()])
}

fn watched(kind: &str, object: &Value) -> String {
    // In the order of API servers.
    format!("{{\"type\": {}, \"object\": {object}}}\n", json!(kind))
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
        Err(watcher::Error::WatchFailed(kube::Error::Service(error))) => error.to_string(),
        Err(watcher::Error::WatchFailed(_)) => "watch failed".to_owned(),
        Err(watcher::Error::WatchStartFailed(kube::Error::Api(status))) => {
            format!("watch refused {}", status.code)
        }
        Err(watcher::Error::WatchError(status)) => format!("error {}", status.code),
        Err(watcher::Error::NoResourceVersion) => "no version".to_owned(),
        Err(other) => other.to_string(),
    }
}

async fn expect(events: &mut Events, expected: &[&str]) {
    for expected in expected {
        assert_eq!(next(events).await, *expected);
    }
}

fn made(paths: &Mutex<Vec<String>>) -> Vec<String> {
    paths.lock().expect("no panic").clone()
}

#[tokio::test]
async fn objects_of_a_list_are_there_before_its_end() {
    let padding = " ".repeat(PARSED_AT_ONCE);
    let start = format!(
        r#"{{"kind":"ServiceList","items":[{},{padding}"#,
        object("one", "1")
    );
    let (mut events, _) = scripted(vec![Script::of([start]).stays_open()]);
    expect(&mut events, &["list", "listed one"]).await;
}

#[tokio::test]
async fn an_object_can_be_larger_than_what_is_parsed_at_once() {
    let mut large = object("large", "1");
    large["data"] = json!({"text": "a".repeat(5 * PARSED_AT_ONCE)});
    let items = [object("one", "1"), large, object("two", "1")];
    let list = json!({"items": items, "metadata": {"resourceVersion": "5"}}).to_string();
    let parts = list.as_bytes().chunks(1_000);
    let parts = parts.map(|part| String::from_utf8_lossy(part).into_owned());
    let (mut events, _) = scripted(vec![Script::of(parts)]);
    let expected = [
        "list",
        "listed one",
        "listed large",
        "listed two",
        "listed all",
    ];
    expect(&mut events, &expected).await;
}

/// The API server would give up a response that is read slowly.
#[tokio::test]
async fn a_short_page_is_read_to_its_end_without_a_reader_of_its_events() {
    let count = 2 * READ_AHEAD;
    let names: Vec<String> = (0..count).map(|number| number.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (read, mut is_read) = mpsc::channel(1);
    let Script { mut parts, .. } = list(&names, &json!({"resourceVersion": "5"}));
    let whole = parts.pop().expect("one part").expect("text");
    let server = tower::service_fn(move |_: Request<Body>| {
        let (whole, read) = (whole.clone(), read.clone());
        async move {
            let parts = [Ok::<_, Infallible>(Frame::data(Bytes::from(whole)))];
            let end = stream::poll_fn(move |_| {
                let _ = read.try_send(());
                Poll::Ready(None)
            });
            Ok::<_, Infallible>(Response::new(StreamBody::new(
                stream::iter(parts).chain(end),
            )))
        }
    });
    let client = Client::new(server, "default");
    let resource = ApiResource::erase::<k8s_openapi::api::core::v1::Service>(&());
    let mut events = Events::new(
        &client,
        &resource,
        SERVICE,
        &Arc::default(),
        &Heard::default(),
    );
    events.resume();
    is_read.recv().await.expect("the response is read");
    expect(&mut events, &["list"]).await;
    for name in names {
        expect(&mut events, &[&format!("listed {name}")]).await;
    }
    expect(&mut events, &["listed all"]).await;
}

#[tokio::test]
async fn what_is_parsed_of_a_long_page_is_bounded() {
    let text = "a".repeat(8 * PARSED_AT_ONCE);
    let parsed_ahead = PARSED_AHEAD / text.len();
    let count = READ_AHEAD + parsed_ahead + 30;
    let received = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&received);
    let server = tower::service_fn(move |_: Request<Body>| {
        let (counter, text) = (Arc::clone(&counter), text.clone());
        let items = (0..count).map(move |number| {
            counter.fetch_add(1, Ordering::Relaxed);
            let comma = if number == 0 { "" } else { "," };
            let mut object = object(&number.to_string(), "1");
            if number >= READ_AHEAD {
                object["data"] = json!(text);
            }
            format!("{comma}{object}")
        });
        let begin = r#"{"metadata": {"resourceVersion": "5"}, "items": ["#.to_owned();
        let parts = [begin].into_iter().chain(items).chain(["]}".to_owned()]);
        let parts = parts.map(|part| Ok::<_, Infallible>(Frame::data(Bytes::from(part))));
        async { Ok::<_, Infallible>(Response::new(StreamBody::new(stream::iter(parts)))) }
    });
    let client = Client::new(server, "default");
    let resource = ApiResource::erase::<k8s_openapi::api::core::v1::Service>(&());
    let mut events = Events::new(
        &client,
        &resource,
        SERVICE,
        &Arc::default(),
        &Heard::default(),
    );
    events.resume();
    let received = || received.load(Ordering::Relaxed);
    let mut before = None;
    while before != Some(received()) {
        before = Some(received());
        settle().await;
    }
    let ahead = READ_AHEAD + parsed_ahead;
    assert!((ahead - 10..ahead + 10).contains(&received()), "{before:?}");
    expect(&mut events, &["list"]).await;
    for number in 0..count {
        expect(&mut events, &[&format!("listed {number}")]).await;
    }
    expect(&mut events, &["listed all"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_list_that_breaks_off_starts_again() {
    let whole = || list(&["one"], &json!({"resourceVersion": "5"}));
    let part = || {
        let Script { mut parts, .. } = whole();
        let mut text = parts.pop().expect("one part").expect("text");
        text.truncate(text.len() / 2);
        Script::of([text])
    };
    let (mut events, paths) = scripted(vec![part().breaks(), part(), part().breaks(), whole()]);
    for _ in 0..3 {
        expect(&mut events, &["list", "list failed"]).await;
        events.resume();
    }
    expect(&mut events, &["list", "listed one", "listed all"]).await;
    for path in &made(&paths)[..3] {
        assert!(has(path, "limit=50000"), "{path}");
    }
}

/// An API server gives up a request after a minute, before its response or in the middle.
#[tokio::test(start_paused = true)]
async fn pages_that_do_not_arrive_in_time_become_shorter() {
    let paths = Arc::new(Mutex::new(Vec::new()));
    let requests = Arc::clone(&paths);
    let server = tower::service_fn(move |request: Request<Body>| {
        requests
            .lock()
            .expect("no panic")
            .push(request.uri().to_string());
        let number = requests.lock().expect("no panic").len();
        async move {
            let begin = Frame::data(Bytes::from(r#"{"items": ["#));
            let end = stream::once_future(async move {
                if number == 2 {
                    sleep(Duration::from_mins(1)).await;
                }
                Err(std::io::Error::other("connection reset"))
            });
            if number == 1 {
                sleep(Duration::from_mins(1)).await;
            }
            let status = match number {
                1 => StatusCode::GATEWAY_TIMEOUT,
                3 => StatusCode::FORBIDDEN,
                _ => StatusCode::OK,
            };
            let body = StreamBody::new(stream::iter([Ok(begin)]).chain(end));
            let response = Response::builder().status(status).body(body);
            Ok::<_, Infallible>(response.expect("a response"))
        }
    });
    let client = Client::new(server, "default");
    let resource = ApiResource::erase::<k8s_openapi::api::core::v1::Service>(&());
    let shortened = Arc::default();
    let mut events = Events::new(&client, &resource, SERVICE, &shortened, &Heard::default());
    for _ in 0..4 {
        events.resume();
        expect(&mut events, &["list", "list failed"]).await;
    }
    // Its receiver lists again with new events.
    let mut events = Events::new(&client, &resource, SERVICE, &shortened, &Heard::default());
    events.resume();
    expect(&mut events, &["list", "list failed"]).await;
    let paths = made(&paths);
    let limits = [
        "limit=50000",
        "limit=5000",
        "limit=500",
        "limit=500",
        "limit=500",
    ];
    assert_eq!(paths.len(), limits.len());
    for (path, limit) in paths.iter().zip(limits) {
        assert!(has(path, limit), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_with_an_expired_token_starts_again() {
    let more = json!({"resourceVersion": "5", "continue": "more"});
    let (mut events, paths) = scripted(vec![
        list(&["one"], &more),
        Script::expired(),
        list(&["one"], &json!({"resourceVersion": "8"})),
    ]);
    expect(&mut events, &["list", "listed one", "list failed"]).await;
    events.resume();
    expect(&mut events, &["list", "listed one", "listed all"]).await;
    assert!(!made(&paths)[2].contains("continue"), "{paths:?}");
}

/// `Value` does not parse it: see [`Raw`].
#[tokio::test(start_paused = true)]
async fn an_odd_object_keeps_no_others_away_and_can_be_deleted() {
    let mut odd = object("odd", "1");
    odd["spec"] = json!({"options": {"$serde_json::private::RawValue": "x"}});
    let items = [object("one", "1"), odd.clone(), object("two", "1")];
    let list = json!({"items": items, "metadata": {"resourceVersion": "5"}}).to_string();
    let (mut events, _) = scripted(vec![
        Script::of([list]),
        Script::of([watched("DELETED", &odd)]),
    ]);
    let expected = [
        "list",
        "listed one",
        "listed odd",
        "listed two",
        "listed all",
        "deleted odd",
    ];
    expect(&mut events, &expected).await;
}

#[tokio::test(start_paused = true)]
async fn what_has_no_version_is_listed_again() {
    let change = Script::of([watched("ADDED", &json!({"metadata": {"name": "one"}}))]);
    let (mut events, _) = scripted(vec![
        list(&[], &json!({})),
        list(&[], &json!({"resourceVersion": "5"})),
        change,
        list(&[], &json!({"resourceVersion": "5"})),
    ]);
    expect(&mut events, &["list", "no version"]).await;
    events.resume();
    expect(&mut events, &["list", "listed all", "no version"]).await;
    events.resume();
    expect(&mut events, &["list", "listed all"]).await;
}
