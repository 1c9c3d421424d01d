use proptest::prelude::*;
use serde_json::json;

use super::*;

const OURS: &str = "gateway-system.io/controller";
const LATER: &str = "2026-11-24T03:00:00Z";

fn author() -> Author<'static> {
    Author {
        controller_name: OURS,
        generation: 100,
        now: LATER.parse().expect("a time"),
        name: NameUse::Own,
    }
}

fn accepted(status: &str, generation: i64) -> Value {
    json!({"type": "Accepted", "status": status, "reason": "Any", "message": "text",
           "observedGeneration": generation})
}

fn since(mut condition: Value, time: &str) -> Value {
    condition["lastTransitionTime"] = time.into();
    condition
}

fn parent(controller: &str, name: &str, conditions: impl Into<Value>) -> Value {
    json!({
        "parentRef": {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": name},
        "controllerName": controller, "conditions": conditions.into(),
    })
}

fn parents(entries: Vec<Value>) -> DesiredStatus {
    DesiredStatus::Entries(Entries::Parents, entries)
}

fn whole(value: Value) -> DesiredStatus {
    match value {
        Value::Object(fields) => DesiredStatus::Whole(fields),
        other => panic!("no object: {other}"),
    }
}

fn patched(present: &Value, desired: &DesiredStatus) -> Value {
    let mut after = present.clone();
    if let Comparison::Differs { fields, .. } = compare(present, desired, author()) {
        if after.is_null() {
            after = json!({});
        }
        let object = after.as_object_mut().expect("an object");
        object.extend(fields);
    }
    after
}

#[test]
fn a_first_status_gets_transition_times() {
    let desired = whole(json!({"addresses": [], "conditions": [accepted("True", 1)]}));
    let expected = json!({"conditions": [since(accepted("True", 1), LATER)]});
    assert_eq!(patched(&Value::Null, &desired), expected);
}

#[test]
fn the_transition_time_changes_only_with_the_status() {
    let earlier = "2026-01-01T00:00:00Z";
    let present = json!({"conditions": [since(accepted("True", 1), earlier)]});
    let desired = whole(json!({"conditions": [accepted("True", 2)]}));
    let expected = json!({"conditions": [since(accepted("True", 2), earlier)]});
    assert_eq!(patched(&present, &desired), expected);
    let desired = whole(json!({"conditions": [accepted("False", 2)]}));
    let expected = json!({"conditions": [since(accepted("False", 2), LATER)]});
    assert_eq!(patched(&present, &desired), expected);
}

/// As after a restoration from a backup, with a new object that begins with generation 1.
#[test]
fn a_status_of_a_generation_that_the_object_does_not_have_is_replaced() {
    let author = Author {
        generation: 3,
        ..author()
    };
    let is_newer = |newest: i64| {
        let present = json!({"conditions": [accepted("False", newest)]});
        let desired = whole(json!({"conditions": [accepted("True", 2)]}));
        let of_whole = compare(&present, &desired, author);
        let present = json!({"parents": [parent(OURS, "edge", [accepted("False", newest)])]});
        let desired = parents(vec![parent(OURS, "edge", [accepted("True", 2)])]);
        let of_entries = compare(&present, &desired, author);
        assert_eq!(
            of_whole == Comparison::Newer,
            of_entries == Comparison::Newer
        );
        of_whole == Comparison::Newer
    };
    assert!(is_newer(3));
    assert!(!is_newer(40));
    assert!(!is_newer(2));
}

#[test]
fn conditions_of_ours_leave_room_for_those_of_others() {
    let condition = |kind: &str| json!({"type": kind, "status": "True"});
    let others = ["Theirs", "Mine"].map(condition);
    let present = json!({"conditions": others});
    let ours = OWN_CONDITIONS.map(condition);
    let after = patched(&present, &whole(json!({"conditions": ours})));
    let after = after["conditions"].as_array().expect("conditions").iter();
    let kinds: Vec<_> = after
        .map(|it| it["type"].as_str().expect("a type"))
        .collect();
    assert_eq!(kinds[..2], ["Theirs", "Mine"]);
    assert_eq!(kinds[2..4], ["Accepted", "Programmed"]);
    assert_eq!(kinds.len(), MAX_CONDITIONS);
    let alone = patched(&Value::Null, &whole(json!({"conditions": ours})));
    assert_eq!(
        alone["conditions"].as_array().map(Vec::len),
        Some(MAX_OWN_CONDITIONS)
    );
}

#[test]
fn a_status_of_a_newer_generation_is_kept() {
    let present = json!({"conditions": [since(accepted("True", 3), LATER)]});
    let desired = whole(json!({"conditions": [accepted("False", 2)]}));
    assert_eq!(compare(&present, &desired, author()), Comparison::Newer);
    let present =
        json!({"parents": [parent(OURS, "a", json!([since(accepted("True", 3), LATER)]))]});
    let desired = parents(vec![parent(OURS, "a", json!([accepted("True", 2)]))]);
    assert_eq!(compare(&present, &desired, author()), Comparison::Newer);
}

#[test]
fn conditions_of_others_are_kept_and_obsolete_ones_of_ours_removed() {
    let foreign = json!({"type": "example.com/Checked", "status": "True", "extra": [1.5, null]});
    let expired = json!({"type": "CertificateExpired", "status": "True"});
    let present = json!({"conditions": [expired, foreign, since(accepted("True", 1), LATER)]});
    let desired = whole(json!({"conditions": [accepted("True", 1)]}));
    let expected = json!({"conditions": [foreign, since(accepted("True", 1), LATER)]});
    assert_eq!(patched(&present, &desired), expected);
}

#[test]
fn listeners_keep_the_conditions_of_others_by_name() {
    let foreign = json!({"type": "example.com/Checked", "status": "True"});
    let present = json!({"listeners": [
        {"name": "gone", "attachedRoutes": 1, "conditions": [foreign]},
        {"name": "web", "attachedRoutes": 1, "conditions": [foreign]},
    ]});
    let desired = whole(json!({"listeners": [
        {"name": "web", "attachedRoutes": 2, "conditions": [accepted("True", 1)]},
    ]}));
    let expected = json!({"listeners": [
        {"name": "web", "attachedRoutes": 2,
         "conditions": [foreign, since(accepted("True", 1), LATER)]},
    ]});
    assert_eq!(patched(&present, &desired), expected);
}

#[test]
fn entries_for_former_parents_are_removed() {
    let theirs = parent("example.com/other", "a", json!([accepted("True", 9)]));
    let present = json!({"parents": [
        parent(OURS, "gone", json!([accepted("True", 1)])), theirs,
        parent(OURS, "kept", json!([since(accepted("True", 1), LATER)])),
    ]});
    let kept = parent(OURS, "kept", json!([accepted("True", 1)]));
    let expected = json!({"parents": [
        theirs, parent(OURS, "kept", json!([since(accepted("True", 1), LATER)])),
    ]});
    assert_eq!(patched(&present, &parents(vec![kept])), expected);
    let expected = json!({"parents": [theirs]});
    assert_eq!(patched(&present, &parents(vec![])), expected);
}

#[test]
fn a_parent_reference_equals_one_with_explicit_defaults() {
    let mut short = parent(OURS, "a", json!([since(accepted("True", 1), LATER)]));
    short["parentRef"] = json!({"name": "a"});
    let full = parent(OURS, "a", json!([accepted("True", 1)]));
    let written = parent(OURS, "a", json!([since(accepted("True", 1), LATER)]));
    let after = patched(&json!({"parents": [short]}), &parents(vec![full]));
    assert_eq!(after, json!({"parents": [written]}));
}

#[test]
fn entries_are_limited_to_the_api_servers_maximum() {
    let others = |count| {
        let names = (0..count).map(|it| parent("example.com/other", &format!("o{it}"), json!([])));
        names.collect::<Vec<_>>()
    };
    let desired = |count| {
        let names = (0..count).map(|it| parent(OURS, &format!("w{it}"), json!([])));
        names.collect::<Vec<_>>()
    };
    for (kind, field, capacity) in [
        (Entries::Parents, "parents", 32),
        (Entries::Ancestors, "ancestors", 16),
        (Entries::BackendAncestors, "ancestors", 32),
    ] {
        let present = json!({field: others(capacity - 2)});
        let desired: Vec<Value> = desired(5);
        let desired = DesiredStatus::Entries(kind, desired);
        let result = compare(&present, &desired, author());
        let Comparison::Differs { fields, left_out } = result else {
            // Ancestors are distinguished by `ancestorRef`, which these entries do not have.
            panic!("{result:?}");
        };
        assert_eq!(left_out, 3, "{kind:?}");
        assert_eq!(fields[field].as_array().map(Vec::len), Some(capacity));
    }
}

fn any_condition() -> impl Strategy<Value = Value> {
    let kind = prop::sample::select(vec![
        "Accepted",
        "Programmed",
        "Attached",
        "x.io/A",
        "x.io/B",
    ]);
    let status = prop::sample::select(vec!["True", "False"]);
    (kind, status, 0..4_i64, "[a-z]{0,3}").prop_map(|(kind, status, generation, text)| {
        json!({"type": kind, "status": status, "message": text, "reason": "R",
               "observedGeneration": generation, "lastTransitionTime": "2020-01-01T00:00:00Z"})
    })
}

fn any_conditions() -> impl Strategy<Value = Vec<Value>> {
    prop::collection::vec(any_condition(), 0..5).prop_map(|list| {
        let by_type = list.into_iter().map(|it| (it["type"].to_string(), it));
        by_type.collect::<BTreeMap<_, _>>().into_values().collect()
    })
}

fn any_entries(controllers: &'static [&'static str]) -> impl Strategy<Value = Vec<Value>> {
    let entry = (
        prop::sample::select(controllers.to_vec()),
        "[a-d]",
        any_conditions(),
    );
    let entry = entry.prop_map(|(controller, name, list)| parent(controller, &name, list));
    prop::collection::vec(entry, 0..6)
}

fn by_reference(entries: Vec<Value>) -> Vec<Value> {
    let entries = entries.into_iter().map(|mut it| {
        let conditions = it["conditions"].as_array_mut().expect("a list");
        conditions.retain(|it| !it["type"].as_str().is_some_and(|kind| kind.contains('/')));
        for condition in conditions {
            condition["observedGeneration"] = 9.into();
            condition
                .as_object_mut()
                .expect("an object")
                .remove("lastTransitionTime");
        }
        (it["parentRef"].to_string(), it)
    });
    entries.collect::<BTreeMap<_, _>>().into_values().collect()
}

proptest! {
    /// For any present status: a second comparison finds no difference, entries of others keep
    /// their order, and ours is present once.
    #[test]
    fn a_merge_is_idempotent_and_keeps_entries_of_others(
        present in any_entries(&[OURS, "example.com/one", "example.com/two"]),
        desired in any_entries(&[OURS]).prop_map(by_reference),
    ) {
        let is_ours = |it: &&Value| it["controllerName"] == OURS;
        let foreign = |status: &Value| -> Vec<Value> {
            let entries = list(status, "parents").iter();
            entries.filter(|it| !is_ours(it)).cloned().collect()
        };
        let present = json!({"parents": present});
        let wanted_entries = desired.len();
        let desired = parents(desired);
        let after = patched(&present, &desired);
        prop_assert_eq!(foreign(&present), foreign(&after));
        prop_assert_eq!(compare(&after, &desired, author()), Comparison::Equal);
        let ours = list(&after, "parents").iter().filter(is_ours);
        prop_assert_eq!(ours.clone().count(), wanted_entries);
        for entry in ours {
            for condition in list(entry, CONDITIONS) {
                prop_assert!(condition.get(TRANSITION).is_some(), "{}", condition);
            }
        }
    }

    #[test]
    fn a_merge_keeps_conditions_of_others(before in any_conditions(), desired in any_conditions()) {
        let is_foreign = |it: &&Value| it["type"].as_str().is_some_and(|kind| kind.contains('/'));
        let desired: Vec<Value> = desired.iter().filter(|it| !is_foreign(it)).cloned().collect();
        let after = conditions(&before, &desired, author().now);
        let kept: Vec<&Value> = after.iter().filter(is_foreign).collect();
        let there: Vec<&Value> = before.iter().filter(is_foreign).collect();
        prop_assert_eq!(kept, there);
        let ours = after.iter().filter(|it| !is_foreign(it)).count();
        prop_assert_eq!(ours, desired.len());
    }
}

/// The standard channel's Gateway has no `routability`: an API server drops it on writes.
#[test]
fn a_missing_routability_is_written_once() {
    let address = |extra: Value| {
        let mut address = json!({"type": "IPAddress", "value": "192.0.2.1"});
        let fields = address.as_object_mut().expect("an object");
        fields.extend(extra.as_object().expect("an object").clone());
        address
    };
    let desired = |generation: i64| {
        whole(json!({
            "addresses": [address(json!({"routability": ""}))],
            "conditions": [accepted("True", generation)],
        }))
    };
    let present = json!({
        "addresses": [address(json!({}))],
        "conditions": [since(accepted("True", 1), LATER)],
    });
    assert_eq!(compare(&present, &desired(1), author()), Comparison::Equal);
    let after = patched(&present, &desired(2));
    assert_eq!(
        after["addresses"],
        json!([address(json!({"routability": ""}))])
    );
    let moved = json!({"addresses": [json!({"type": "IPAddress", "value": "192.0.2.2"})]});
    let after = patched(&moved, &desired(1));
    assert_eq!(after["addresses"][0]["value"], "192.0.2.1");
}

/// It may belong to a Gateway of a class that the other installation serves.
#[test]
fn an_unwanted_entry_stays_while_another_installation_has_the_same_name() {
    let present = json!({"parents": [{"controllerName": OURS, "parentRef": {"name": "other"}, "conditions": []}]});
    let desired = DesiredStatus::Entries(Entries::Parents, Vec::new());
    let shared = Author {
        name: NameUse::Shared,
        ..author()
    };
    assert_eq!(compare(&present, &desired, shared), Comparison::Equal);
    assert!(matches!(
        compare(&present, &desired, author()),
        Comparison::Differs { .. }
    ));
}
