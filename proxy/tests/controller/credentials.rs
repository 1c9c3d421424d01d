//! Authentication of the controller and of the proxy: failures are logged, and retried with the
//! current content of the files.

use std::path::Path;

use tempfile::TempDir;

use crate::server::{controller, secure_controller};
use crate::support::pki::authority;
use crate::support::{Driver, Ports, gateway, origin};
use crate::{is_ready, source};

/// Replaces a file as a mounted volume does.
fn replace(path: &Path, text: &str) {
    let fresh = path.with_extension("new");
    std::fs::write(&fresh, text).expect("our own folder");
    std::fs::rename(&fresh, path).expect("our own folder");
}

#[test]
fn a_token_is_read_again_for_each_connection() {
    let origin = origin();
    let ports = Ports::free(1);
    let folder = TempDir::new().expect("a temporary folder");
    let token = folder.path().join("token");
    std::fs::write(&token, "old\n").expect("our own folder");
    let mut controller = controller();
    controller.accepts("new");
    let base = gateway(Driver::Auto)
        .inspected()
        .routes_to(&origin)
        .configured_by(&[
            "--xds",
            &controller.url(),
            "--gateway",
            "default/gw",
            "--xds-token",
            token.to_str().expect("UTF-8"),
        ]);
    controller.publish(&base, &ports);
    let gateway = base.begin(&ports);
    controller.waits_until(|seen| seen.denied >= 2);
    gateway.waits_for_log("rejects the token of this proxy: the token has expired");
    assert!(!is_ready(&gateway));
    let failure = source(&gateway)["failure"].as_str().map(str::to_owned);
    assert!(failure.is_some_and(|it| it.contains("the token has expired")));
    assert!(!gateway.log().contains("Bearer"), "tokens are not logged");

    replace(&token, "new\n");
    gateway.waits_for_applied(1);
    gateway.client().gets("/").expects(200);
    controller.waits_until(|seen| seen.accepted.len() == 7);
    // The next token is written before the next connection.
    controller.accepts("newer");
    replace(&token, "newer");
    controller.stop();
    controller.start(None);
    controller.waits_until(|seen| seen.accepted.len() == 14);
}

#[test]
fn the_ca_bundle_is_read_again_for_each_connection() {
    let origin = origin();
    let ports = Ports::free(1);
    let folder = TempDir::new().expect("a temporary folder");
    let bundle = folder.path().join("ca.crt");
    let [first, second, stranger] = ["first", "second", "stranger"].map(authority);
    std::fs::write(&bundle, stranger.pem()).expect("our own folder");
    let mut controller = secure_controller(&first.server(&["127.0.0.1"]));
    let base = gateway(Driver::Auto).routes_to(&origin).configured_by(&[
        "--xds",
        &controller.url(),
        "--gateway",
        "default/gw",
        "--xds-ca",
        bundle.to_str().expect("UTF-8"),
    ]);
    controller.publish(&base, &ports);
    let gateway = base.begin(&ports);
    gateway.waits_for_log("not signed by any of the configured certificate authorities");
    assert_eq!(
        controller.seen().nodes.len(),
        0,
        "nothing is sent to an unknown server"
    );

    replace(&bundle, &format!("{}{}", stranger.pem(), first.pem()));
    gateway.waits_for_applied(1);
    gateway.client().gets("/").expects(200);
    controller.waits_until(|seen| seen.accepted.len() == 7);
    replace(&bundle, &format!("{}{}", first.pem(), second.pem()));
    controller.stop();
    controller.start(Some(&second.server(&["127.0.0.1"])));
    controller.waits_until(|seen| seen.accepted.len() == 14);
}
