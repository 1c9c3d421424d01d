//! Ten mebibytes each way, byte for byte.

use crate::support::{Framing, gateway, ok, on_both_drivers, origin, pattern, same_bytes};

const LARGE: usize = 10 << 20;

on_both_drivers! {
    fn a_large_request_arrives_complete(driver) {
        let body = pattern(LARGE);
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).start();
        gateway.client().posts("/", &body).expects(200);
        same_bytes(&origin.only_request().body, &body);
    }

    fn a_large_chunked_request_arrives_complete(driver) {
        let body = pattern(LARGE);
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut client = gateway.client();
        client.sends("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        // Odd sizes, so that chunks and buffers never end together.
        for chunk in body.chunks(77_777) {
            client.sends(format!("{:X};x\r\n", chunk.len())).sends(chunk).sends("\r\n");
        }
        client.sends("0\r\n\r\n").expects(200);
        same_bytes(&origin.only_request().body, &body);
    }

    fn a_large_response_arrives_complete(driver) {
        let body = pattern(LARGE);
        let origin = origin().replies(ok(&body));
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut client = gateway.client();
        for _ in 0..2 {
            let response = client.gets("/").expects(200);
            assert_eq!(response.framing, Framing::Length(LARGE as u64));
            same_bytes(&response.body, &body);
        }
    }

    fn a_large_close_delimited_response_arrives_complete(driver) {
        let body = pattern(LARGE);
        let mut bytes = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
        bytes.extend_from_slice(&body);
        let origin = origin().replies(crate::support::raw(bytes).closes());
        let gateway = gateway(driver).routes_to(&origin).start();
        let response = gateway.client().gets("/").expects(200);
        assert_eq!(response.framing, Framing::Chunked);
        same_bytes(&response.body, &body);
    }

    fn concurrent_large_bodies_are_not_mixed(driver) {
        let bodies: Vec<Vec<u8>> = (1..=8).map(|n| pattern(n * 131_071)).collect();
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).start();
        std::thread::scope(|scope| {
            for body in &bodies {
                let mut client = gateway.client();
                scope.spawn(move || client.posts("/", body).expects(200));
            }
        });
        let mut sizes: Vec<usize> = origin.requests().iter().map(|r| r.body.len()).collect();
        sizes.sort_unstable();
        assert_eq!(sizes, bodies.iter().map(Vec::len).collect::<Vec<_>>());
        for request in origin.requests() {
            same_bytes(&request.body, &pattern(request.body.len()));
        }
    }
}
