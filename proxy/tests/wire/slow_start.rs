//! Endpoints that have just become ready get their share slowly.

use crate::support::{Client, Origin, gateway, ok, on_both_drivers, origin};

/// How many of so many requests an origin has got.
fn share(client: &mut Client, origin: &Origin, requests: usize) -> usize {
    let before = origin.requests().len();
    for _ in 0..requests {
        client.gets("/").expects(200);
    }
    origin.requests().len() - before
}

on_both_drivers! {
    fn an_endpoint_that_comes_later_gets_few_requests_at_first(driver) {
        let origins = [origin().replies(ok("old")), origin().replies(ok("old")), origin().replies(ok("new"))];
        let with = |number: usize| {
            let addresses: Vec<_> = origins[..number].iter().map(Origin::address).collect();
            gateway(driver)
                .backend("all", &addresses)
                .rule("{backendRefs: [{@all}]}")
                .policy_of("Backend/all", "balance: {slowStart: {window: 15m, minimum: 1}}")
        };
        let gateway = with(2).start();
        let mut client = gateway.client();
        // What a proxy finds when it starts is old.
        share(&mut client, &origins[0], 50);
        gateway.reconfigure(&with(3));
        gateway.waits_for_applied(2);
        let new = share(&mut client, &origins[2], 300);
        assert!(new <= 30, "{new} of 300 for one percent of a third");
        // A change of something else does not make it older.
        gateway.reconfigure(&with(3).policy("accessLog: {format: json}"));
        gateway.waits_for_applied(3);
        let new = share(&mut client, &origins[2], 300);
        assert!(new <= 30, "{new} of 300 for one percent of a third");
    }
}
