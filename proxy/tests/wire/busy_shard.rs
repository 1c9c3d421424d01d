//! A shard with many concurrent clients: on epoll it defers reads for a turn, at the latest after
//! 256 reads. Deferred requests end as they would otherwise.

use crate::support::{
    Client, Driver, Gateway, GatewayBuilder, Origin, Reply, Signal, gateway, ok, on_both_drivers,
    origin,
};

/// More than the reads after which some are deferred.
const CLIENTS: usize = 300;

/// Connected clients, each after one response.
fn connected_clients(gateway: &Gateway) -> Vec<Client> {
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| gateway.client()).collect();
    all_get(&mut clients, "/", 200);
    clients
}

/// Sends all requests before the first response is read.
#[track_caller]
fn all_get(clients: &mut [Client], path: &str, status: u16) {
    for client in &mut *clients {
        client.gets(path);
    }
    for client in clients {
        client.expects(status);
    }
}

/// A gateway that routes `/broken` to `broken` and everything else to a sound origin.
fn gateway_with_broken_route(driver: Driver, broken: &Origin, sound: &Origin) -> GatewayBuilder {
    gateway(driver)
        .backend("broken", &[broken.address()])
        .backend("sound", &[sound.address()])
        .rule("{matches: [{path: {value: /broken}}], backendRefs: [{@broken}]}")
        .rule("{backendRefs: [{@sound}]}")
        // Requests to the sound origin may be slow.
        .policy_of("Backend/broken", "limits: {responseHeadTimeout: 500ms}")
}

on_both_drivers! {
    fn every_client_gets_its_own_response(driver) {
        let origin = (0..CLIENTS).fold(origin(), |origin, number| {
            origin.replies_to(&format!("/{number}"), ok(number.to_string()))
        });
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut clients = connected_clients(&gateway);
        for _ in 0..5 {
            for (number, client) in clients.iter_mut().enumerate() {
                client.gets(&format!("/{number}"));
            }
            for (number, client) in clients.iter_mut().enumerate() {
                assert_eq!(client.expects(200).text(), number.to_string());
            }
        }
    }

    fn a_stalled_origin_times_out_for_every_client(driver) {
        let (broken, sound) = (origin().replies(Reply::at_once().stalls()), origin());
        let gateway = gateway_with_broken_route(driver, &broken, &sound).start();
        let mut clients = connected_clients(&gateway);
        all_get(&mut clients, "/broken", 504);
        all_get(&mut clients, "/", 200);
    }

    fn a_closing_origin_is_a_bad_gateway_for_every_client(driver) {
        let closes = Reply::at_once().reads_the_body().closes();
        let (broken, sound) = (origin().replies(closes), origin());
        let gateway = gateway_with_broken_route(driver, &broken, &sound).start();
        let mut clients = connected_clients(&gateway);
        all_get(&mut clients, "/broken", 502);
        all_get(&mut clients, "/", 200);
    }

    fn client_disconnects_do_not_affect_others(driver) {
        let sound = origin();
        let gateway = gateway(driver).routes_to(&sound).start();
        let mut neighbour = gateway.client();
        neighbour.gets("/").expects(200);
        let before = gateway.open_files();
        for mut client in connected_clients(&gateway) {
            client.gets("/");
            client.resets();
        }
        neighbour.gets("/").expects(200);
        gateway.waits_for_open_files_at_most(before + sound.open_connections());
    }

    fn idle_clients_are_served_again(driver) {
        let origin = origin();
        let gateway = gateway(driver).routes_to(&origin).start();
        let mut clients = connected_clients(&gateway);
        clients[0].expects_silence();
        all_get(&mut clients, "/", 200);
    }

    fn a_drain_ends_every_connection(driver) {
        let origin = origin();
        let mut gateway = gateway(driver).routes_to(&origin)
            .argument("--drain-accept=300ms").argument("--drain-deadline=20s").start();
        let mut clients = connected_clients(&gateway);
        gateway.signal(Signal::Term);
        for client in &mut clients {
            client.expects_end();
        }
        assert_eq!(gateway.waits_for_exit().code(), Some(0), "{}", gateway.log());
    }
}
