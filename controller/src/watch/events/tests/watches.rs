//! Watches, which follow the last page of a list.

use std::time::Duration;

use http::StatusCode;
use serde_json::json;
use tokio::time::Instant;

use super::{
    Script, WATCH_TIMEOUT, expect, expired, has, list, made, object, scripted, scripted_and_heard,
    settle, watched,
};
use crate::watch::heard::Heard;

#[tokio::test(start_paused = true)]
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
    let (mut events, paths) = scripted(vec![
        list(
            &["one"],
            &json!({"resourceVersion": "5", "continue": "more"}),
        ),
        list(&["two"], &json!({"resourceVersion": "5", "continue": ""})),
        Script::of(changes),
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
    let paths = made(&paths);
    let [first, second, watch, resumed] = &*paths else {
        panic!("{paths:?}");
    };
    assert!(has(first, "limit=50000") && !first.contains("continue"));
    assert!(has(second, "limit=50000") && has(second, "continue=more"));
    assert!(watch.contains("resourceVersion=5"), "{watch}");
    assert!(resumed.contains("resourceVersion=9"), "{resumed}");
    for watch in [watch, resumed] {
        assert!(watch.contains("watch=true") && watch.contains("timeoutSeconds=60"));
        assert!(watch.contains("allowWatchBookmarks=true"), "{watch}");
    }
    for path in &paths {
        assert!(path.contains("fieldSelector=type%21%3Dnone"), "{path}");
    }
}

/// Its receiver then lists with new events.
#[tokio::test(start_paused = true)]
async fn a_watch_of_an_expired_version_is_reported() {
    let (mut events, _) = scripted(vec![
        list(&[], &json!({"resourceVersion": "5"})),
        Script::expired(),
    ]);
    let expected = ["list", "listed all", "watch refused 410"];
    expect(&mut events, &expected).await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_fails_continues_where_it_was() {
    let (mut events, paths) = scripted(vec![
        list(&[], &json!({"resourceVersion": "5"})),
        Script::of([watched("ADDED", &object("one", "6"))]).breaks(),
        Script::of([watched("ERROR", &expired())]),
    ]);
    let expected = ["list", "listed all", "changed one", "watch failed"];
    expect(&mut events, &expected).await;
    events.resume();
    // Its receiver then lists with new events.
    expect(&mut events, &["error 410"]).await;
    assert!(made(&paths)[2].contains("resourceVersion=6"));
}

/// One of them may correct the object.
#[tokio::test(start_paused = true)]
async fn an_event_that_cannot_be_parsed_does_not_keep_later_ones_away() {
    let lines = [
        "{\"type\": \"ADDED\", \"object\": 5}\n".to_owned(),
        watched("MODIFIED", &object("one", "7")),
    ];
    let (mut events, _) = scripted(vec![
        list(&[], &json!({"resourceVersion": "5"})),
        Script::of(lines).stays_open(),
    ]);
    let expected = ["list", "listed all", "an event cannot be parsed"];
    expect(&mut events, &expected).await;
    events.resume();
    expect(&mut events, &["changed one"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_replaced() {
    let (mut events, paths) = scripted(vec![
        list(&[], &json!({"resourceVersion": "5"})),
        Script::of([]).stays_open(),
        Script::of([watched("ADDED", &object("one", "6"))]),
    ]);
    let started = Instant::now();
    expect(&mut events, &["list", "listed all", "changed one"]).await;
    assert!(started.elapsed() >= WATCH_TIMEOUT);
    assert!(made(&paths)[2].contains("resourceVersion=5"));
}

#[tokio::test(start_paused = true)]
async fn watches_that_end_at_once_are_repeated_every_second() {
    let empty = (0..10).map(|_| Script::of([]));
    let change = Script::of([watched("ADDED", &object("one", "6"))]);
    let scripts = std::iter::once(list(&[], &json!({"resourceVersion": "5"})));
    let (mut events, _) = scripted(scripts.chain(empty).chain([change]).collect());
    let started = Instant::now();
    expect(&mut events, &["list", "listed all", "changed one"]).await;
    // The first one may have been interrupted.
    assert_eq!(started.elapsed().as_secs(), 9);
}

/// A watch of a quiet kind that replaces one with a broken connection may have no event for a minute.
#[tokio::test(start_paused = true)]
async fn the_start_of_a_watch_is_heard() {
    let heard = Heard::default();
    let scripts = vec![
        list(&[], &json!({"resourceVersion": "5"})),
        Script::of([]).breaks(),
        Script::of([]).stays_open(),
    ];
    let (mut events, paths) = scripted_and_heard(scripts, &heard);
    expect(&mut events, &["list", "listed all", "watch failed"]).await;
    heard.set_silence(WATCH_TIMEOUT);
    events.resume();
    settle().await;
    assert_eq!(made(&paths).len(), 3);
    assert_eq!(heard.silence(), Duration::ZERO);
}

/// Otherwise a replica that knows what it may no longer read would send its proxies to one that does not.
#[tokio::test(start_paused = true)]
async fn a_refusal_is_heard_but_not_a_failure_of_the_api_server() {
    for (code, is_heard) in [(403, true), (429, true), (401, false), (500, false)] {
        let heard = Heard::default();
        let refused = || Script {
            status: StatusCode::from_u16(code).expect("a status"),
            ..Script::of([json!({"kind": "Status", "code": code}).to_string()])
        };
        heard.set_silence(WATCH_TIMEOUT);
        let (mut events, _) = scripted_and_heard(vec![refused()], &heard);
        expect(&mut events, &["list", "list failed"]).await;
        assert_eq!(heard.silence() < WATCH_TIMEOUT, is_heard, "list, {code}");

        let listed = list(&[], &json!({"resourceVersion": "5"}));
        let scripts = vec![listed, Script::of([]).breaks(), refused()];
        let (mut events, _) = scripted_and_heard(scripts, &heard);
        expect(&mut events, &["list", "listed all", "watch failed"]).await;
        heard.set_silence(WATCH_TIMEOUT);
        events.resume();
        expect(&mut events, &[&format!("watch refused {code}")]).await;
        assert_eq!(heard.silence() < WATCH_TIMEOUT, is_heard, "watch, {code}");
    }
}
