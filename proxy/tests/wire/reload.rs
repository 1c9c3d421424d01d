//! A changed configuration is soon in force, and no request fails because of the change.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::support::{Gateway, TIMEOUT, gateway, ok, on_both_drivers, origin};

/// With both drivers, a thousand.
const CHANGES: usize = 500;

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sends requests on new connections until one gets this response.
#[track_caller]
fn waits_for_body(gateway: &Gateway, body: &str) {
    let deadline = std::time::Instant::now() + TIMEOUT;
    loop {
        let answer = gateway.client().gets("/").reads();
        if answer.text() == body {
            return;
        }
        assert!(
            std::time::Instant::now() < deadline,
            "still {answer}\n{}",
            gateway.log()
        );
    }
}

on_both_drivers! {
    fn a_change_under_load_fails_no_request(driver) {
        let (old, new) = (origin().replies(ok("old")), origin().replies(ok("new")));
        let base = gateway(driver)
            .backend("old", &[old.address()])
            .backend("new", &[new.address()])
            .shards(2);
        let (before, after) = (
            base.clone().rule("{backendRefs: [{@old}]}"),
            base.rule("{backendRefs: [{@new}]}"),
        );
        let gateway = before.clone().start();
        let (stop, served) = (AtomicBool::new(false), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut client = gateway.client();
                    while !stop.load(Ordering::Relaxed) {
                        client.gets("/").expects(200);
                        served.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            for _ in 0..5 {
                gateway.reconfigure(&after);
                waits_for_body(&gateway, "new");
                gateway.reconfigure(&before);
                waits_for_body(&gateway, "old");
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert!(served.into_inner() > 0);
    }

    fn hundreds_of_changes_under_load_fail_no_request_and_keep_no_memory(driver) {
        let origin = origin();
        let builders = ["/a", "/b"].map(|path| {
            let rule = format!("{{matches: [{{path: {{value: {path}}}}}], backendRefs: [{{@origin}}]}}");
            gateway(driver).routes_to(&origin).rule(&rule).shards(2)
        });
        let gateway = builders[0].clone().start();
        let texts = builders.map(|builder| builder.yaml(gateway.ports()));
        let stop = AtomicBool::new(false);
        let change = |numbers: std::ops::Range<usize>| {
            for number in numbers {
                gateway.rewrite(&texts[(number + 1) % 2]);
                gateway.waits_for_applied(number + 2);
            }
            gateway.anonymous_bytes()
        };
        std::thread::scope(|scope| {
            let _ends = StopOnDrop(&stop);
            for kept in [true, false] {
                let (gateway, stop) = (&gateway, &stop);
                scope.spawn(move || {
                    let mut client = gateway.client();
                    while !stop.load(Ordering::Relaxed) {
                        let answer = client.gets("/").expects(200);
                        // Ten thousand requests are enough for a connection.
                        if !kept || answer.says_close() {
                            client = gateway.client();
                        }
                    }
                });
            }
            // By then everything was allocated once.
            let before = change(0..100);
            let after = change(100..CHANGES);
            let grown = after.saturating_sub(before);
            assert!(grown < 4 << 20, "{before} bytes, then {after}");
        });
    }

    fn an_emptied_file_is_logged_once(driver) {
        let origin = origin();
        let builder = gateway(driver).routes_to(&origin);
        let gateway = builder.clone().start();
        gateway.rewrite("");
        gateway.waits_until_refused_on(gateway.address());
        gateway.reconfigure(&builder);
        gateway.waits_for_applied(3);
        gateway.client().gets("/").expects(200);
        let log = gateway.log();
        let says = "gateway.yaml: has no objects now; those it had are removed";
        let line = log.lines().find(|line| line.contains(says));
        assert!(line.is_some_and(|line| line.contains("WARN")), "{log}");
        assert_eq!(log.matches(says).count(), 1, "{log}");
    }

    fn a_kept_alive_connection_uses_the_new_configuration(driver) {
        let (old, new) = (origin().replies(ok("old")), origin().replies(ok("new")));
        let base = gateway(driver).backend("old", &[old.address()]).backend("new", &[new.address()]);
        let gateway = base.clone().rule("{backendRefs: [{@old}]}").start();
        let mut client = gateway.client();
        assert_eq!(client.gets("/").expects(200).text(), "old");
        gateway.reconfigure(&base.rule("{backendRefs: [{@new}]}"));
        waits_for_body(&gateway, "new");
        assert_eq!(client.gets("/").expects(200).text(), "new");
    }

    fn a_listener_is_added_and_removed(driver) {
        let origin = origin();
        let one = gateway(driver).routes_to(&origin);
        let two = one.clone().listener("second").rule_of("second", "{backendRefs: [{@origin}]}");
        let mut gateway = one.clone().start();
        let second = gateway.adds_port();
        gateway.reconfigure(&two);
        gateway.waits_until_listening_on(second);
        crate::support::client(second).gets("/").expects(200);

        let mut persistent = gateway.client();
        persistent.gets("/").expects(200);
        gateway.reconfigure(&one);
        gateway.waits_until_refused_on(second);
        persistent.gets("/").expects(200);
    }

    fn an_invalid_file_changes_nothing_and_is_reported(driver) {
        let origin = origin();
        let good = gateway(driver).routes_to(&origin);
        let gateway = good.clone().start();
        let mut client = gateway.client();
        client.gets("/").expects(200);
        gateway.rewrite("apiVersion: v1\nkind: [unclosed\n");
        gateway.waits_for_log("gateway.yaml");
        client.gets("/").expects(200);
        gateway.client().gets("/").expects(200);

        let other = crate::support::origin().replies(ok("mended"));
        gateway.reconfigure(&good.without_rules().routes_to(&other));
        waits_for_body(&gateway, "mended");
    }

    fn a_request_in_progress_keeps_its_configuration(driver) {
        let gate = crate::support::Gate::default();
        let slow = crate::support::Reply::at_once().waits_for(&gate)
            .sends("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nold");
        let (old, new) = (origin().replies_to("/slow", slow), origin().replies(ok("new")));
        let base = gateway(driver).backend("old", &[old.address()]).backend("new", &[new.address()]);
        let gateway = base.clone().rule("{backendRefs: [{@old}]}").start();
        let mut client = gateway.client();
        client.gets("/slow");
        old.waits_for_requests(1);
        gateway.reconfigure(&base.rule("{backendRefs: [{@new}]}"));
        waits_for_body(&gateway, "new");
        gate.open();
        assert_eq!(client.expects(200).text(), "old");
    }
}
