//! Upgrades: a tunnel after 101 and never before (Pingora CVE-2026-2833).

use std::time::Duration;

use crate::support::{Gate, Reply, gateway, ok, on_both_drivers, origin, raw};

const ASK: &str = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                   Sec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n";
const SWITCH: &str =
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";

on_both_drivers! {
    fn bytes_flow_both_ways_after_101(driver) {
        let origin = origin().replies(Reply::at_once().sends(SWITCH).echoes());
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut client = gateway.client();
        let answer = client.sends(ASK).reads_head();
        assert_eq!(answer.status(), 101);
        assert_eq!(answer.value("upgrade"), Some("websocket"));
        for message in ["hello", "GET / HTTP/1.1\r\n\r\n", "\0\r\n\u{ff}"] {
            assert_eq!(client.sends(message).reads_bytes(message.len()), message.as_bytes());
        }
        let request = origin.only_request();
        assert_eq!(request.value("upgrade"), Some("websocket"));
        assert_eq!(request.value("sec-websocket-key"), Some("x"));
    }

    fn either_side_may_close_the_tunnel(driver) {
        let origin = origin().replies(Reply::at_once().sends(SWITCH).echoes());
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut client = gateway.client();
        client.sends(ASK).reads_head();
        client.finishes().expects_close();
        origin.waits_for_hangup();

        origin.now_replies(Reply::at_once().sends(SWITCH).sends("bye").closes());
        let mut client = gateway.client();
        client.sends(ASK).reads_head();
        assert_eq!(client.reads_bytes(3), b"bye");
        client.expects_close();
    }

    fn bytes_sent_with_the_101_are_not_lost(driver) {
        let origin = origin().replies(Reply::at_once().sends(format!("{SWITCH}first words")).echoes());
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut client = gateway.client();
        client.sends(ASK).reads_head();
        assert_eq!(client.reads_bytes(11), b"first words");
    }

    fn no_bytes_are_tunnelled_before_101(driver) {
        let gate = Gate::default();
        let refuse = Reply::at_once().waits_for(&gate)
            .sends("HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n");
        let origin = origin().replies_to("/chat", refuse);
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut client = gateway.client();
        client.sends(ASK).sends("GET /smuggled HTTP/1.1\r\nHost: a\r\nX-Raw: 1\r\n\r\n");
        origin.waits_for_requests(1);
        gate.open();
        client.expects(403);
        // The bytes sent too early are a separate request (or the connection is closed): any of
        // them that reach an origin were parsed as a request.
        if client.reply_to("GET").is_ok() {
            let smuggled = origin.requests().pop().expect("it was answered");
            assert!(smuggled.has("X-Forwarded-For"), "passed on raw: {smuggled}");
        }
    }

    fn a_rejected_upgrade_leaves_an_ordinary_connection(driver) {
        let origin = origin().replies_once(ok("no upgrade here"));
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut client = gateway.client();
        assert_eq!(client.sends(ASK).expects(200).text(), "no upgrade here");
        client.gets("/next").expects(200);
    }

    fn a_101_to_another_protocol_is_a_bad_gateway(driver) {
        let switch = SWITCH.replace("websocket", "h2c");
        let origin = origin().replies(raw(switch));
        let gateway = gateway(driver).routes_to(&origin).start();
        gateway.client().sends(ASK).expects(502);
    }

    fn a_tunnel_outlives_the_timeouts_of_requests(driver) {
        let origin = origin().replies(Reply::at_once().sends(SWITCH).echoes());
        let gateway = gateway(driver)
            .routes_to(&origin)
            .limits("headTimeout: 1500ms, keepAliveTimeout: 1500ms, responseHeadTimeout: 1500ms")
            .start();
        let mut client = gateway.client();
        client.sends(ASK).reads_head();
        client.expects_silence_for(Duration::from_secs(2));
        assert_eq!(client.sends("late").reads_bytes(4), b"late");
    }

    fn a_request_with_a_body_is_not_upgraded(driver) {
        let origin = origin().replies_to("/chat", ok("no"));
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut client = gateway.client();
        client.sends(
            "POST /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Content-Length: 4\r\n\r\nbody",
        );
        client.expects(200);
        client.gets("/next").expects(200);
        assert_eq!(origin.requests()[0].text(), "body");
    }
}
