//! Failures of origins and clients that need more than a line of a table.

use crate::support::{Reply, on_every_pair, origin, raw};

on_every_pair! {
    fn a_truncated_response_head_is_a_bad_gateway(pair) {
        let origin = origin().replies(raw("HTTP/1.1 200 OK\r\nContent-Le").closes());
        let gateway = pair.gateway_to(&origin).start();
        pair.client(&gateway).gets("/").expects(502);
    }

    fn an_origin_that_closes_on_accept_is_502_or_503(pair) {
        for leaves in [Reply::at_once().closes(), Reply::at_once().resets()] {
            let origin = origin().on_accept(leaves);
            let gateway = pair.gateway_to(&origin).start();
            let answer = pair.client(&gateway).gets("/").reads();
            assert!(matches!(answer.status(), 502 | 503), "{answer}");
        }
    }

    fn a_reset_close_delimited_body_never_looks_complete(pair) {
        let origin = origin().replies(raw("HTTP/1.1 200 OK\r\n\r\nhalf").resets());
        let gateway = pair.gateway_to(&origin).start();
        let mut client = pair.client(&gateway);
        match client.gets("/").reply_to("GET") {
            Ok(whole) => assert_eq!(whole.status(), 502, "{whole}"),
            Err(cut) => assert!(cut.by_peer(), "{cut}"),
        }
    }

    fn a_flood_of_interim_responses_is_ended(pair) {
        let flood = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".repeat(5_000);
        let origin = origin().replies(raw(flood).stalls());
        let gateway = pair.gateway_to(&origin).start();
        let mut client = pair.client(&gateway);
        client.gets("/");
        loop {
            match client.reply_to("GET") {
                Ok(answer) if answer.status() == 103 => {}
                Ok(answer) => break assert_eq!(answer.status(), 502),
                Err(cut) => break assert!(cut.by_peer(), "{cut}"),
            }
        }
        origin.waits_for_hangup();
    }

    fn a_client_disconnect_cancels_the_upstream_request(pair) {
        let origin = origin().replies(Reply::at_once().stalls());
        let gateway = pair.gateway_to(&origin).start();
        let mut client = pair.client(&gateway);
        client.gets("/");
        origin.waits_for_requests(1);
        client.resets();
        origin.waits_for_hangup();
    }

    fn a_client_disconnect_during_the_response_cancels_the_upstream_request(pair) {
        let begun = Reply::at_once().sends("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
        let origin = origin().replies(begun.stalls());
        let gateway = pair.gateway_to(&origin).start();
        let mut client = pair.client(&gateway);
        client.gets("/").reads_head();
        client.resets();
        origin.waits_for_hangup();
    }
}
