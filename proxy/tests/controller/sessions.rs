//! Session keys of a controller: its proxies share sessions, and a rotation moves none.

use std::sync::Arc;

use tempfile::TempDir;
use xds::delta::Encoded;
use xds::model::{
    Kind, ObjectName, Policy, PolicyKey, PolicySpec, PolicyTarget, ResourceKey, SessionKey,
    SessionKeys,
};

use crate::server::{Controller, controller};
use crate::support::session::{COOKIE, Session, ask, assert_held, assert_none_moves, sessions};
use crate::support::{
    Driver, GatewayBuilder, Origin, Ports, Signal, gateway, ok, on_both_drivers, origin,
};

/// Session keys as the controller sends them: of these bytes, the newest first.
fn keys(bytes: &[u8], signing: usize) -> (ResourceKey, Arc<Encoded>) {
    let keys = bytes.iter().map(|byte| SessionKey::new(&[*byte; 32]));
    let keys = keys.collect::<Result<_, _>>().expect("keys");
    let gateway = ObjectName::new("default", "gw");
    let policy = Policy {
        key: PolicyKey::new("SessionKeys", &gateway, "Gateway/default/gw"),
        target: PolicyTarget::Gateway(gateway),
        spec: PolicySpec {
            session_keys: Some(SessionKeys::new(keys, signing).expect("keys")),
            ..PolicySpec::default()
        },
    };
    let encoded = Encoded::new(&policy.into());
    (encoded.key.clone(), Arc::new(encoded))
}

/// A controller, and a Gateway of several proxies.
struct Scene {
    controller: Controller,
    builder: GatewayBuilder,
    _origins: [Origin; 3],
}

impl Scene {
    fn new(driver: Driver) -> Self {
        let origins = ["a", "b", "c"].map(|name| origin().replies(ok(name)));
        let addresses: Vec<_> = origins.iter().map(Origin::address).collect();
        let controller = controller();
        let source = ["--xds", &controller.url(), "--gateway", "default/gw"];
        let builder = gateway(driver).backend("all", &addresses).rule(COOKIE);
        Self {
            builder: builder.configured_by(&source),
            controller,
            _origins: origins,
        }
    }

    /// Waits until so many responses with policies were accepted.
    fn waits_for_policies(&self, count: usize) {
        self.controller
            .waits_until(|seen| seen.accepted_of(Kind::Policy) >= count);
    }
}

on_both_drivers! {
    fn a_rotation_under_load_moves_no_session_between_proxies(driver) {
        let scene = Scene::new(driver);
        // Two proxies of one Gateway need ports, and so controllers, of their own on one machine.
        let (second, ports) = (controller(), [Ports::free(1), Ports::free(1)]);
        let controllers = [&scene.controller, &second];
        let source = ["--xds", &second.url(), "--gateway", "default/gw"];
        let builders = [scene.builder.clone(), scene.builder.clone().configured_by(&source)];
        for (controller, ports) in controllers.iter().zip(&ports) {
            controller.publish(&scene.builder, ports);
            controller.publish_more(&[keys(b"a", 0)]);
        }
        let one = builders[0].start_with("", &ports[0]);
        let two = builders[1].start_with("", &ports[1]);
        assert_held(&mut sessions(&one), &two);
        assert_none_moves(&[&one, &two], |waits| {
            let steps: [(&[u8], usize); 6] =
                [(b"ba", 1), (b"ba", 0), (b"cba", 1), (b"cba", 0), (b"dcb", 1), (b"dcb", 0)];
            for (bytes, signing) in steps {
                let before = controllers.map(|it| it.seen().accepted_of(Kind::Policy));
                for controller in controllers {
                    controller.publish_more(&[keys(bytes, signing)]);
                }
                // The next step follows when both proxies have acknowledged this one.
                for (controller, before) in controllers.iter().zip(before) {
                    controller.waits_until(|seen| seen.accepted_of(Kind::Policy) > before);
                }
                waits();
            }
        });
    }

    fn a_restarted_proxy_has_the_sessions_of_the_one_before_without_its_controller(driver) {
        let mut scene = Scene::new(driver);
        let ports = Ports::free(1);
        let cache = TempDir::new().expect("a folder");
        let builder = scene.builder.clone()
            .argument(&format!("--xds-cache={}", cache.path().display()));
        scene.controller.publish(&scene.builder, &ports);
        scene.controller.publish_more(&[keys(b"a", 0)]);
        let mut before = builder.start_with("", &ports);
        let mut sessions = sessions(&before);
        before.signal(Signal::Int);
        before.waits_for_exit();
        scene.controller.stop();
        let after = builder.start_with("", &ports);
        assert_held(&mut sessions, &after);
    }

    fn keys_that_are_withdrawn_stay_in_use(driver) {
        let scene = Scene::new(driver);
        let ports = Ports::free(1);
        scene.controller.publish(&scene.builder, &ports);
        scene.controller.publish_more(&[keys(b"a", 0)]);
        let gateway = scene.builder.start_with("", &ports);
        let mut sessions = sessions(&gateway);
        let before = scene.controller.seen().accepted_of(Kind::Policy);
        scene.controller.publish(&scene.builder, &ports);
        scene.waits_for_policies(before + 1);
        assert_held(&mut sessions, &gateway);
    }

    fn a_proxy_of_a_controller_without_keys_has_its_own(driver) {
        let scene = Scene::new(driver);
        let ports = Ports::free(1);
        scene.controller.states_no_features();
        scene.controller.publish(&scene.builder, &ports);
        let gateway = scene.builder.start_with("", &ports);
        let mut session = Session::begin(&mut gateway.client());
        assert!(session.holds(&mut gateway.client()));
        // Sessions begin anew once, when there is a key.
        scene.controller.publish_more(&[keys(b"a", 0)]);
        scene.waits_for_policies(2);
        let response = ask(&mut gateway.client(), &format!("Cookie: {}", session.cookie));
        assert_held(&mut [Session::of(&response)], &gateway);
    }

    fn keys_of_files_take_precedence(driver) {
        let scene = Scene::new(driver);
        let ports = Ports::free(1);
        let folder = TempDir::new().expect("a folder");
        let file = folder.path().join("key");
        std::fs::write(&file, [b'f'; 32]).expect("a file in our own folder");
        scene.controller.publish(&scene.builder, &ports);
        scene.controller.publish_more(&[keys(b"a", 0)]);
        let builder = scene.builder.clone()
            .argument(&format!("--session-key-file={}", file.display()));
        let gateway = builder.start_with("", &ports);
        let mut session = Session::begin(&mut gateway.client());
        let before = scene.controller.seen().accepted_of(Kind::Policy);
        scene.controller.publish_more(&[keys(b"b", 0)]);
        scene.waits_for_policies(before + 1);
        assert!(session.holds(&mut gateway.client()), "{}", gateway.log());
    }
}
