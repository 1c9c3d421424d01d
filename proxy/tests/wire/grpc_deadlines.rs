//! The deadline of a gRPC call, which its client chooses, ends that call alone.

use std::sync::Arc;

use super::unprocessed_calls::{listener, relays};
use crate::support::pki::authority;
use crate::support::{gateway, ok, on_both_drivers, origin, out_of_h2, out_of_tls};

/// A call of gRPC with this `grpc-timeout`, and further fields.
fn call(timeout: &str, fields: &str) -> String {
    format!(
        "POST /a.Service/Method HTTP/1.1\r\nHost: a.test\r\nContent-Type: application/grpc\r\n\
         TE: trailers\r\ngrpc-timeout: {timeout}\r\n{fields}Content-Length: 4\r\n\r\ncall"
    )
}

on_both_drivers! {
    fn requests_that_wait_for_the_connection_of_a_call_outlive_its_deadline(driver) {
        let (ca, origin) = (authority("ca"), origin().replies(ok("served")));
        let sealed = out_of_tls(out_of_h2(origin.address()), &ca.server(&["a.test"]), &["h2"]);
        let (listener, address) = listener();
        let gateway = gateway(driver)
            .authority("ca", &ca)
            .backend("origin", &[address])
            .speaks("origin", "H2C")
            .backend_tls("origin", "hostname: a.test, caCertificateRefs: [{group: \"\", kind: ConfigMap, name: ca}]")
            .rule("{retry: {attempts: 0}, backendRefs: [{@origin}]}")
            .start();
        let (mut hurried, mut patient) = (gateway.client(), gateway.client());
        hurried.sends(call("1500m", ""));
        // Its handshake is never answered.
        let (_stalled, _) = listener.accept().expect("a connection");
        patient.gets("/");
        relays(listener, sealed, &Arc::default());
        assert_eq!(patient.expects(200).text(), "served");
        let failed = hurried.expects(200).value("grpc-status").map(str::to_owned);
        assert!(matches!(failed.as_deref(), Some("4" | "14")), "{failed:?}");
    }
}
