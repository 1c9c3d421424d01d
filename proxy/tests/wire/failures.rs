//! Whatever an origin does, the client gets the response of the table of failures, and another
//! client of the same shard is not affected.

use crate::support::{
    Client, Driver, Gateway, Message, Origin, Reply, gateway, ok, on_both_drivers, origin, raw,
    refused, same_bytes,
};

/// A gateway that routes `/broken` to `broken` and everything else to a sound origin.
struct Scene {
    gateway: Gateway,
    _sound: Origin,
}

impl Scene {
    fn with(driver: Driver, broken: std::net::SocketAddr) -> Self {
        let sound = origin().replies(ok("sound"));
        let gateway = gateway(driver)
            .backend("broken", &[broken])
            .backend("sound", &[sound.address()])
            .rule("{matches: [{path: {value: /broken}}], backendRefs: [{@broken}]}")
            .rule("{backendRefs: [{@sound}]}")
            // Requests to the sound origin may be slow.
            .policy_of("Backend/broken", "limits: {responseHeadTimeout: 500ms}")
            .start();
        Self {
            gateway,
            _sound: sound,
        }
    }

    /// Sends a request to the broken origin while another client is served. Returns the result.
    #[track_caller]
    fn ask<T>(&self, ask: impl FnOnce(&mut Client) -> T) -> T {
        let mut neighbour = self.gateway.client();
        neighbour.gets("/").expects(200);
        let mut client = self.gateway.client();
        client.gets("/broken");
        neighbour.gets("/").expects(200);
        let answer = ask(&mut client);
        assert_eq!(neighbour.gets("/").expects(200).text(), "sound");
        answer
    }

    #[track_caller]
    fn expects(&self, status: u16) -> Message {
        let answer = self.ask(|client| {
            let answer = client.expects(status);
            // The client's connection is not at fault.
            client.gets("/").expects(200);
            answer
        });
        assert!(
            answer
                .value("content-type")
                .is_some_and(|kind| kind.starts_with("text/plain"))
        );
        assert_eq!(
            answer.text().lines().count(),
            1,
            "one line describes the failure"
        );
        answer
    }
}

on_both_drivers! {
    fn a_refused_connection_is_503(driver) {
        let (_socket, nobody) = refused();
        Scene::with(driver, nobody).expects(503);
    }

    fn the_rest_of_a_rejected_body_is_not_parsed_as_a_request(driver) {
        let (_socket, nobody) = refused();
        let sound = origin();
        for head in ["Content-Length: 60", "Transfer-Encoding: chunked"] {
            let gateway = gateway(driver)
                .backend("nobody", &[nobody])
                .backend("sound", &[sound.address()])
                .rule("{matches: [{path: {value: /nobody}}], backendRefs: [{@nobody}]}")
                .rule("{backendRefs: [{@sound}]}")
                .start();
            let mut client = gateway.client();
            let body = "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n";
            client.sends(format!("POST /nobody HTTP/1.1\r\nHost: a\r\n{head}\r\n\r\n28\r\n{body}"));
            client.expects(503);
            client.sends(body).expects_end();
            assert!(sound.requests().is_empty(), "after {head}");
        }
    }

    fn a_backend_that_does_not_exist_is_500(driver) {
        let sound = origin();
        let gateway = gateway(driver)
            .backend("sound", &[sound.address()])
            .rule(
                "{matches: [{path: {value: /broken}}], backendRefs: \
                 [{group: gateway-system.io, kind: Backend, name: nobody}]}",
            )
            .rule("{backendRefs: [{@sound}]}")
            .start();
        let mut client = gateway.client();
        client.gets("/broken").expects(500);
        client.gets("/").expects(200);
    }

    fn no_route_is_404(driver) {
        let sound = origin();
        let gateway = gateway(driver)
            .backend("sound", &[sound.address()])
            .rule("{matches: [{path: {value: /known}}], backendRefs: [{@sound}]}")
            .start();
        let mut client = gateway.client();
        client.gets("/unknown").expects(404);
        client.gets("/knownbutlonger").expects(404);
        client.gets("/known/below").expects(200);
    }

    fn an_origin_that_closes_without_a_response_is_502(driver) {
        let broken = origin().replies(Reply::at_once().reads_the_body().closes());
        Scene::with(driver, broken.address()).expects(502);
    }

    fn an_origin_that_resets_without_a_response_is_502(driver) {
        let broken = origin().replies(Reply::at_once().reads_the_body().resets());
        Scene::with(driver, broken.address()).expects(502);
    }

    fn an_origin_that_closes_at_once_is_502_or_503(driver) {
        let broken = origin().on_accept(Reply::at_once().closes());
        let scene = Scene::with(driver, broken.address());
        let answer = scene.ask(Client::reads);
        assert!(matches!(answer.status(), 502 | 503), "{answer}");
    }

    fn an_origin_that_resets_at_once_is_502_or_503(driver) {
        let broken = origin().on_accept(Reply::at_once().resets());
        let scene = Scene::with(driver, broken.address());
        let answer = scene.ask(Client::reads);
        assert!(matches!(answer.status(), 502 | 503), "{answer}");
    }

    fn a_malformed_response_is_502(driver) {
        let broken = origin().replies(raw("\u{1}\u{2}\u{3} this is not HTTP\r\n\r\n"));
        Scene::with(driver, broken.address()).expects(502);
    }

    fn a_truncated_response_head_is_502(driver) {
        let broken = origin().replies(raw("HTTP/1.1 200 OK\r\nContent-Le").closes());
        Scene::with(driver, broken.address()).expects(502);
    }

    fn an_endless_response_head_is_502(driver) {
        let endless = format!("HTTP/1.1 200 OK\r\nX-Long: {}", "a".repeat(200_000));
        let broken = origin().replies(raw(endless).stalls());
        Scene::with(driver, broken.address()).expects(502);
    }

    fn a_flood_of_interim_responses_is_ended(driver) {
        let flood = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".repeat(50_000);
        let broken = origin().replies(raw(flood).closes());
        let scene = Scene::with(driver, broken.address());
        scene.ask(|client| {
            loop {
                match client.reply_to("GET") {
                    Ok(answer) if answer.status() == 103 => {}
                    Ok(answer) => break assert_eq!(answer.status(), 502),
                    Err(cut) => break assert!(cut.by_peer(), "{cut}"),
                }
            }
        });
    }

    fn an_unresponsive_origin_is_504(driver) {
        let broken = origin().replies(Reply::at_once().stalls());
        Scene::with(driver, broken.address()).expects(504);
    }

    fn a_truncated_response_never_looks_complete(driver) {
        let halves = [
            "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n0\r\n",
        ];
        for half in halves {
            for ending in [raw(half).closes(), raw(half).resets()] {
                let broken = origin().replies(ending);
                let scene = Scene::with(driver, broken.address());
                let cut = scene.ask(Client::expects_broken_response);
                same_bytes(&cut.body, b"half".get(..cut.body.len()).unwrap_or_default());
            }
        }
    }

    fn a_reset_close_delimited_body_never_looks_complete(driver) {
        let broken = origin().replies(raw("HTTP/1.1 200 OK\r\n\r\nhalf").resets());
        let scene = Scene::with(driver, broken.address());
        scene.ask(Client::expects_broken_response);
    }

    fn a_failed_origin_affects_only_its_own_requests(driver) {
        let broken = origin().replies(Reply::at_once().stalls());
        let scene = Scene::with(driver, broken.address());
        let answer = scene.ask(|client| {
            broken.waits_for_requests(1);
            broken.stop();
            client.reads()
        });
        assert!(matches!(answer.status(), 502 | 503), "{answer}");
        scene.expects(503);
    }

    fn a_client_disconnect_cancels_the_upstream_request(driver) {
        let broken = origin().replies(Reply::at_once().stalls());
        let gateway = gateway(driver).routes_to(&broken).start();
        let mut client = gateway.client();
        client.gets("/broken");
        broken.waits_for_requests(1);
        client.resets();
        broken.waits_for_hangup();
    }
}
