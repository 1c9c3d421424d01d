//! Routes that a Gateway refuses, and has no room to close one by one: no other route gets the requests for their
//! host names, which may check less.

use translate::budgets::{Budget, Limits};

use crate::server::controller;
use crate::support::{GatewayBuilder, Ports, client, gateway, on_both_drivers};

/// A listener for routes of all namespaces.
const SHARED: &str = "protocol: HTTP, allowedRoutes: {namespaces: {from: All}}";

/// A route that redirects.
fn route(builder: GatewayBuilder, name: &str, host: &str, path: &str) -> GatewayBuilder {
    let (namespace, name) = name.split_once('/').expect("a namespace");
    builder.document(&format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n\
         metadata: {{name: {name}, namespace: {namespace}}}\nspec:\n  \
         parentRefs: [{{name: gw, namespace: default, sectionName: shared}}]\n  \
         hostnames: ['{host}']\n  rules:\n  - matches: [{{path: {{value: {path}}}}}]\n    \
         filters: [{{type: RequestRedirect, requestRedirect: {{hostname: elsewhere.test}}}}]\n"
    ))
}

on_both_drivers! {
    fn host_names_of_routes_without_room_get_no_other_route(driver) {
        let (ports, controller) = (Ports::free(2), controller());
        let base = gateway(driver)
            .listener_with("shared", SHARED)
            .configured_by(&["--xds", &controller.url(), "--gateway", "default/gw"]);
        let mut with_room = base.clone();
        for (name, host) in [
            ("noisy/r-0", "shop.example.com"),
            ("noisy/r-1", "1.example.com"),
            ("noisy/r-2", "2.example.com"),
            ("noisy/r-3", "3.example.com"),
            ("noisy/r-4", "4.example.com"),
            ("quiet/r-7", "quiet.example.com"),
            ("quiet/r-8", "8.example.com"),
            ("quiet/r-9", "*.example.com"),
        ] {
            with_room = route(with_room, name, host, "/");
        }
        let all = route(with_room.clone(), "noisy/r-5", "shop.example.com", "/admin");
        // Seven rules have room, `r-4` is closed by a rule of its own, and `r-5` is not.
        let budgets = || Limits::default().with(Budget::ViewResources, 7);
        controller.publish_within(&all, &ports, budgets());
        let gateway = base.start_with("", &ports);
        let status = |host: &str, path: &str| {
            let mut client = client(gateway.address_of(1));
            client.sends(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n")).reads().status()
        };
        for (host, path, expected) in [
            // Neither `r-0` nor the wildcard of the other namespace, for which ordinary routes would take it too.
            ("shop.example.com", "/admin/x", 500),
            ("shop.example.com", "/", 500),
            ("4.example.com", "/", 500),
            ("1.example.com", "/", 302),
            ("quiet.example.com", "/", 302),
            ("other.example.com", "/admin", 302),
        ] {
            assert_eq!(status(host, path), expected, "{host}{path}");
        }
        // The host name is open again without the route that had no room.
        controller.publish_within(&with_room, &ports, budgets());
        gateway.waits_for_applied(2);
        assert_eq!(status("shop.example.com", "/admin/x"), 302);
        assert_eq!(status("4.example.com", "/"), 500);
    }
}
