use translate::api::TrafficPolicy;
use translate::status::{
    AncestorReference, Blame, Condition, ConditionStatus, ConditionType, PolicyAncestorStatus,
    PolicyStatus,
};
use xds::model::ObjectName;

use super::*;

fn policy(name: &str) -> ObjectRef {
    ObjectRef::of::<TrafficPolicy>(&ObjectName::new("app", name))
}

fn status(reason: Reason, message: &'static str) -> Status {
    let is_true = [Reason::Accepted, Reason::PartiallyProgrammed].contains(&reason);
    let condition = Condition {
        kind: ConditionType::Accepted,
        status: if is_true {
            ConditionStatus::True
        } else {
            ConditionStatus::False
        },
        reason,
        message: message.into(),
        observed_generation: 1,
        field: None,
        blame: Blame::Own,
    };
    Status::Policy(PolicyStatus {
        ancestors: vec![PolicyAncestorStatus {
            ancestor_ref: AncestorReference {
                group: String::new(),
                kind: "HTTPRoute".to_owned(),
                namespace: "app".to_owned(),
                name: "gone".to_owned(),
                section_name: None,
            },
            controller_name: "a/b".to_owned(),
            conditions: vec![condition],
        }],
    })
}

fn knowing(status: &Status) -> Knowledge<'_> {
    Knowledge {
        status: Some(status),
        ..Knowledge::default()
    }
}

impl Warnings {
    /// Takes the latest state of an object, and sends what there is to report.
    fn report(
        &mut self,
        object: &ObjectRef,
        knowledge: Knowledge<'_>,
        now: Instant,
    ) -> Option<Warning> {
        let warning = self.observe(object, knowledge, now);
        if warning.is_some() {
            self.sent(object, now);
        }
        warning
    }
}

/// Whoever waits for an Event to be sent takes no room from others: what is not sent has none.
#[test]
fn an_event_that_is_not_sent_takes_no_room() {
    let (mut warnings, now) = (Warnings::default(), Instant::now());
    let missing = status(Reason::TargetNotFound, "it does not exist");
    let accepted = status(Reason::Accepted, "the policy is valid");
    for number in 0..PER_PERIOD {
        let object = policy(&number.to_string());
        assert!(warnings.observe(&object, knowing(&missing), now).is_some());
        // The queue is full.
        warnings.postpone(&object, Tone::Warning);
    }
    let object = policy("p");
    assert!(warnings.report(&object, knowing(&missing), now).is_some());
    // That it is well again waits, too, until it is sent.
    let normal = warnings.observe(&object, knowing(&accepted), now);
    assert_eq!(normal.map(|it| it.tone), Some(Tone::Normal));
    warnings.postpone(&object, Tone::Normal);
    let normal = warnings.observe(&object, knowing(&accepted), now);
    assert_eq!(normal.map(|it| it.tone), Some(Tone::Normal));
    assert_eq!(warnings.observe(&object, knowing(&accepted), now), None);
}

#[test]
fn what_a_proxy_rejects_and_what_others_find_wrong_are_warnings() {
    let (mut warnings, now) = (Warnings::default(), Instant::now());
    let object = policy("p");
    let refused = Knowledge {
        refused: Some("bad port"),
        ..Knowledge::default()
    };
    let warning = warnings.report(&object, refused, now).expect("a warning");
    assert_eq!(warning.reason, "RefusedByProxy");
    assert!(
        warning.text.ends_with("stays: bad port"),
        "{}",
        warning.text
    );
    let fault = Fault {
        reason: Reason::InvalidCertificateRef,
        text: "it has no entry".to_owned(),
    };
    let blamed = Knowledge {
        blamed: std::slice::from_ref(&fault),
        ..Knowledge::default()
    };
    assert_eq!(
        warnings.report(&object, blamed, now),
        None,
        "it may end by itself"
    );
    let later = now + SETTLE;
    let warning = warnings.report(&object, blamed, later).expect("it lasts");
    assert_eq!(warning.reason, "InvalidCertificateRef");
    let normal = warnings.report(&object, Knowledge::default(), later);
    assert_eq!(normal.map(|it| it.tone), Some(Tone::Normal));
}

/// As when the objects of one `kubectl apply` arrive one by one.
#[test]
fn what_ends_within_seconds_is_not_reported() {
    let (mut warnings, now) = (Warnings::default(), Instant::now());
    let object = ObjectRef::of::<translate::api::HttpRoute>(&ObjectName::new("app", "shop"));
    let missing = status(Reason::BackendNotFound, "Service app/shop does not exist");
    let accepted = status(Reason::Accepted, "the route is valid");
    assert_eq!(warnings.report(&object, knowing(&missing), now), None);
    assert_eq!(warnings.next_at(now), Some(now + SETTLE));
    assert_eq!(warnings.report(&object, knowing(&accepted), now), None);
    assert_eq!(warnings.next_at(now), None);

    assert_eq!(warnings.report(&object, knowing(&missing), now), None);
    let later = now + SETTLE;
    assert_eq!(warnings.take_waiting(later), std::slice::from_ref(&object));
    let warning = warnings.report(&object, knowing(&missing), later);
    assert_eq!(warning.expect("it lasts").reason, "BackendNotFound");
    assert_eq!(warnings.next_at(later), None);
}

#[test]
fn endpoints_that_come_and_go_are_one_problem() {
    let (mut warnings, now) = (Warnings::default(), Instant::now());
    let object = ObjectRef::of::<translate::api::HttpRoute>(&ObjectName::new("app", "shop"));
    let accepted = status(Reason::Accepted, "the route is valid");
    let without = |count: usize| {
        let text =
            format!("Service app/shop has no endpoint that is ready: none of its {count} pods is");
        [Diagnosis {
            object: object.clone(),
            level: Level::Error,
            field: "spec.rules[0].backendRefs[0]".to_owned(),
            reason: Reason::NoReadyEndpoints,
            text,
            is_probably_ours: false,
        }]
    };
    let mut observe = |diagnoses: &[Diagnosis], now| {
        let knowledge = Knowledge {
            diagnoses,
            ..knowing(&accepted)
        };
        warnings.report(&object, knowledge, now).map(|it| it.tone)
    };
    assert_eq!(observe(&without(3), now), None);
    let later = now + SETTLE;
    assert_eq!(observe(&without(2), later), Some(Tone::Warning));
    assert_eq!(observe(&without(1), later), None);
    assert_eq!(observe(&[], later), Some(Tone::Normal));
}

#[test]
fn a_missing_target_is_reported_once_and_counted_until_it_exists() {
    let (mut warnings, now) = (Warnings::default(), Instant::now());
    let object = policy("tokens");
    let missing = status(Reason::TargetNotFound, "HTTPRoute app/gone does not exist");
    let warning = warnings.report(&object, knowing(&missing), now);
    assert_eq!(warning.expect("one").reason, "TargetNotFound");
    assert_eq!(warnings.report(&object, knowing(&missing), now), None);
    assert_eq!(warnings.missing(), 1);
    let accepted = status(Reason::Accepted, "the policy is valid");
    let well = warnings.report(&object, knowing(&accepted), now);
    assert_eq!(well.expect("it was reported").tone, Tone::Normal);
    assert_eq!(warnings.report(&object, knowing(&accepted), now), None);
    assert_eq!(warnings.missing(), 0);
    assert!(warnings.report(&object, knowing(&missing), now).is_some());
    let well = warnings.report(&object, Knowledge::default(), now);
    assert_eq!(well.expect("it was reported").tone, Tone::Normal);
    assert_eq!(warnings.missing(), 0);
}

#[test]
fn fields_without_effect_are_reported_and_unused_policies_are_not() {
    let (mut warnings, now) = (Warnings::default(), Instant::now());
    let partly = status(
        Reason::PartiallyProgrammed,
        "some fields have no effect here",
    );
    assert!(
        warnings
            .observe(&policy("a"), knowing(&partly), now)
            .is_some()
    );
    let unused = status(Reason::NotInUse, "the target carries no traffic");
    assert_eq!(warnings.report(&policy("b"), knowing(&unused), now), None);
    assert_eq!(warnings.missing(), 0);
}

#[test]
fn a_flood_of_warnings_is_limited() {
    let (mut warnings, now) = (Warnings::default(), Instant::now());
    let missing = status(Reason::TargetNotFound, "it does not exist");
    let mut warn = |number: usize, now| {
        let object = policy(&format!("p{number}"));
        warnings.report(&object, knowing(&missing), now).is_some()
    };
    assert_eq!((0..100).filter(|it| warn(*it, now)).count(), PER_PERIOD / 2);
    assert!(!warn(99, now) && warn(99, now + PERIOD));
    assert_eq!(warnings.missing(), 100);
}

#[test]
fn what_is_too_much_for_a_minute_is_reported_later_in_its_newest_state() {
    let (mut warnings, mut now) = (Warnings::default(), Instant::now());
    let missing = status(Reason::TargetNotFound, "it does not exist");
    let accepted = status(Reason::Accepted, "the policy is valid");
    let corrected = policy("p80");
    assert_eq!(warnings.next_at(now), None);
    let mut reported = BTreeSet::new();
    for number in 0..100 {
        let object = policy(&format!("p{number}"));
        // Each waits once.
        for _ in 0..3 {
            let warning = warnings.report(&object, knowing(&missing), now);
            reported.extend(warning.map(|_| object.clone()));
        }
    }
    assert_eq!(warnings.report(&corrected, knowing(&accepted), now), None);
    while let Some(at) = warnings.next_at(now) {
        assert!(at == now || at == now + PERIOD);
        now = at;
        for object in warnings.take_waiting(now) {
            let status = if object == corrected {
                &accepted
            } else {
                &missing
            };
            let warning = warnings.report(&object, knowing(status), now);
            reported.extend(warning.map(|_| object.clone()));
        }
    }
    assert_eq!(reported.len(), 99);
    assert!(!reported.contains(&corrected));
}

/// One tenant with thousands of mistakes delayed the Event about another one's open route for hours.
#[test]
fn a_flood_of_one_namespace_delays_no_warning_of_another() {
    let (mut warnings, now) = (Warnings::default(), Instant::now());
    let missing = status(Reason::TargetNotFound, "it does not exist");
    let of = |namespace: &str, name: &str| {
        ObjectRef::of::<TrafficPolicy>(&ObjectName::new(namespace, name))
    };
    for number in 0..1_000 {
        warnings.report(&of("noisy", &number.to_string()), knowing(&missing), now);
    }
    for quiet in ["one", "two", "three"] {
        let object = of(quiet, "tokens");
        let warning = warnings.report(&object, knowing(&missing), now);
        assert!(warning.is_some(), "{quiet} waits");
    }
    // Even if several make noise, whoever waits has its turn next, not after theirs.
    for number in 0..1_000 {
        for noisy in ["a", "noisy", "x", "z"] {
            warnings.report(&of(noisy, &number.to_string()), knowing(&missing), now);
        }
    }
    let late = of("quiet", "late");
    warnings.postpone(&late, Tone::Warning);
    let at = warnings.next_at(now).expect("something waits");
    assert!(at <= now + PERIOD);
    let taken = warnings.take_waiting(at);
    assert!(taken.contains(&late), "{taken:?}");
    let namespaces: BTreeSet<_> = taken.iter().map(|it| &it.name.namespace).collect();
    assert_eq!(namespaces.len(), taken.len(), "each has one turn");
}

#[test]
fn what_proxies_see_is_reported_once_whatever_its_details() {
    let (mut warnings, now) = (Warnings::default(), Instant::now());
    let object = policy("tokens");
    let accepted = status(Reason::Accepted, "the policy is valid");
    let seen = |text: &str| Warning {
        tone: Tone::Warning,
        reason: "KeysNotFetched".to_owned(),
        text: text.to_owned(),
    };
    let mut observe = |seen: Option<&Warning>| {
        let knowledge = Knowledge {
            seen,
            ..knowing(&accepted)
        };
        warnings.report(&object, knowledge, now)
    };
    assert_eq!(observe(Some(&seen("status 500"))), Some(seen("status 500")));
    assert_eq!(observe(Some(&seen("status 502"))), None);
    assert_eq!(observe(None).map(|it| it.tone), Some(Tone::Normal));
    assert_eq!(observe(Some(&seen("status 502"))), Some(seen("status 502")));
    assert_eq!(warnings.missing(), 0);
}
