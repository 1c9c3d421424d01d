use translate::api;
use xds::model::ObjectName;

use super::*;

fn route(name: &str) -> ObjectRef {
    ObjectRef::of::<api::HttpRoute>(&ObjectName::new("app", name))
}

fn route_in(namespace: &str, name: &str) -> ObjectRef {
    ObjectRef::of::<api::HttpRoute>(&ObjectName::new(namespace, name))
}

fn gateway() -> ObjectRef {
    ObjectRef::of::<api::Gateway>(&ObjectName::new("infra", "edge"))
}

fn after(start: Instant, millis: u64) -> Instant {
    start + Duration::from_millis(millis)
}

#[test]
fn the_first_write_is_immediate_and_the_next_follows_the_spacing() {
    let (mut queue, start) = (Queue::default(), Instant::now());
    queue.push(&route("a"), start);
    assert_eq!(queue.next(start), NextAction::Take(route("a")));
    queue.push(&route("a"), start);
    queue.done(&route("a"), Outcome::Written(1), start);
    assert_eq!(queue.next(start), NextAction::At(after(start, 500)));
    assert_eq!(queue.next(after(start, 500)), NextAction::Take(route("a")));
    queue.done(&route("a"), Outcome::Unchanged, after(start, 500));
    assert_eq!(queue.next(after(start, 500)), NextAction::Idle);
}

#[test]
fn gateways_are_written_first() {
    let (mut queue, start) = (Queue::default(), Instant::now());
    queue.push(&route("a"), start);
    queue.push(&gateway(), start);
    assert_eq!(queue.next(start), NextAction::Take(gateway()));
    assert_eq!(queue.next(start), NextAction::Take(route("a")));
}

#[test]
fn repeated_writes_of_an_object_are_delayed_exponentially() {
    let (mut queue, start) = (Queue::default(), Instant::now());
    let mut now = start;
    let mut waits = Vec::new();
    for _ in 0..10 {
        queue.push(&route("a"), now);
        if let NextAction::At(at) = queue.next(now) {
            waits.push((at - now).as_millis());
            now = at;
            assert_eq!(queue.next(now), NextAction::Take(route("a")));
        }
        queue.done(&route("a"), Outcome::Written(1), now);
    }
    let expected = [
        500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000,
    ];
    assert_eq!(waits, expected);
    // The desired status changed: the delay is reset.
    queue.push(&route("a"), after(now, 60_000));
    assert_eq!(queue.next(after(now, 60_000)), NextAction::Take(route("a")));
    queue.done(&route("a"), Outcome::Written(2), after(now, 60_000));
    queue.push(&route("a"), after(now, 60_000));
    assert_eq!(
        queue.next(after(now, 60_000)),
        NextAction::At(after(now, 60_500))
    );
}

#[test]
fn a_conflicting_write_is_retried_after_the_watch_event() {
    let (mut queue, start) = (Queue::default(), Instant::now());
    queue.push(&route("a"), start);
    assert_eq!(queue.next(start), NextAction::Take(route("a")));
    queue.done(&route("a"), Outcome::Conflict { is_known: false }, start);
    queue.push(&route("a"), start);
    assert_eq!(queue.next(start), NextAction::At(after(start, 60_000)));
    queue.observed(&route("a"), after(start, 3));
    assert_eq!(queue.next(after(start, 3)), NextAction::Take(route("a")));
    queue.done(
        &route("a"),
        Outcome::Conflict { is_known: true },
        after(start, 3),
    );
    assert_eq!(
        queue.next(after(start, 3)),
        NextAction::At(after(start, 503))
    );
}

#[test]
fn at_most_eight_writes_are_in_flight_and_fewer_when_throttled() {
    let (mut queue, start) = (Queue::default(), Instant::now());
    let names: Vec<ObjectRef> = (0..20).map(|it| route(&it.to_string())).collect();
    for name in &names {
        queue.push(name, start);
    }
    for name in &names[..8] {
        assert_eq!(queue.next(start), NextAction::Take(name.clone()));
    }
    assert_eq!(queue.next(start), NextAction::Idle);
    queue.done(
        &names[0],
        Outcome::Throttled(Some(Duration::from_secs(5))),
        start,
    );
    for name in &names[1..8] {
        queue.done(name, Outcome::Written(1), start);
    }
    assert_eq!(queue.next(start), NextAction::At(after(start, 5_000)));
    let then = after(start, 5_000);
    // Halved, then one more for four writes.
    for name in &names[8..13] {
        assert_eq!(queue.next(then), NextAction::Take(name.clone()));
    }
    assert_eq!(queue.next(then), NextAction::Idle);
}

#[test]
fn an_unavailable_api_server_is_retried_with_backoff() {
    let (mut queue, start) = (Queue::default(), Instant::now());
    queue.push(&route("a"), start);
    let mut now = start;
    let mut waits = Vec::new();
    for _ in 0..8 {
        if let NextAction::At(at) = queue.next(now) {
            waits.push((at - now).as_millis());
            now = at;
            assert_eq!(queue.next(now), NextAction::Take(route("a")));
        }
        queue.done(&route("a"), Outcome::Unavailable, now);
    }
    assert_eq!(waits, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000]);
    assert_eq!(queue.backlog(), 1);
}

/// Takes the next object, which must be this one.
fn take(queue: &mut Queue, object: &ObjectRef, now: Instant) {
    assert_eq!(queue.next(now), NextAction::Take(object.clone()));
}

#[test]
fn an_object_that_fails_delays_itself_more_each_time_and_no_other() {
    for outcome in [Outcome::Failed, Outcome::Refused] {
        let (mut queue, start) = (Queue::default(), Instant::now());
        let (mut now, mut waits) = (start, Vec::new());
        queue.push(&route("a"), now);
        for count in 0..11 {
            take(&mut queue, &route("a"), now);
            queue.done(&route("a"), outcome, now);
            let other = route(&count.to_string());
            queue.push(&other, now);
            take(&mut queue, &other, now);
            queue.done(&other, Outcome::Written(1), now);
            if let NextAction::At(at) = queue.next(now) {
                waits.push((at - now).as_secs());
                now = at;
            }
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!(queue.failing_for(&route("a"), now), Some(now - start));
        assert_eq!(queue.failing(), 1);
        take(&mut queue, &route("a"), now);
        queue.done(&route("a"), Outcome::Unchanged, now);
        assert_eq!(
            (queue.failing_for(&route("a"), now), queue.failing()),
            (None, 0)
        );
    }
}

#[test]
fn a_change_of_an_object_that_fails_is_tried_at_once_and_then_in_intervals() {
    let (mut queue, start) = (Queue::default(), Instant::now());
    queue.push(&route("a"), start);
    take(&mut queue, &route("a"), start);
    queue.done(&route("a"), Outcome::Refused, start);
    // Nothing has changed.
    queue.compare(&route("a"), start);
    assert_eq!(queue.next(start), NextAction::At(after(start, 1_000)));
    queue.push(&route("a"), after(start, 100));
    assert_eq!(
        queue.next(after(start, 100)),
        NextAction::At(after(start, 500))
    );
    take(&mut queue, &route("a"), after(start, 500));
    // It changed while it was processed.
    queue.push(&route("a"), after(start, 500));
    queue.done(&route("a"), Outcome::Refused, after(start, 500));
    assert_eq!(
        queue.next(after(start, 500)),
        NextAction::At(after(start, 1_000))
    );
}

/// Eight new objects in a row that the API server failed at paused all for half a second, again and again.
#[test]
fn objects_that_fail_pause_no_others_however_many_they_are() {
    for outcome in [Outcome::Failed, Outcome::Refused] {
        for namespaces in [1, 20] {
            let (mut queue, start) = (Queue::default(), Instant::now());
            let names: Vec<ObjectRef> = (0..100)
                .map(|it| route_in(&format!("tenant-{}", it % namespaces), &it.to_string()))
                .collect();
            for (count, name) in names.iter().enumerate() {
                queue.push(name, start);
                take(&mut queue, name, start);
                queue.done(name, outcome, start);
                let quiet = route_in("quiet", &count.to_string());
                queue.push(&quiet, start);
                take(&mut queue, &quiet, start);
                queue.done(&quiet, Outcome::Unchanged, start);
            }
            // Each delays itself.
            assert_eq!(queue.next(start), NextAction::At(after(start, 1_000)));
            assert_eq!((queue.failing(), queue.backlog()), (100, 100));
            // What is new comes before what failed.
            let then = after(start, 1_000);
            queue.push(&route("new"), then);
            take(&mut queue, &route("new"), then);
        }
    }
}

/// What a tenant's objects cause says nothing about the API server, which may not have recovered either.
#[test]
fn only_an_api_server_that_is_away_pauses_all() {
    for (outcome, is_pausing) in [
        (Outcome::Unavailable, true),
        (Outcome::Throttled(None), true),
        (Outcome::Failed, false),
        (Outcome::Refused, false),
        (Outcome::Conflict { is_known: false }, false),
        (Outcome::Unfinished, false),
    ] {
        let (mut queue, start) = (Queue::default(), Instant::now());
        queue.push(&route("a"), start);
        take(&mut queue, &route("a"), start);
        queue.push(&route("b"), start);
        queue.done(&route("a"), outcome, start);
        let next = queue.next(start);
        let is_paused = matches!(next, NextAction::At(_));
        assert_eq!(is_paused, is_pausing, "{outcome:?}: {next:?}");
    }
}

#[test]
fn an_object_without_a_response_lets_others_go_first() {
    let (mut queue, start) = (Queue::default(), Instant::now());
    queue.push(&route("a"), start);
    take(&mut queue, &route("a"), start);
    queue.push(&route("b"), start);
    queue.done(&route("a"), Outcome::Unavailable, start);
    assert_eq!(queue.next(start), NextAction::At(after(start, 500)));
    take(&mut queue, &route("b"), after(start, 500));
}

#[test]
fn what_is_unfinished_is_tried_again_after_five_seconds() {
    let (mut queue, start) = (Queue::default(), Instant::now());
    queue.push(&route("a"), start);
    take(&mut queue, &route("a"), start);
    queue.done(&route("a"), Outcome::Unfinished, start);
    assert_eq!(queue.next(start), NextAction::At(after(start, 5_000)));
    assert_eq!(queue.failing(), 0);
    // What it waits for may never come: the intervals grow, up to a minute.
    let mut now = start;
    for expected in [5, 10, 20, 40, 60, 60] {
        let NextAction::At(at) = queue.next(now) else {
            panic!("it waits");
        };
        assert_eq!(at - now, Duration::from_secs(expected));
        now = at;
        take(&mut queue, &route("a"), now);
        queue.done(&route("a"), Outcome::Unfinished, now);
    }
    // Something else begins with the first one again.
    let NextAction::At(at) = queue.next(now) else {
        panic!("it waits");
    };
    take(&mut queue, &route("a"), at);
    queue.done(&route("a"), Outcome::Unchanged, at);
    queue.push(&route("a"), at);
    take(&mut queue, &route("a"), at);
    queue.done(&route("a"), Outcome::Unfinished, at);
    assert_eq!(queue.next(at), NextAction::At(at + Duration::from_secs(5)));
}

#[tokio::test]
async fn a_panic_ends_its_task_alone_and_is_counted() {
    let metrics = crate::metrics::Metrics::default();
    let mut tasks = Tasks::new(QueueMeasures::new(&metrics).of("status"));
    tasks.start(route("a"), async { panic!("a defect") });
    tasks.start(route("b"), async { 1 });
    let mut results = BTreeMap::new();
    while let Some((object, result)) = tasks.next().await {
        results.insert(object.name.name.to_string(), result);
    }
    assert_eq!(results["b"], Ok(1));
    let panic = results.remove("a").expect("a result").expect_err("a panic");
    assert_eq!(panic.to_string(), "a defect");
    let step = tasks.run(&route("c"), || panic!("number {}", 1));
    let step: Result<(), _> = step;
    assert_eq!(step.expect_err("a panic").to_string(), "number 1");
    let expected = "gateway_controller_write_panics_total{writer=\"status\"} 2\n";
    assert!(metrics.text().contains(expected), "{}", metrics.text());
}

#[test]
fn removed_objects_are_dropped_from_the_queue() {
    let (mut queue, start) = (Queue::default(), Instant::now());
    for name in ["a", "b", "c"] {
        queue.push(&route(name), start);
    }
    queue.forget(&route("b"));
    assert_eq!(queue.next(start), NextAction::Take(route("a")));
    queue.done(&route("a"), Outcome::Written(1), start);
    queue.push(&route("a"), start);
    queue.forget(&route("a"));
    assert_eq!(queue.next(start), NextAction::Take(route("c")));
    queue.done(&route("c"), Outcome::Unchanged, start);
    queue.forget(&route("c"));
    assert_eq!((queue.next(start), queue.backlog()), (NextAction::Idle, 0));
}
