//! Backends that are not addresses: a unix socket, and a name.

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;

use crate::support::{gateway, on_both_drivers, origin};

fn backend(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: gateway-system.io/v1alpha1\nkind: Backend\nmetadata: {{name: {name}}}\nspec: {spec}"
    )
}

const TO: &str = "{backendRefs: [{group: gateway-system.io, kind: Backend, name: odd}]}";

on_both_drivers! {
    fn requests_are_forwarded_to_a_unix_socket(driver) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("origin.sock");
        let listener = UnixListener::bind(&path).expect("a new socket");
        let serving = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("the gateway");
            let mut head = Vec::new();
            for _ in 0..2 {
                head.clear();
                while !head.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    stream.read_exact(&mut byte).expect("a head");
                    head.extend(byte);
                }
                let answer = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nunix";
                stream.write_all(answer.as_bytes()).expect("the gateway reads");
            }
            head
        });
        let spec = format!("{{unix: {{path: {}}}}}", path.display());
        let gateway = gateway(driver).rule(TO).document(&backend("odd", &spec)).start();
        for _ in 0..2 {
            assert_eq!(gateway.client().gets("/path").expects(200).text(), "unix");
        }
        let head = serving.join().expect("both requests used one connection");
        assert!(head.starts_with(b"GET /path HTTP/1.1\r\n"));
    }

    fn a_missing_unix_socket_is_503(driver) {
        let spec = "{unix: {path: /nowhere/at-all.sock}}";
        let gateway = gateway(driver).rule(TO).document(&backend("odd", spec)).start();
        gateway.client().gets("/").expects(503);
    }

    fn a_name_is_resolved_and_one_that_does_not_resolve_is_503(driver) {
        let origin = origin();
        let port = origin.address().port();
        let base = gateway(driver).rule(TO);
        let named = |name: &str| {
            let spec = format!("{{dns: {{name: {name}, port: {port}}}}}");
            base.clone().document(&backend("odd", &spec))
        };
        let gateway = named("localhost").start();
        gateway.client().gets("/").expects(200);
        // RFC 6761 section 6.4: no name server answers for it.
        gateway.reconfigure(&named("nobody.invalid"));
        gateway.waits_for_applied(2);
        gateway.client().gets("/").expects(503);
        gateway.reconfigure(&named("localhost"));
        gateway.waits_for_applied(3);
        while gateway.client().gets("/").reads().status() != 200 {}
    }
}
