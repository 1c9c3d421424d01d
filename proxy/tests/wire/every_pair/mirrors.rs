//! Mirrored requests: several mirrors, a percentage, and a mirror that is stuck.

use crate::support::{Reply, on_every_pair, origin, pattern, same_bytes};

on_every_pair! {
    fn every_mirror_of_a_rule_gets_a_copy(pair) {
        let (origin, first, second) = (origin(), origin(), origin());
        let gateway = pair.backend(pair.gateway(), "origin", &[origin.address()]);
        let gateway = pair.backend(gateway, "first", &[first.address()]);
        let gateway = pair.backend(gateway, "second", &[second.address()])
            .rule(
                "{filters: [{type: RequestMirror, requestMirror: {backendRef: {@first}}}, \
                 {type: RequestMirror, requestMirror: {backendRef: {@second}}}], backendRefs: [{@origin}]}",
            )
            .start();
        let body = pattern(20_000);
        pair.client(&gateway).posts("/path", &body).expects(200);
        for copy in [&first, &second] {
            copy.waits_for_complete(1);
            same_bytes(&copy.only_request().body, &body);
        }
        assert_eq!(origin.only_request().target(), "/path");
    }

    fn a_mirrored_post_without_content_states_its_length(pair) {
        let (origin, mirror) = (origin(), origin());
        let gateway = pair.backend(pair.gateway(), "origin", &[origin.address()]);
        let gateway = pair.backend(gateway, "mirror", &[mirror.address()])
            .rule(
                "{filters: [{type: RequestMirror, requestMirror: {backendRef: {@mirror}}}], \
                 backendRefs: [{@origin}]}",
            )
            .start();
        pair.client(&gateway).sends("POST / HTTP/1.1\r\nHost: a.test\r\n\r\n").expects(200);
        mirror.waits_for_complete(1);
        assert_eq!(mirror.only_request().values("content-length"), ["0"]);
    }

    fn a_mirror_gets_its_percentage(pair) {
        let (origin, mirror) = (origin(), origin());
        let gateway = pair.backend(pair.gateway(), "origin", &[origin.address()]);
        let gateway = pair.backend(gateway, "mirror", &[mirror.address()])
            .rule(
                "{filters: [{type: RequestMirror, requestMirror: {backendRef: {@mirror}, percent: 50}}], \
                 backendRefs: [{@origin}]}",
            )
            .start();
        let mut client = pair.client(&gateway);
        for _ in 0..100 {
            client.gets("/").expects(200);
        }
        // Five standard deviations are 25.
        mirror.waits_for_requests(25);
        let copies = mirror.requests().len();
        assert!(copies <= 75, "{copies} of 100 at 50 %");
    }

    fn a_stuck_mirror_does_not_delay_requests(pair) {
        let (origin, stuck) = (origin(), origin().replies(Reply::at_once().stalls()));
        let gateway = pair.backend(pair.gateway(), "origin", &[origin.address()]);
        let gateway = pair.backend(gateway, "stuck", &[stuck.address()])
            .rule(
                "{filters: [{type: RequestMirror, requestMirror: {backendRef: {@stuck}}}], \
                 backendRefs: [{@origin}]}",
            )
            .start();
        let mut client = pair.client(&gateway);
        client.gets("/").expects(200);
        stuck.waits_for_requests(1);
        for _ in 0..3 {
            client.posts("/", pattern(200_000)).expects(200);
        }
        assert!(origin.requests()[1..].iter().all(|request| request.body.len() == 200_000));
    }
}
