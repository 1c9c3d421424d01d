use translate::api;
use xds::model::ObjectName;

use super::*;

fn route(name: &str) -> ObjectRef {
    ObjectRef::of::<api::HttpRoute>(&ObjectName::new("app", name))
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
