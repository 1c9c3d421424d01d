use serde_json::json;
use translate::status::GatewayStatus;

use super::*;

fn condition(kind: ConditionType, generation: i64) -> Condition {
    Condition {
        kind,
        status: ConditionStatus::True,
        reason: Reason::Programmed,
        message: "requests are served".into(),
        observed_generation: generation,
        field: None,
        blame: Blame::Own,
    }
}

fn gateway(generation: i64) -> Status {
    let programmed = || vec![condition(ConditionType::Programmed, generation)];
    Status::Gateway(GatewayStatus {
        addresses: Vec::new(),
        conditions: programmed(),
        listeners: vec![ListenerStatus {
            name: "web".to_owned(),
            supported_kinds: Vec::new(),
            attached_routes: 0,
            conditions: programmed(),
        }],
        attached_listener_sets: 0,
    })
}

fn acks(accepted: usize, connected: usize) -> AckCount {
    AckCount {
        connected,
        accepted,
        refused: None,
        missing_port: None,
    }
}

/// The condition of the Gateway and of its listener, which are equal with one listener.
fn programmed(generation: i64, deployment: &Deployment, acks: AckCount, present: &Value) -> String {
    programmed_while(false, generation, deployment, acks, present)
}

fn programmed_while(
    are_proxies_gone: bool,
    generation: i64,
    deployment: &Deployment,
    acks: AckCount,
    present: &Value,
) -> String {
    let mut status = gateway(generation);
    let listeners = BTreeMap::from([("web".to_owned(), acks)]);
    let inputs = ProgrammedInputs {
        deployment,
        are_proxies_gone,
        listeners: &listeners,
        present,
    };
    compose(&mut status, inputs);
    let Status::Gateway(status) = status else {
        unreachable!("it was one")
    };
    let text = |it: &Condition| format!("{:?} {}: {}", it.status, it.reason, it.message);
    let whole = text(&status.conditions[0]);
    assert_eq!(whole, text(&status.listeners[0].conditions[0]));
    whole
}

/// A status as it was written when two of three proxies had generation 4.
fn written() -> Value {
    let programmed = json!([{"type": "Programmed", "status": "True", "observedGeneration": 4,
                             "message": "requests are served by 2 of 3 proxies"}]);
    json!({"conditions": programmed, "listeners": [{"name": "web", "conditions": programmed}]})
}

#[test]
fn a_gateway_becomes_programmed_step_by_step() {
    for (deployment, counts, expected) in [
        (
            Deployment::Unknown,
            (0, 0),
            "False Pending: the workload is being deployed",
        ),
        (
            Deployment::Done,
            (0, 0),
            "False Pending: no proxy is connected yet: see the pods of the Gateway",
        ),
        (
            Deployment::Done,
            (0, 3),
            "False Pending: 0 of 3 proxies have this version",
        ),
        (
            Deployment::Done,
            (2, 3),
            "True Programmed: requests are served by 2 of 3 proxies",
        ),
        (
            Deployment::Done,
            (1, 1),
            "True Programmed: requests are served by 1 of 1 proxy",
        ),
    ] {
        let (accepted, connected) = counts;
        let condition_text = programmed(4, &deployment, acks(accepted, connected), &Value::Null);
        assert_eq!(condition_text, expected);
    }
}

#[test]
fn programmed_survives_a_disconnect_a_restart_and_a_new_leader() {
    let as_written = "True Programmed: requests are served by 2 of 3 proxies";
    for deployment in [Deployment::Unknown, Deployment::Done] {
        for connected in [0, 1] {
            let condition_text = programmed(4, &deployment, acks(0, connected), &written());
            assert_eq!(condition_text, as_written);
        }
    }
}

#[test]
fn a_changed_object_has_to_be_acknowledged_again() {
    let condition_text = programmed(5, &Deployment::Done, acks(0, 3), &written());
    assert_eq!(
        condition_text,
        "False Pending: 0 of 3 proxies have this version"
    );
    let condition_text = programmed(5, &Deployment::Done, acks(3, 3), &written());
    assert_eq!(
        condition_text,
        "True Programmed: requests are served by 3 of 3 proxies"
    );
}

#[test]
fn a_rejection_by_one_proxy_makes_the_gateway_not_programmed() {
    let refused = AckCount {
        refused: Some("edge-1: port 80 is taken".to_owned()),
        ..acks(2, 3)
    };
    let expected = "False Invalid: a proxy rejected this version; the previous one, if any, stays: \
                    edge-1: port 80 is taken";
    let condition_text = programmed(4, &Deployment::Done, refused, &written());
    assert_eq!(condition_text, expected);
}

fn taken() -> Deployment {
    Deployment::Refused("Service edge belongs to somebody else".to_owned())
}

#[test]
fn a_failed_deployment_is_reported_also_while_the_gateway_serves() {
    let why = "Service edge belongs to somebody else";
    let condition_text = programmed(4, &taken(), acks(0, 0), &Value::Null);
    assert_eq!(condition_text, format!("False Invalid: {why}"));
    let served = "True Programmed: requests are served by";
    let note = format!("; the last changes are not deployed: {why}");
    let condition_text = programmed(4, &taken(), acks(1, 1), &Value::Null);
    assert_eq!(condition_text, format!("{served} 1 of 1 proxy{note}"));
    // A disconnect flips nothing, and the note is not repeated.
    let mut present = written();
    for _ in 0..2 {
        let condition_text = programmed(4, &taken(), acks(0, 0), &present);
        assert_eq!(condition_text, format!("{served} 2 of 3 proxies{note}"));
        let message = condition_text.trim_start_matches("True Programmed: ");
        present["conditions"][0]["message"] = message.into();
        present["listeners"][0]["conditions"][0]["message"] = message.into();
    }
    let condition_text = programmed(4, &Deployment::Done, acks(0, 0), &present);
    assert_eq!(condition_text, format!("{served} 2 of 3 proxies"));
}

#[test]
fn a_failed_deployment_has_a_condition_of_its_own() {
    let failure = |deployment: &Deployment, present: &Value| {
        let mut status = gateway(4);
        let inputs = ProgrammedInputs {
            deployment,
            are_proxies_gone: false,
            listeners: &BTreeMap::from([("web".to_owned(), acks(1, 1))]),
            present,
        };
        compose(&mut status, inputs);
        let Status::Gateway(status) = status else {
            unreachable!("it was one")
        };
        let mut conditions = status.conditions.into_iter();
        let found = conditions.find(|it| it.kind == ConditionType::DeploymentFailed);
        found.map(|it| {
            assert!(it.is_problem());
            it.message.into_owned()
        })
    };
    let why = "Service edge belongs to somebody else".to_owned();
    assert_eq!(failure(&taken(), &Value::Null), Some(why));
    assert_eq!(failure(&Deployment::Done, &Value::Null), None);
    // A new leader does not know yet.
    let present = json!({"conditions": [{"type": "DeploymentFailed", "status": "True",
                                         "observedGeneration": 4, "message": "as before"}]});
    let as_before = Some("as before".to_owned());
    assert_eq!(failure(&Deployment::Unknown, &present), as_before);
    assert_eq!(failure(&Deployment::Done, &present), None);
}

#[test]
fn a_listener_whose_port_the_service_lacks_is_not_programmed() {
    let lacking = || AckCount {
        missing_port: Some(8443),
        ..acks(3, 3)
    };
    let condition_text = programmed(4, &Deployment::Done, lacking(), &written());
    let expected = "False Pending: the Gateway's Service does not have port 8443 yet";
    assert_eq!(condition_text, expected);
    let condition_text = programmed(4, &taken(), lacking(), &written());
    let expected = "False Invalid: the Gateway's Service does not have port 8443: Service edge belongs \
                    to somebody else";
    assert_eq!(condition_text, expected);
}

#[test]
fn without_any_proxy_for_long_a_gateway_is_not_programmed() {
    let expected = "False NoResources: no proxy has been connected for 5 minutes: see the pods of the \
                    Gateway";
    for generation in [4, 5] {
        let (done, none) = (&Deployment::Done, acks(0, 0));
        let condition_text = programmed_while(true, generation, done, none, &written());
        assert_eq!(condition_text, expected);
    }
}

#[test]
fn a_workload_that_is_being_replaced_is_reported_while_requests_are_served() {
    let unfinished = Deployment::Unfinished("Deployment a/edge is deleted once b".to_owned());
    let condition_text = programmed(4, &unfinished, acks(1, 1), &Value::Null);
    let expected = "True Programmed: requests are served by 1 of 1 proxy; Deployment a/edge is deleted \
                    once b";
    assert_eq!(condition_text, expected);
}

#[test]
fn programmed_false_of_the_translator_is_not_overridden() {
    let mut status = gateway(4);
    if let Status::Gateway(status) = &mut status {
        let condition = &mut status.conditions[0];
        set(
            condition,
            ConditionStatus::False,
            Reason::AddressNotAssigned,
            "no address".to_owned(),
        );
    }
    let listeners = BTreeMap::from([("web".to_owned(), acks(3, 3))]);
    let inputs = ProgrammedInputs {
        deployment: &Deployment::Done,
        are_proxies_gone: false,
        listeners: &listeners,
        present: &written(),
    };
    compose(&mut status, inputs);
    let Status::Gateway(status) = status else {
        unreachable!("it was one")
    };
    assert_eq!(status.conditions[0].reason, Reason::AddressNotAssigned);
    assert_eq!(
        status.listeners[0].conditions[0].status,
        ConditionStatus::True
    );
}

#[test]
fn a_gateway_is_programmed_while_one_of_its_listeners_is() {
    let mut status = gateway(4);
    let refused = AckCount {
        refused: Some("edge-1: no".to_owned()),
        ..acks(0, 1)
    };
    let listeners = BTreeMap::from([
        ("web".to_owned(), refused),
        ("other".to_owned(), acks(1, 1)),
    ]);
    let inputs = ProgrammedInputs {
        deployment: &Deployment::Done,
        are_proxies_gone: false,
        listeners: &listeners,
        present: &Value::Null,
    };
    compose(&mut status, inputs);
    let Status::Gateway(status) = status else {
        unreachable!("it was one")
    };
    assert_eq!(status.conditions[0].status, ConditionStatus::True);
    assert_eq!(
        status.listeners[0].conditions[0].status,
        ConditionStatus::False
    );
}

#[test]
fn a_refused_deployment_is_reported_instead_of_the_missing_address() {
    let mut status = gateway(1);
    if let Status::Gateway(status) = &mut status {
        let condition = &mut status.conditions[0];
        let message = "no address".to_owned();
        let reason = Reason::AddressNotAssigned;
        set(condition, ConditionStatus::False, reason, message);
    }
    let inputs = ProgrammedInputs {
        deployment: &Deployment::Refused("Service edge is taken".to_owned()),
        are_proxies_gone: false,
        listeners: &BTreeMap::new(),
        present: &Value::Null,
    };
    compose(&mut status, inputs);
    let Status::Gateway(status) = status else {
        unreachable!("it was one")
    };
    assert_eq!(status.conditions[0].message, "Service edge is taken");
}

#[test]
fn pods_that_do_not_run_are_named_and_flip_nothing_that_serves() {
    let why = format!("{NOT_ALL_RUN}exceeded quota: small; raise it");
    let done = |pods: Option<Option<&str>>| {
        let obstacle = |why: &str| Obstacle {
            why: why.to_owned(),
            is_of_parameters: false,
        };
        Deployment::Done.with_pods(pods.map(|it| it.map(obstacle)))
    };
    let missing = done(Some(Some(&why)));
    let condition_text = programmed(4, &missing, acks(0, 0), &Value::Null);
    assert_eq!(condition_text, format!("False NoResources: {why}"));
    let served = "True Programmed: requests are served by 1 of 1 proxy";
    let condition_text = programmed(4, &missing, acks(1, 1), &Value::Null);
    assert_eq!(condition_text, format!("{served}; {why}"));
    let condition_text = programmed(4, &done(Some(None)), acks(1, 1), &Value::Null);
    assert_eq!(condition_text, served);
    let failed = |deployment: &Deployment, message: &str| {
        let present = json!({"conditions": [{"type": "DeploymentFailed", "status": "True",
                                             "observedGeneration": 4, "message": message}]});
        let mut conditions = vec![condition(ConditionType::Programmed, 4)];
        let inputs = ProgrammedInputs {
            deployment,
            are_proxies_gone: false,
            listeners: &BTreeMap::new(),
            present: &present,
        };
        report_deployment(&mut conditions, inputs);
        conditions.len() == 2
    };
    assert!(failed(&missing, ""));
    // A new leader has not looked yet.
    assert!(failed(&done(None), &why) && !failed(&done(None), "Service edge is taken"));
    assert!(!failed(&done(Some(None)), &why));
}
