//! A gateway that has too many clients gives up a little more with each of them, in order.

use std::time::{Duration, Instant};

use super::metrics::waits_for_count;
use crate::support::{
    Client, Driver, Gate, Gateway, GatewayBuilder, Message, Origin, PATIENCE, Reply, gateway,
    on_both_drivers, origin,
};

/// A gateway with 300 files, of which it keeps 128 for itself, two for its bind, and ten for its
/// backend, which takes so many connections. The rest is for clients.
fn small(driver: Driver, origin: &Origin) -> GatewayBuilder {
    gateway(driver)
        .routes_to(origin)
        .limits("upstreamConnections: 10")
        .open_files(300)
}

const ROOM: usize = 300 - 128 - 2 - 10;

/// So many clients that have a connection and a response.
fn served(gateway: &Gateway, count: usize) -> Vec<Client> {
    let client = |_| {
        let mut client = gateway.client();
        client.gets("/").expects(200);
        client
    };
    (0..count).map(client).collect()
}

/// Asks again and again, until there is such a response.
pub(super) fn until(
    mut ask: impl FnMut() -> Message,
    wanted: impl Fn(&Message) -> bool,
) -> Message {
    let begun = Instant::now();
    loop {
        let response = ask();
        if wanted(&response) {
            return response;
        }
        assert!(begun.elapsed() < PATIENCE * 6, "only {response}");
    }
}

fn is_refused(response: &Message) -> bool {
    response.status() == 503 && response.has("retry-after")
}

on_both_drivers! {
    fn clients_get_the_descriptors_that_upstreams_do_not_need(driver) {
        let origin = origin();
        let gateway = small(driver, &origin).start();
        let clients = served(&gateway, ROOM - 10);
        // The old share of 45 % was over long before.
        assert!(clients.len() > 300 * 45 / 100);
    }

    fn connections_end_with_their_response_when_room_gets_scarce(driver) {
        let origin = origin();
        let gateway = small(driver, &origin).start();
        let mut early = gateway.client();
        assert!(!early.gets("/").expects(200).says_close());
        let _others: Vec<_> = (0..ROOM * 88 / 100).map(|_| gateway.client()).collect();
        let begun = Instant::now();
        while !gateway.client().gets("/").expects(200).says_close() {
            assert!(begun.elapsed() < PATIENCE, "all of them are accepted by and by");
        }
        assert!(early.gets("/").expects(200).says_close());
        early.expects_close();
    }

    fn idle_connections_end_soon_when_there_is_hardly_room(driver) {
        let origin = origin();
        let gateway = small(driver, &origin).start();
        let mut idle = gateway.client();
        idle.gets("/").expects(200);
        let mut others = served(&gateway, ROOM * 70 / 100);
        others.extend((0..ROOM * 25 / 100).map(|_| gateway.client()));
        let begun = Instant::now();
        idle.expects_close();
        // Otherwise it would have a minute.
        assert!(begun.elapsed() < PATIENCE, "after {:?}", begun.elapsed());
    }

    fn who_finds_no_room_waits_and_is_served(driver) {
        let origin = origin();
        let gateway = small(driver, &origin).limits("keepAliveTimeout: 60s").start();
        let held: Vec<_> = (0..ROOM + 20).map(|_| gateway.client()).collect();
        let mut late = gateway.client();
        late.gets("/").expects_silence_for(Duration::from_millis(300));
        drop(held);
        late.expects(200);
    }

    fn a_pause_of_accepting_is_counted_once(driver) {
        let origin = origin();
        let gateway = small(driver, &origin).limits("keepAliveTimeout: 60s").inspected().start();
        let held: Vec<_> = (0..ROOM + 20).map(|_| gateway.client()).collect();
        let mut late = gateway.client();
        // Several times as long as the accept loops pause before they look again.
        late.gets("/").expects_silence_for(Duration::from_millis(600));
        waits_for_count(&gateway, "gateway_shard_accept_pauses_total", "", 1.0);
        drop(held);
        late.expects(200);
    }

    fn without_descriptors_for_backends_requests_are_refused_for_a_while(driver) {
        let gate = Gate::default();
        let held = Reply::at_once().waits_for(&gate).sends("HTTP/1.1 204 No\r\n\r\n");
        let origin = origin().replies_to("/held", held);
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut clients = served(&gateway, 20);
        let mut first = gateway.client();
        // It has the only connection to the origin.
        first.gets("/held");
        origin.waits_for_requests(21);
        gateway.may_open_files(false);
        // The first one finds out, and those after it are not tried.
        let mut answers = clients.iter_mut().map(|client| client.gets("/").expects(503));
        let refused = answers.find(is_refused).expect("a refusal within a second");
        assert_eq!(refused.value("retry-after"), Some("1"));
        assert_eq!(origin.requests().len(), 21);
        gateway.may_open_files(true);
        until(|| gateway.client().gets("/").reads(), |response| response.status() == 200);
        gate.open();
        first.expects(204);
    }
}
