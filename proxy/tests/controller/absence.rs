//! An unavailable controller has no effect, not even on a proxy that starts in that time; when it
//! returns, it does not resend known resources.

use std::os::unix::fs::PermissionsExt as _;

use tempfile::TempDir;
use xds::model::Kind;

use crate::server::controller;
use crate::support::{Driver, Ports, Signal, gateway, ok, on_both_drivers, origin};
use crate::{is_ready, source};

on_both_drivers! {
    fn a_restarted_controller_sends_nothing_again(driver) {
        let origin = origin();
        let ports = Ports::free(1);
        let mut controller = controller();
        let base = gateway(driver)
            .inspected()
            .routes_to(&origin)
            .configured_by(&["--xds", &controller.url(), "--gateway", "default/gw"]);
        controller.publish(&base, &ports);
        let gateway = base.start_with("", &ports);
        controller.waits_until(|seen| seen.accepted.len() == 7);
        let sent = controller.seen().sent.len();
        let mut client = gateway.client();
        client.gets("/").expects(200);
        controller.stop();
        gateway.waits_for_log("next_try_in_milliseconds");
        client.gets("/").expects(200);
        assert_eq!(source(&gateway)["connected"], false);
        assert!(is_ready(&gateway));
        controller.start(None);
        controller.waits_until(|seen| seen.accepted.len() == 14);
        client.gets("/").expects(200);
        assert_eq!(controller.seen().sent.len(), sent, "{:?}", controller.seen().sent);
        assert_eq!(controller.seen().listed, [], "its digests are the same");
        assert!(!gateway.log().contains("version=2 "), "nothing was compiled");
        let source = source(&gateway);
        assert_eq!(source["connected"], true, "{source}");
        assert_eq!(source["streams"], 2, "{source}");
        assert!(source["failure"].is_null(), "{source}");
    }

    fn a_controller_of_the_release_before_sends_nothing_again(driver) {
        let origin = origin();
        let ports = Ports::free(1);
        let mut controller = controller();
        let base = gateway(driver)
            .routes_to(&origin)
            .configured_by(&["--xds", &controller.url(), "--gateway", "default/gw"]);
        controller.publish(&base, &ports);
        let gateway = base.start_with("", &ports);
        controller.waits_until(|seen| seen.accepted.len() == 7);
        let sent = controller.seen().sent.len();
        controller.stop();
        gateway.waits_for_log("next_try_in_milliseconds");
        controller.states_no_features();
        controller.start(None);
        controller.waits_until(|seen| seen.accepted.len() == 14);
        assert_eq!(controller.seen().sent.len(), sent, "{:?}", controller.seen().sent);
        assert!(controller.seen().listed.contains(&Kind::Route));
        gateway.client().gets("/").expects(200);
    }

    fn what_changed_while_the_controller_was_away_is_listed_and_sent(driver) {
        let origin = origin();
        let ports = Ports::free(1);
        let mut controller = controller();
        let base = gateway(driver)
            .routes_to(&origin)
            .configured_by(&["--xds", &controller.url(), "--gateway", "default/gw"]);
        controller.publish(&base, &ports);
        let gateway = base.start_with("", &ports);
        controller.waits_until(|seen| seen.accepted.len() == 7);
        let sent = controller.seen().sent.len();
        controller.stop();
        gateway.waits_for_log("next_try_in_milliseconds");
        let key = controller.withdraws(Kind::Route);
        controller.start(None);
        controller.waits_until(|seen| seen.accepted.len() == 14);
        assert_eq!(controller.seen().sent[sent..], [format!("-{}", key.key)]);
        assert_eq!(controller.seen().listed, [Kind::Route]);
        gateway.client().gets("/").expects(404);
    }

    fn a_proxy_started_without_its_controller_serves_the_cached_configuration(driver) {
        let origin = origin().replies(ok("here"));
        let ports = Ports::free(1);
        let folder = TempDir::new().expect("a temporary folder");
        let cache = folder.path().join("cache");
        let mut controller = controller();
        let base = gateway(driver)
            .inspected()
            .routes_to(&origin)
            .configured_by(&[
                "--xds", &controller.url(), "--gateway", "default/gw",
                "--xds-cache", cache.to_str().expect("UTF-8"),
            ]);
        controller.publish(&base, &ports);
        let mut first = base.start_with("", &ports);
        controller.waits_until(|seen| seen.accepted.len() == 7);
        let sent = controller.seen().sent.len();
        controller.stop();
        first.signal(Signal::Int);
        first.waits_for_exit();
        let metadata = std::fs::metadata(cache.join("last-good")).expect("it was kept");
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600, "it may hold private keys");

        let second = base.start_with("", &ports);
        assert_eq!(second.client().gets("/").expects(200).text(), "here");
        assert!(is_ready(&second));
        let state = source(&second);
        assert_eq!(state["restored"], true, "{state}");
        assert_eq!(state["connected"], false, "{state}");
        controller.start(None);
        controller.waits_until(|seen| seen.accepted.len() == 14);
        assert_eq!(controller.seen().sent.len(), sent, "it has all of it");
        assert_eq!(controller.seen().listed, [], "and its digests");
        assert!(source(&second)["restored"].is_null());
    }
}

#[test]
fn a_cached_configuration_of_another_gateway_is_ignored() {
    let origin = origin();
    let ports = Ports::free(1);
    let cache = TempDir::new().expect("a temporary folder");
    std::fs::write(cache.path().join("last-good"), "of somebody else").expect("our own folder");
    let controller = controller();
    let base = gateway(Driver::Auto).routes_to(&origin).configured_by(&[
        "--xds",
        &controller.url(),
        "--gateway",
        "default/gw",
        "--xds-cache",
        cache.path().to_str().expect("UTF-8"),
    ]);
    controller.publish(&base, &ports);
    let gateway = base.start_with("", &ports);
    gateway.waits_for_log("is not used: it belongs to another Gateway than default/gw");
    gateway.client().gets("/").expects(200);
}
