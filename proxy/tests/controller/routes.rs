//! Published resources, changes and removals take effect, each change atomically.

use std::sync::atomic::{AtomicBool, Ordering};

use xds::model::Kind;

use crate::server::controller;
use crate::support::{Ports, gateway, ok, on_both_drivers, origin};
use crate::{is_ready, source, type_state};

on_both_drivers! {
    fn a_published_route_is_served_until_it_is_removed(driver) {
        let (old, new) = (origin().replies(ok("old")), origin().replies(ok("new")));
        let ports = Ports::free(1);
        let controller = controller();
        let base = gateway(driver)
            .inspected()
            .backend("old", &[old.address()])
            .backend("new", &[new.address()])
            .configured_by(&["--xds", &controller.url(), "--gateway", "default/gw"])
            .environment("POD_NAME", "gw-7d9f-x2k");
        let gateway = base.begin(&ports);
        controller.waits_until(|seen| seen.nodes == ["default/gw/gw-7d9f-x2k"]);
        assert!(!is_ready(&gateway), "nothing was published yet");

        controller.publish(&base.clone().rule("{backendRefs: [{@old}]}"), &ports);
        gateway.waits_for_applied(1);
        assert_eq!(gateway.client().gets("/").expects(200).text(), "old");
        controller.waits_until(|seen| seen.accepted.len() == 7);
        assert!(is_ready(&gateway));

        controller.publish(&base.clone().rule("{backendRefs: [{@new}]}"), &ports);
        gateway.waits_for_applied(2);
        assert_eq!(gateway.client().gets("/").expects(200).text(), "new");
        controller.waits_until(|seen| seen.accepted_of(Kind::Route) == 2);

        controller.publish(&base.clone().without_rules(), &ports);
        gateway.waits_for_applied(3);
        gateway.client().gets("/").expects(404);

        controller.waits_until(|seen| seen.accepted_of(Kind::Route) == 3);
        let source = source(&gateway);
        assert_eq!(source["kind"], "xds", "{source}");
        assert_eq!(source["connected"], true, "{source}");
        assert_eq!(source["streams"], 1, "{source}");
        assert_eq!(source["from"][0], controller.url(), "{source}");
        let routes = type_state(&gateway, "routes");
        assert_eq!((&routes["acks"], &routes["nacks"]), (&3.into(), &0.into()), "{routes}");
        let mut client = gateway.client_of("metrics");
        let metrics = client.gets("/metrics").expects(200).text();
        for line in [
            "gateway_xds_connected 1\n",
            "gateway_xds_streams_total 1\n",
            "gateway_xds_acks_total{type=\"routes\"} 3\n",
            "gateway_xds_nacks_total{type=\"routes\"} 0\n",
        ] {
            assert!(metrics.contains(line), "{line}{metrics}");
        }
    }

    fn a_route_and_its_backend_are_added_and_removed_atomically(driver) {
        let origin = origin();
        let ports = Ports::free(1);
        let controller = controller();
        let base = gateway(driver)
            .configured_by(&["--xds", &controller.url(), "--gateway", "default/gw"]);
        let with = base.clone().routes_to(&origin);
        controller.publish(&base, &ports);
        let gateway = base.start_with("", &ports);
        let (stop, statuses) = (AtomicBool::new(false), std::sync::Mutex::new([0, 0]));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let answer = gateway.client().gets("/").reads();
                    let at = [404, 200].iter().position(|it| *it == answer.status());
                    let at = at.unwrap_or_else(|| panic!("half of a change: {answer}"));
                    statuses.lock().expect("no holder panics")[at] += 1;
                }
            });
            for change in 0..40 {
                let next = if change % 2 == 0 { &with } else { &base };
                controller.publish(next, &ports);
                gateway.waits_for_applied(2 + change);
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert!(statuses.into_inner().expect("no holder panics").iter().sum::<usize>() > 0);
    }

    fn a_dns_backend_does_not_resolve_to_the_host_of_the_proxy(driver) {
        let inward = origin();
        let ports = Ports::free(1);
        let controller = controller();
        let base = gateway(driver)
            .configured_by(&["--xds", &controller.url(), "--gateway", "default/gw"]);
        let backend = format!(
            "apiVersion: gateway-system.io/v1alpha1\nkind: Backend\nmetadata: {{name: inward}}\n\
             spec: {{dns: {{name: localhost, port: {}}}}}\n",
            inward.address().port()
        );
        let rule = "{backendRefs: [{group: gateway-system.io, kind: Backend, name: inward}]}";
        controller.publish(&base.clone().document(&backend).rule(rule), &ports);
        let gateway = base.start_with("", &ports);
        gateway.client().gets("/").expects(503);
        assert!(inward.requests().is_empty());
    }
}
