//! What is known by health checks, across changes.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use xds::model::{
    BackendTls, Health, HealthCheck, HealthProbe, Hostname, InitialHealth, Model, PolicySpec,
    PolicyTarget, ServiceKey,
};

use super::sample::{host, model, policy, route, service, target, workload};
use super::{Compiler, cluster, options};
use crate::config::dns::Resolved;
use crate::config::{ProbeState, Snapshot, Standing};

/// A service with two endpoints and this check.
fn checked(initial: InitialHealth) -> Model {
    let mut model = model();
    model.insert(service("web", &[80]).into());
    model.insert(workload("a", "10.0.0.1", Health::Ready, "web", 80, 8080).into());
    model.insert(workload("b", "10.0.0.2", Health::Ready, "web", 80, 8080).into());
    model.insert(route("shop", 0, "/", vec![(target("web", 80), 1)]).into());
    set_check(&mut model, initial);
    model
}

fn set_check(model: &mut Model, initial: InitialHealth) {
    let check = HealthCheck {
        probe: HealthProbe::Tcp,
        port: None,
        interval: Duration::from_secs(10),
        timeout: Duration::from_secs(2),
        unhealthy_after: NonZeroU32::MIN,
        healthy_after: NonZeroU32::MIN,
        initial,
        panic_percent: 0,
    };
    let spec = PolicySpec {
        health_check: Some(check),
        ..PolicySpec::default()
    };
    let target = PolicyTarget::Service(ServiceKey::new(&host("web")));
    model.insert(policy("check", target, spec).into());
}

/// The states of the endpoints, by address.
fn states(snapshot: &Snapshot) -> Vec<Arc<ProbeState>> {
    let cluster = cluster(snapshot, "Service/app/web:80");
    let mut endpoints: Vec<_> = cluster.endpoints.iter().collect();
    endpoints.sort_by_key(|it| &it.address);
    let states = endpoints.iter().filter_map(|it| it.probe.as_ref());
    states.map(|probe| Arc::clone(&probe.state)).collect()
}

fn standings(snapshot: &Snapshot) -> Vec<Standing> {
    states(snapshot).iter().map(|it| it.standing()).collect()
}

#[test]
fn other_tls_settings_keep_what_is_known_of_an_address() {
    let mut model = checked(InitialHealth::Healthy);
    let mut compiler = Compiler::default();
    let mut compile = |model: &_| compiler.compile(model, &Resolved::default(), &options());
    let before = states(&compile(&model));
    assert_eq!(before.len(), 2);
    let mut secured = service("web", &[80]);
    for name in ["a.test", "b.test"] {
        let server_name = Hostname::parse_exact(name).expect("a name");
        secured.ports[0].tls = Some(Box::new(BackendTls::Unverified { server_name }));
        model.insert(secured.clone().into());
        let after = states(&compile(&model));
        assert_eq!(after.len(), 2);
        let same = before.iter().zip(&after);
        assert!(same.into_iter().all(|(one, other)| Arc::ptr_eq(one, other)));
    }
}

#[test]
fn another_initial_health_holds_for_what_has_no_verdict() {
    use Standing::{Healthy, Unhealthy, Untried, Waiting};
    let mut model = checked(InitialHealth::Unhealthy);
    let mut compiler = Compiler::default();
    let mut compile = |model: &_| compiler.compile(model, &Resolved::default(), &options());
    assert_eq!(standings(&compile(&model)), [Waiting, Waiting]);
    set_check(&mut model, InitialHealth::Healthy);
    let snapshot = compile(&model);
    assert_eq!(standings(&snapshot), [Untried, Untried]);
    let states = states(&snapshot);
    states[0].set_standing(Unhealthy);
    states[1].set_standing(Healthy);
    set_check(&mut model, InitialHealth::Unhealthy);
    assert_eq!(standings(&compile(&model)), [Unhealthy, Healthy]);
}
