//! The rest of a long response is spliced between the sockets. It ends like any other, and both
//! connections can be reused.

use crate::support::{
    ByteCounter, Gate, Reply, gateway, ok, on_both_drivers, origin, pattern, raw, same_bytes,
};

/// Far above the part that passes through buffers.
const LONG: usize = 3 << 20;

/// Every request is logged, with how it ended.
const LOGGED: &str = "accessLog: {sample: 1}";

fn head_of(length: usize) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n")
}

on_both_drivers! {
    fn connections_are_reused_after_long_responses(driver) {
        let body = pattern(LONG);
        let origin = origin().replies_to("/long", ok(&body));
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut client = gateway.client();
        for _ in 0..3 {
            same_bytes(&client.gets("/long").expects(200).body, &body);
            // A slow body needs a socket that can wait for readability.
            let gate = Gate::default();
            let reply = Reply::at_once().reads_the_body().waits_for(&gate).sends("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            origin.next_replies([reply]);
            client.sends("POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nfirst");
            client.sends("later");
            gate.open();
            assert_eq!(client.expects(200).text(), "ok");
        }
        assert_eq!(origin.connections(), 1);
    }

    fn responses_of_lengths_around_buffer_sizes_arrive_complete(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut client = gateway.client();
        for step in [20 << 10, 32 << 10, 52 << 10, 64 << 10, 84 << 10, 256 << 10_usize] {
            for length in [step - 200, step - 1, step, step + 1] {
                let body = pattern(length);
                origin.now_replies(ok(&body));
                same_bytes(&client.gets("/").expects(200).body, &body);
            }
        }
        assert_eq!(origin.connections(), 1);
    }

    fn a_response_in_parts_arrives_complete(driver) {
        let body = pattern(LONG);
        let (first, rest) = body.split_at(LONG / 3);
        let (second, third) = rest.split_at(LONG / 3);
        let gates = [Gate::default(), Gate::default()];
        let reply = Reply::at_once()
            .sends(head_of(LONG))
            .sends(first)
            .waits_for(&gates[0])
            .sends(second)
            .waits_for(&gates[1])
            .sends(third);
        let origin = origin().replies(reply);
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut client = gateway.client();
        let head = client.gets("/").reads_head();
        same_bytes(&client.reads_bytes(first.len()), first);
        gates[0].open();
        same_bytes(&client.reads_bytes(second.len()), second);
        gates[1].open();
        same_bytes(&client.reads_bytes(third.len()), third);
        assert_eq!(head.status(), 200);
        client.gets("/").reads_head();
    }

    fn a_truncated_response_is_truncated_for_the_client(driver) {
        for ends in [Reply::closes, Reply::cuts, Reply::resets] {
            let reply = Reply::at_once().sends(head_of(LONG)).sends(pattern(LONG / 2));
            let origin = origin().replies(ends(reply));
            let gateway = gateway(driver).routes_to(&origin).policy(LOGGED).start();
            let mut client = gateway.client();
            client.gets("/").expects_broken_response();
            gateway.waits_for_access_log("response_broken");
            gateway.client().gets("/").expects_broken_response();
        }
    }

    fn a_stalled_response_times_out(driver) {
        let reply = Reply::at_once().sends(head_of(LONG)).sends(pattern(LONG / 2)).stalls();
        let origin = origin().replies(reply);
        let gateway = gateway(driver)
            .routes_to(&origin)
            .policy_of("Gateway/gw/http", LOGGED)
            .limits("streamIdleTimeout: 500ms")
            .start();
        gateway.client().gets("/").expects_broken_response();
        gateway.waits_for_access_log("response_timeout");
    }

    fn a_client_disconnect_cancels_the_response(driver) {
        let sent = ByteCounter::default();
        let reply = Reply::at_once().sends(head_of(256 << 20)).pours(256 << 20, &sent);
        let origin = origin().replies(reply);
        let gateway = gateway(driver).routes_to(&origin).policy(LOGGED).start();
        let mut client = gateway.client();
        client.gets("/").reads_head();
        client.resets();
        origin.waits_for_hangup();
        gateway.waits_for_access_log("client_gone");
    }

    fn a_response_does_not_disturb_its_unfinished_request(driver) {
        let body = pattern(LONG);
        let (most, rest) = body.split_at(LONG - 10);
        let reply = Reply::at_once()
            .reads(5)
            .sends(head_of(LONG))
            .sends(most)
            .reads(5)
            .sends(rest);
        let origin = origin().replies(reply);
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut client = gateway.client();
        client.sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nfirst");
        client.reads_head();
        same_bytes(&client.reads_bytes(most.len()), most);
        client.sends("later");
        same_bytes(&client.reads_bytes(rest.len()), rest);
    }

    fn surplus_bytes_after_a_response_close_the_connection(driver) {
        let mut bytes = head_of(LONG).into_bytes();
        bytes.extend_from_slice(&pattern(LONG));
        bytes.extend_from_slice(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstray");
        let origin = origin().replies(raw(bytes));
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut client = gateway.client();
        for connections in 1..=2 {
            same_bytes(&client.gets("/").expects(200).body, &pattern(LONG));
            assert_eq!(origin.connections(), connections);
        }
    }
}
