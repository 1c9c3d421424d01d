//! The reader of the program log may stop or disconnect: nothing waits for it, and nothing ends.

use crate::support::{
    Driver, Gateway, GatewayBuilder, Reader, Signal, client, gateway, on_both_drivers, origin,
};

/// A gateway that exits soon after SIGTERM.
fn gateway_with_short_drain(driver: Driver) -> GatewayBuilder {
    gateway(driver)
        .argument("--drain-accept=100ms")
        .argument("--drain-deadline=20s")
}

/// Changes the configuration, which logs lines, and waits until each change is in force.
fn changes(gateway: &mut Gateway, mut builder: GatewayBuilder) {
    for name in ["second", "third", "fourth"] {
        let address = gateway.adds_port();
        builder = builder
            .listener(name)
            .rule_of(name, "{backendRefs: [{@origin}]}");
        gateway.reconfigure(&builder);
        gateway.waits_until_listening_on(address);
        client(address).gets("/").expects(200);
    }
}

on_both_drivers! {
    /// It would be taken for a module, of which alone events are logged.
    fn a_misspelt_level_does_not_silence_the_log(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).environment("RUST_LOG", "loud").start();
        gateway.waits_for_log("RUST_LOG: unknown level `loud`: use error, warn, info");
        gateway.client().gets("/").expects(200);
    }

    fn an_unread_log_does_not_block_the_gateway(driver) {
        let origin = origin();
        let builder = gateway_with_short_drain(driver).routes_to(&origin);
        let mut gateway = builder.clone().start();
        gateway.log_reader(Reader::Leaves);
        changes(&mut gateway, builder);
        gateway.client().gets("/").expects(200);
        gateway.signal(Signal::Term);
        assert_eq!(gateway.waits_for_exit().code(), Some(0));
    }

    fn an_unread_log_does_not_delay_requests(driver) {
        // Their lines are several times the size of a pipe.
        const CONNECTIONS: usize = 2000;
        let origin = origin();
        let builder = gateway_with_short_drain(driver).routes_to(&origin).environment("RUST_LOG", "trace");
        let mut gateway = builder.clone().start();
        gateway.log_reader(Reader::Stalls);
        for _ in 0..CONNECTIONS {
            gateway.client().gets("/").expects(200);
        }
        changes(&mut gateway, builder);
        gateway.signal(Signal::Term);
        assert_eq!(gateway.waits_for_exit().code(), Some(0));
    }
}
