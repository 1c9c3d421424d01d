//! Clients that half-close early still get their responses.

use std::time::{Duration, Instant};

use super::metrics::waits_for_count;
use crate::support::pki::authority;
use crate::support::{Gate, Reply, gateway, on_both_drivers, origin, tls};

/// How often the gateway checks during a response whether its client is connected.
const CLIENT_CHECK_INTERVAL: Duration = Duration::from_secs(5);

on_both_drivers! {
    fn a_half_closed_client_gets_its_response(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut client = gateway.client();
        client.gets("/").finishes().expects(200);
        client.expects_close();
    }

    fn a_half_closed_client_of_a_slow_origin_gets_its_response(driver) {
        let gate = Gate::default();
        let slow = Reply::at_once().reads_the_body().waits_for(&gate)
            .sends("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nslow");
        let origin = origin().replies(slow);
        let gateway = gateway(driver).routes_to(&origin).start();
        let (mut whole, mut split) = (gateway.client(), gateway.client());
        whole.posts("/", "body").finishes();
        split.sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbo");
        origin.waits_for_requests(2);
        split.sends("dy").finishes();
        origin.waits_for_complete(2);
        // Several checks whether the clients are there.
        whole.expects_silence_for(Duration::from_millis(500));
        gate.open();
        for mut client in [whole, split] {
            assert_eq!(client.expects(200).text(), "slow");
            client.expects_close();
        }
    }

    fn a_half_closed_client_gets_a_response_that_pauses(driver) {
        let gate = Gate::default();
        let origin = origin().replies(Reply::at_once()
            .sends("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nfirs").waits_for(&gate).sends("t, l"));
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut client = gateway.client();
        let head = client.gets("/").finishes().reads_head();
        assert_eq!(client.reads_bytes(4), b"firs");
        // One check whether the client is there.
        client.expects_silence_for(CLIENT_CHECK_INTERVAL + Duration::from_secs(1));
        gate.open();
        assert_eq!((head.status(), client.reads_bytes(4)), (200, b"t, l".to_vec()));
    }

    fn a_half_closed_client_is_given_up_after_its_timeout(driver) {
        let origin = origin().replies(Reply::at_once().reads_the_body().stalls());
        let gateway = gateway(driver).routes_to(&origin).limits("halfCloseTimeout: 1s").start();
        let begun = Instant::now();
        let mut client = gateway.client();
        client.posts("/", "body").finishes();
        origin.waits_for_complete(1);
        origin.waits_for_hangup();
        assert!(begun.elapsed() >= Duration::from_millis(900), "after {:?}", begun.elapsed());
        client.expects_end();
    }

    /// The socket can be read until the byte is, which may only happen after the response.
    fn a_byte_behind_the_request_does_not_hide_the_end(driver) {
        let origin = origin().replies(Reply::at_once().reads_the_body().stalls());
        let gateway = gateway(driver).routes_to(&origin)
            .limits("responseHeadTimeout: 1h, halfCloseTimeout: 1s").start();
        let mut client = gateway.client();
        client.posts("/", "body");
        origin.waits_for_complete(1);
        client.sends("G").finishes();
        origin.waits_for_hangup();
        client.expects_end();
    }

    fn a_request_behind_the_first_is_answered_after_the_end(driver) {
        let gate = Gate::default();
        let slow = Reply::at_once().reads_the_body().waits_for(&gate)
            .sends("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nslow");
        let origin = origin().replies_once(slow);
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut client = gateway.client();
        client.posts("/", "body");
        origin.waits_for_complete(1);
        client.gets("/next").finishes();
        // Several checks whether the client is there.
        client.expects_silence_for(Duration::from_millis(500));
        gate.open();
        assert_eq!(client.expects(200).text(), "slow");
        client.expects(200);
        client.expects_close();
    }

    /// A client that is gone looks the same until something is sent to it, and holds a connection to an
    /// endpoint.
    fn at_most_a_quarter_of_the_connections_may_be_half_closed(driver) {
        let origin = origin().replies(Reply::at_once().reads_the_body().stalls());
        // Of the files, it keeps half for itself, as it has few, and of the others half for its bind and for endpoints.
        let room = 400 / 2 / 2;
        let gateway = gateway(driver).routes_to(&origin).open_files(400)
            .limits("upstreamConnections: 100, responseHeadTimeout: 1h, halfCloseTimeout: 1h")
            .inspected().start();
        let half_closed = || {
            let mut client = gateway.client();
            client.posts("/", "body").finishes();
            client
        };
        let mut oldest = half_closed();
        waits_for_count(&gateway, "gateway_shard_half_closed_connections", "", 1.0);
        let share = room / 4;
        let mut others: Vec<_> = (0..share).map(|_| half_closed()).collect();
        oldest.expects_end();
        waits_for_count(&gateway, "gateway_shard_half_closed_connections", "", f64::from(share));
        for client in &mut others {
            client.expects_silence_for(Duration::from_millis(1));
        }
        others.clear();
    }

    fn a_reset_after_the_end_is_a_disconnect(driver) {
        let origin = origin().replies(Reply::at_once().reads_the_body().stalls());
        let gateway = gateway(driver).routes_to(&origin).limits("halfCloseTimeout: 1h").start();
        let mut client = gateway.client();
        client.posts("/", "body").finishes();
        origin.waits_for_complete(1);
        client.expects_silence();
        client.resets();
        origin.waits_for_hangup();
    }

    /// With TLS, a client that only ends its requests says so (RFC 8446 section 6.1), and one that closes
    /// its socket as well is gone.
    fn a_close_alert_with_the_end_of_the_connection_is_a_disconnect(driver) {
        let ca = authority("ca");
        let origin = origin().replies(Reply::at_once().reads_the_body().stalls());
        let gateway = gateway(driver)
            .https("web", None, &[&ca.server(&["a.test"])])
            .backend("origin", &[origin.address()])
            .rule_of("web", "{backendRefs: [{@origin}]}")
            .start();
        for cut in [false, true] {
            let mut client = gateway.tls_client(&tls(&ca, "a.test").offers(&["http/1.1"]));
            client.posts("/", "body");
            origin.waits_for_complete(usize::from(cut) + 1);
            if cut { client.cuts() } else { client.finishes() };
            origin.waits_for_hangup();
        }
    }

    fn pipelined_requests_before_the_end_are_all_answered(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut client = gateway.client();
        client.gets("/1").gets("/2").posts("/3", "body").finishes();
        for _ in 0..3 {
            client.expects(200);
        }
        client.expects_close();
        assert_eq!(origin.requests().len(), 3);
    }

    fn a_request_cut_short_is_never_completed_for_the_client(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut client = gateway.client();
        client.sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf").finishes();
        match client.reply_to("POST") {
            Ok(answer) => assert_eq!(answer.status(), 400),
            Err(cut) => assert!(cut.by_peer() && cut.is_empty(), "{cut}"),
        }
        origin.waits_for_hangup();
        assert!(origin.requests().iter().all(|request| !request.complete));
    }

    fn a_client_disconnect_ends_an_idle_stream(driver) {
        let origin = origin().replies(Reply::at_once()
            .sends("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n").stalls());
        let gateway = gateway(driver).routes_to(&origin).limits("halfCloseTimeout: 1s").start();
        let mut client = gateway.client();
        client.gets("/").reads_head();
        drop(client);
        origin.waits_for_hangup();
    }

    fn a_client_disconnect_after_a_split_body_cancels_the_request(driver) {
        let origin = origin().replies(Reply::at_once().reads_the_body().stalls());
        let gateway = gateway(driver).routes_to(&origin).limits("responseHeadTimeout: 1h, halfCloseTimeout: 1s").start();
        let mut client = gateway.client();
        client.sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nha");
        origin.waits_for_requests(1);
        client.sends("lf");
        origin.waits_for_complete(1);
        drop(client);
        origin.waits_for_hangup();
    }
}
