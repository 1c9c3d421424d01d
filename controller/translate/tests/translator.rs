//! A translator outputs exactly the changes caused by a batch of events.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use jiff::Timestamp;
use translate::ObjectKind;
use translate::files::{Source, admit};
use translate::status::{ConditionStatus, ConditionType, Status};
use translate::{
    AssignedAddresses, CLUSTER_DOMAIN, Delta, Environment, Event, NoAddress, Object, ObjectRef,
    Options, Translator, api, session_keys,
};
use xds::model::{Kind, Model, ObjectName, Resource, SessionKey, SessionKeys};

fn objects(text: &str) -> Vec<Object> {
    let admitted = admit(&[Source::new("case.yaml", text)]);
    assert!(admitted.findings.is_empty(), "{:?}", admitted.findings);
    let objects = admitted.objects.into_iter();
    objects.map(|(object, _)| object).collect()
}

fn upserts(text: &str) -> Vec<Event> {
    objects(text).into_iter().map(Event::Upsert).collect()
}

fn changed(delta: &Delta) -> Vec<String> {
    let resources = delta.resources.iter();
    let resources = resources.map(|(key, resource)| match resource {
        Some(_) => format!("+ {key}"),
        None => format!("- {key}"),
    });
    resources.collect()
}

fn statuses(delta: &Delta) -> Vec<String> {
    let statuses = delta.statuses.iter();
    let statuses = statuses.map(|(object, status)| match status {
        Some(_) => format!("+ {object}"),
        None => format!("- {object}"),
    });
    statuses.collect()
}

fn started(text: &str) -> (Translator, Delta) {
    let mut translator = Translator::new(Options::machine());
    let mut batch = upserts(text);
    batch.push(Event::Start);
    let delta = translator.apply(batch, Timestamp::UNIX_EPOCH);
    (translator, delta)
}

#[test]
fn nothing_is_returned_before_the_start() {
    let mut translator = Translator::new(Options::machine());
    let before = translator.apply(upserts(GATEWAY), Timestamp::UNIX_EPOCH);
    assert_eq!(before, Delta::default());
    let after = translator.apply(vec![Event::Start], Timestamp::UNIX_EPOCH);
    let bind = "+ Bind `tcp/8080/default/gw`";
    let listener = "+ Listener `Gateway/default/gw/http`";
    assert_eq!(changed(&after), [bind, listener]);
}

/// 17 Gateways with policies, of whose statuses one has room for 15 of them, and the other for 16.
fn with_policies_of_many_gateways() -> (Translator, Delta) {
    in_a_cluster(include_str!("golden/policy-ancestors.yaml"))
}

fn in_a_cluster(text: &str) -> (Translator, Delta) {
    let mut translator = Translator::new(Options {
        environment: Environment::Cluster {
            domain: CLUSTER_DOMAIN.to_owned(),
            assigned: BTreeMap::new(),
            parameters: BTreeSet::new(),
            limits: BTreeMap::new(),
            last_limits: BTreeMap::new(),
            session_keys: BTreeMap::new(),
            class_parameters: BTreeMap::new(),
            has_trust_bundles: true,
        },
        ..Options::machine()
    });
    let mut batch = upserts(text);
    batch.push(Event::Start);
    let delta = translator.apply(batch, Timestamp::UNIX_EPOCH);
    (translator, delta)
}

/// `status.ancestors` has no room for the newest Gateways.
#[test]
fn gateways_beyond_the_ancestor_limit_of_a_policy_do_not_get_it() {
    let (_, delta) = with_policies_of_many_gateways();
    let needs = |gateway: &str, resource: &str| {
        let view = &delta.views[&ObjectName::new("default", gateway)];
        view.joined
            .iter()
            .any(|it| it.to_string().contains(resource))
    };
    let (service, policy) = (
        "Service/default/sealed",
        "XBackendTrafficPolicy/default/plain",
    );
    for (gateway, is_sealed, is_constrained) in [
        ("gw-00", true, true),
        ("gw-01", false, false),
        ("gw-15", true, true),
        ("gw-16", false, true),
    ] {
        assert_eq!(needs(gateway, service), is_sealed, "{gateway}");
        assert_eq!(needs(gateway, policy), is_constrained, "{gateway}");
        assert!(
            needs(gateway, "Service `Service/default/plain`"),
            "{gateway}"
        );
    }
}

#[test]
fn session_persistence_applies_to_the_gateways_that_a_policys_status_lists() {
    let (mut translator, delta) = with_policies_of_many_gateways();
    let mut model = Model::default();
    model.apply(delta.resources);
    let has_session = |model: &Model, gateway: &str| {
        let rule = format!("HTTPRoute/default/web/1/default/{gateway}");
        let route = model.routes.get(&*rule).expect("the rule is carried");
        let rule = route.rule.http().expect("a rule of HTTP");
        rule.backends[0].session.is_some()
    };
    assert!(has_session(&model, "gw-00"));
    assert!(has_session(&model, "gw-16"));
    assert!(!has_session(&model, "gw-01"), "it is the newest");

    let oldest = ObjectName::new("default", "gw-00");
    let batch = vec![Event::Delete(ObjectRef::of::<api::Gateway>(&oldest))];
    model.apply(translator.apply(batch, Timestamp::UNIX_EPOCH).resources);
    assert!(has_session(&model, "gw-01"), "there is room now");
}

#[test]
fn a_gateway_beyond_the_ancestor_limit_of_a_pickers_policy_does_not_reach_the_pool() {
    const POOL: &str = r"
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: chat}
spec:
  parentRefs: [{name: gw-00}, {name: gw-01}]
  rules: [{backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: models}]}]
---
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: models}
spec:
  selector: {matchLabels: {app: model}}
  targetPorts: [{number: 8000}]
  endpointPickerRef: {name: sealed, port: {number: 443}}
";
    let (mut translator, _) = with_policies_of_many_gateways();
    let delta = translator.apply(upserts(POOL), Timestamp::UNIX_EPOCH);
    let joined = |gateway: &str| {
        let view = &delta.views[&ObjectName::new("default", gateway)];
        view.joined.iter().any(|it| it.kind == Kind::Backend)
    };
    assert!(joined("gw-00"));
    assert!(!joined("gw-01"), "it would ask the picker without TLS");

    let mut statuses = delta.statuses.iter();
    let status = statuses.find(|(it, _)| it.kind == ObjectKind::InferencePool);
    let Some((_, Some(Status::Route(status)))) = status else {
        panic!("the pool has no status: {status:?}");
    };
    let accepted = |index: usize| &status.parents[index].conditions[0];
    assert_eq!(accepted(0).status, ConditionStatus::True);
    assert_eq!(accepted(1).status, ConditionStatus::False);
    let message = &accepted(1).message;
    assert!(
        message.contains("BackendTLSPolicy default/sealed"),
        "{message}"
    );
}

#[test]
fn an_x_backend_is_not_accepted_by_gateways_that_its_policy_leaves_out() {
    let policies = include_str!("golden/policy-ancestors.yaml");
    let other = r"
---
apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XBackend
metadata: {name: sealed}
spec:
  type: EndpointSelector
  port: {number: 443}
  endpointSelector: {matchLabels: {app: web}}
---
apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XBackend
metadata: {name: plain}
spec:
  type: EndpointSelector
  port: {number: 80}
  endpointSelector: {matchLabels: {app: web}}
";
    let x_backend = |name: &str, port: &str| {
        let reference = "{group: gateway.networking.x-k8s.io, kind: XBackend, name: NAME}";
        let reference = reference.replace("NAME", name);
        (format!("{{name: {name}, port: {port}}}"), reference)
    };
    let (sealed, plain) = (x_backend("sealed", "443"), x_backend("plain", "80"));
    let policies = policies
        .replace(&sealed.0, &sealed.1)
        .replace(&plain.0, &plain.1)
        .replace(r#"{group: "", kind: Service, name: sealed}"#, &sealed.1);
    let (_, delta) = in_a_cluster(&format!("{policies}{other}"));
    let accepted = |name: &str, gateway: &str| {
        let mut statuses = delta.statuses.iter();
        let status =
            statuses.find(|(it, _)| it.kind == ObjectKind::XBackend && &*it.name.name == name);
        let Some((_, Some(Status::Policy(status)))) = status else {
            panic!("the XBackend has no status: {status:?}");
        };
        let mut ancestors = status.ancestors.iter();
        let ancestor = ancestors.find(|it| it.ancestor_ref.name == gateway);
        ancestor.expect("it is listed").conditions[0].status
    };
    assert_eq!(accepted("sealed", "gw-00"), ConditionStatus::True);
    assert_eq!(accepted("sealed", "gw-01"), ConditionStatus::False);
    assert_eq!(accepted("plain", "gw-01"), ConditionStatus::True);
}

#[test]
fn targets_that_do_not_exist_take_no_places_of_gateways_in_a_policys_status() {
    let (mut translator, delta) = with_policies_of_many_gateways();
    let listed = |delta: &Delta| -> (Vec<String>, String) {
        let mut statuses = delta.statuses.iter();
        let status = statuses.find(|(it, _)| it.kind == ObjectKind::XBackendTrafficPolicy);
        let Some((_, Some(Status::Policy(status)))) = status else {
            panic!("the policy has no status: {status:?}");
        };
        let ancestors = status.ancestors.iter();
        let names = ancestors.map(|it| it.ancestor_ref.name.clone()).collect();
        let condition = &status.ancestors[0].conditions[0];
        (names, condition.message.to_string())
    };
    let (names, message) = listed(&delta);
    assert_eq!(names.len(), 16);
    assert!(names.iter().all(|it| it.starts_with("gw-")), "{names:?}");
    assert!(message.contains("Service default/gone"), "{message}");

    let gone = ["gw-00", "gw-02"].map(|it| ObjectName::new("default", it));
    let batch = gone.map(|it| Event::Delete(ObjectRef::of::<api::Gateway>(&it)));
    let delta = translator.apply(batch.to_vec(), Timestamp::UNIX_EPOCH);
    let (names, message) = listed(&delta);
    assert_eq!(names.len(), 16);
    assert_eq!(names[15], "gone");
    assert_eq!(message, "the policy is valid");
}

/// The message of the condition that tells a Gateway which policies leave it out.
fn left_out_of(delta: &Delta, gateway: &str) -> Option<String> {
    let gateway = ObjectName::new("default", gateway);
    let gateway = ObjectRef::of::<api::Gateway>(&gateway);
    let (_, status) = delta.statuses.iter().find(|(it, _)| *it == gateway)?;
    let Some(Status::Gateway(status)) = status else {
        panic!("{gateway} has no status");
    };
    let mut conditions = status.conditions.iter();
    let condition = conditions.find(|it| it.kind == ConditionType::PolicyAncestorLimitReached)?;
    Some(condition.message.to_string())
}

#[test]
fn a_gateway_beyond_the_ancestor_limit_of_a_policy_is_told_until_it_has_room() {
    let (mut translator, delta) = with_policies_of_many_gateways();
    assert_eq!(left_out_of(&delta, "gw-15"), None);
    let newest = left_out_of(&delta, "gw-01").expect("it is told");
    assert!(
        newest.contains("BackendTLSPolicy default/sealed"),
        "{newest}"
    );
    assert!(
        newest.contains("XBackendTrafficPolicy default/plain"),
        "{newest}"
    );
    let other = left_out_of(&delta, "gw-16").expect("it is told");
    assert!(!other.contains("XBackendTrafficPolicy"), "{other}");

    let oldest = ObjectName::new("default", "gw-00");
    let batch = vec![Event::Delete(ObjectRef::of::<api::Gateway>(&oldest))];
    let delta = translator.apply(batch, Timestamp::UNIX_EPOCH);
    let gateway = ObjectRef::of::<api::Gateway>(&ObjectName::new("default", "gw-16"));
    assert!(delta.statuses.iter().any(|(it, _)| *it == gateway));
    assert_eq!(left_out_of(&delta, "gw-16"), None);
    let newest = left_out_of(&delta, "gw-01").expect("it is told");
    assert!(!newest.contains("XBackendTrafficPolicy"), "{newest}");
}

#[test]
fn a_route_with_too_many_rules_at_too_many_listeners_is_rejected() {
    // 320 listeners, and up to 16 rules: 12 are few enough, 13 are too many.
    let listeners = |kind: &str, first: u16| {
        let all = (first..first + 64)
            .map(|port| format!("{{name: {kind}-{port}, port: {port}, protocol: HTTP}}"));
        all.collect::<Vec<_>>().join(", ")
    };
    let mut site = format!(
        "{{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {{name: gw}}, spec: \
         {{gatewayClassName: gateway, allowedListeners: {{namespaces: {{from: Same}}}}, listeners: [{}]}}}}\n",
        listeners("gw", 1000)
    );
    let mut parents = vec!["{name: gw}".to_owned()];
    for set in 1..5 {
        let _ = write!(
            site,
            "---\n{{apiVersion: gateway.networking.k8s.io/v1, kind: ListenerSet, metadata: {{name: \
             s{set}}}, spec: {{parentRef: {{name: gw}}, listeners: [{}]}}}}\n",
            listeners(&format!("s{set}"), 1000 + 100 * set)
        );
        parents.push(format!("{{name: s{set}, kind: ListenerSet}}"));
    }
    let route = |rules: usize| {
        let rule = "{filters: [{type: RequestRedirect, requestRedirect: {scheme: https}}]}";
        format!(
            "{{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {{name: web}}, \
             spec: {{parentRefs: [{}], rules: [{}]}}}}\n",
            parents.join(", "),
            vec![rule; rules].join(", ")
        )
    };
    let (mut translator, _) = started(&site);
    let delta = translator.apply(upserts(&route(12)), Timestamp::UNIX_EPOCH);
    assert_eq!(delta.resources.len(), 12, "each rule once");
    let delta = translator.apply(upserts(&route(13)), Timestamp::UNIX_EPOCH);
    // One rule closes it, in place of the first.
    let changes = changed(&delta);
    let removed = changes.iter().filter(|it| it.starts_with("- ")).count();
    assert_eq!((removed, changes.len() - removed), (11, 1));
    let mut statuses = delta
        .statuses
        .iter()
        .filter_map(|(_, status)| match status {
            Some(Status::Route(status)) => Some(status),
            _ => None,
        });
    let status = statuses.next().expect("of the route");
    let accepted = &status.parents[0].conditions[0];
    assert_eq!(accepted.status, ConditionStatus::False);
    assert!(accepted.message.contains("split the route"), "{accepted:?}");
}

#[test]
fn one_route_changes_one_resource_and_the_affected_statuses() {
    let (mut translator, _) = started(GATEWAY);
    let delta = translator.apply(upserts(ROUTE), Timestamp::UNIX_EPOCH);
    let route = "Route `HTTPRoute/default/web/0/default/gw`";
    assert_eq!(changed(&delta), [format!("+ {route}")]);
    let of_both = ["+ Gateway default/gw", "+ HTTPRoute default/web"];
    assert_eq!(statuses(&delta), of_both);

    let again = translator.apply(upserts(ROUTE), Timestamp::UNIX_EPOCH);
    assert!(again.is_empty(), "{again:?}");

    let edited = upserts(&ROUTE.replace("https", "http"));
    let delta = translator.apply(edited, Timestamp::UNIX_EPOCH);
    assert_eq!(changed(&delta), [format!("+ {route}")]);
    assert_eq!(statuses(&delta), [""; 0]);

    let gone = Event::Delete(objects(ROUTE)[0].object_ref());
    let delta = translator.apply(vec![gone], Timestamp::UNIX_EPOCH);
    assert_eq!(changed(&delta), [format!("- {route}")]);
    let of_both = ["+ Gateway default/gw", "- HTTPRoute default/web"];
    assert_eq!(statuses(&delta), of_both);
}

#[test]
fn a_new_generation_changes_only_the_status() {
    let (mut translator, _) = started(&format!("{GATEWAY}---{ROUTE}"));
    let edited = ROUTE.replace("name: web}", "name: web, generation: 2}");
    let delta = translator.apply(upserts(&edited), Timestamp::UNIX_EPOCH);
    assert_eq!(changed(&delta), [""; 0]);
    let [(_, Some(Status::Route(status)))] = &*delta.statuses else {
        panic!("{:?}", delta.statuses);
    };
    assert_eq!(status.parents[0].conditions[0].observed_generation, 2);
}

#[test]
fn applying_deltas_builds_the_model() {
    let (mut translator, delta) = started(GATEWAY);
    let mut model = Model::default();
    model.apply(delta.resources);
    model.apply(
        translator
            .apply(upserts(ROUTE), Timestamp::UNIX_EPOCH)
            .resources,
    );
    let kinds: Vec<Kind> = model.resources().map(|it| it.kind()).collect();
    assert_eq!(kinds, [Kind::Bind, Kind::Listener, Kind::Route]);
}

#[test]
fn a_gateway_is_managed_while_its_class_is_managed() {
    let options = Options {
        classes: [].into(),
        ..Options::cluster()
    };
    let mut translator = Translator::new(options);
    let mut batch = upserts(GATEWAY);
    batch.push(Event::Start);
    assert!(translator.apply(batch, Timestamp::UNIX_EPOCH).is_empty());
    let mut class = |is_ours| {
        let event = Event::Class("gateway".to_owned(), is_ours);
        statuses(&translator.apply(vec![event], Timestamp::UNIX_EPOCH))
    };
    assert_eq!(class(true), ["+ Gateway default/gw"]);
    assert_eq!(class(true), [""; 0]);
    assert_eq!(class(false), ["- Gateway default/gw"]);
}

#[test]
fn a_gateway_is_accepted_while_its_parameters_exist() {
    let gateway = GATEWAY.replace(
        "spec:",
        "spec:\n  infrastructure: {parametersRef: {group: gateway-system.io, kind: GatewayParameters, name: p}}",
    );
    let mut translator = Translator::new(Options::cluster());
    let mut batch = upserts(&gateway);
    batch.push(Event::Start);
    let mut is_accepted = |batch| {
        let delta = translator.apply(batch, Timestamp::UNIX_EPOCH);
        let [(_, Some(Status::Gateway(status)))] = &*delta.statuses else {
            panic!("{:?}", delta.statuses);
        };
        status.conditions[0].status == ConditionStatus::True
    };
    assert!(!is_accepted(batch));
    let name = ObjectName::new("default", "p");
    assert!(is_accepted(vec![Event::Parameters(name.clone(), true)]));
    assert!(!is_accepted(vec![Event::Parameters(name, false)]));
}

#[test]
fn a_wrong_reference_to_parameters_keeps_what_is_served() {
    let name = ObjectName::new("default", "p");
    let with = |group: &str, kind: &str, name: &str| {
        let reference = format!(
            "spec:\n  infrastructure: {{parametersRef: {{group: {group}, kind: {kind}, name: {name}}}}}"
        );
        upserts(&GATEWAY.replace("spec:", &reference))
    };
    for options in [Options::cluster(), Options::machine()] {
        let mut translator = Translator::new(options);
        let mut batch = with("gateway-system.io", "GatewayParameters", "p");
        batch.extend([Event::Parameters(name.clone(), true), Event::Start]);
        let first = translator.apply(batch, Timestamp::UNIX_EPOCH);
        assert!(!first.resources.is_empty());
        for (group, kind) in [
            ("gateway-system.i0", "GatewayParameters"),
            ("\"\"", "ConfigMap"),
        ] {
            let delta = translator.apply(with(group, kind, "p"), Timestamp::UNIX_EPOCH);
            assert!(delta.resources.is_empty(), "{:?}", delta.resources);
            let [(_, Some(Status::Gateway(status)))] = &*delta.statuses else {
                panic!("{:?}", delta.statuses);
            };
            assert_eq!(status.conditions[0].status, ConditionStatus::False);
        }
    }
}

/// While requests are served there, whoever publishes the addresses in DNS would take them away.
#[test]
fn a_wrong_reference_to_parameters_keeps_the_addresses() {
    let address = api::GatewayAddress {
        kind: "IPAddress".to_owned(),
        value: "192.0.2.1".to_owned(),
        routability: String::new(),
    };
    let assigned = AssignedAddresses {
        default: vec![address],
        cluster: Vec::new(),
        absence: NoAddress::Pending,
    };
    let gateway = ObjectName::new("default", "gw");
    for (group, kind, name) in [
        ("gateway-system.i0", "GatewayParameters", "p"),
        ("gateway-system.io", "GatewayParameters", "missing"),
        ("example.com", "Config", "p"),
    ] {
        let mut translator = Translator::new(Options::cluster());
        let mut batch = upserts(GATEWAY);
        batch.push(Event::AssignedAddresses(gateway.clone(), assigned.clone()));
        batch.push(Event::Start);
        translator.apply(batch, Timestamp::UNIX_EPOCH);
        let reference = format!(
            "spec:\n  infrastructure: {{parametersRef: {{group: {group}, kind: {kind}, name: {name}}}}}"
        );
        let batch = upserts(&GATEWAY.replace("spec:", &reference));
        let delta = translator.apply(batch, Timestamp::UNIX_EPOCH);
        let [(_, Some(Status::Gateway(status)))] = &*delta.statuses else {
            panic!("{:?}", delta.statuses);
        };
        assert_eq!(status.conditions[0].status, ConditionStatus::False);
        assert_eq!(status.addresses, assigned.default, "{group} {kind} {name}");
    }
}

/// They are a resource of their own, so that a new key changes nothing else.
#[test]
fn the_session_keys_of_a_gateway_go_to_its_proxies_alone() {
    let key = |byte| SessionKey::new(&[byte; 32]).expect("a key");
    let keys = |bytes: &[u8]| {
        let keys = bytes.iter().map(|byte| key(*byte)).collect();
        SessionKeys::new(keys, 0).expect("keys")
    };
    let gateway = ObjectName::new("default", "gw");
    let mut translator = Translator::new(Options::cluster());
    let mut batch = upserts(GATEWAY);
    batch.push(Event::SessionKeys(gateway.clone(), Some(keys(&[1]))));
    let unknown = ObjectName::new("default", "other");
    batch.push(Event::SessionKeys(unknown, Some(keys(&[2]))));
    batch.push(Event::Start);
    let delta = translator.apply(batch, Timestamp::UNIX_EPOCH);
    let sent = |delta: &Delta| {
        let policies = delta
            .resources
            .iter()
            .filter(|(key, _)| key.kind == Kind::Policy);
        policies.cloned().collect::<Vec<_>>()
    };
    let expected = |bytes: &[u8]| {
        let policy = Resource::from(session_keys::policy(&gateway, &keys(bytes)));
        vec![(session_keys::resource_key(&gateway), Some(policy))]
    };
    assert_eq!(sent(&delta), expected(&[1]));
    let change = Event::SessionKeys(gateway.clone(), Some(keys(&[3, 1])));
    let delta = translator.apply(vec![change.clone()], Timestamp::UNIX_EPOCH);
    assert_eq!(delta.resources, expected(&[3, 1]));
    assert!(delta.statuses.is_empty());
    let delta = translator.apply(vec![change], Timestamp::UNIX_EPOCH);
    assert!(delta.is_empty(), "nothing has changed");
    let removed = Event::SessionKeys(gateway.clone(), None);
    let delta = translator.apply(vec![removed], Timestamp::UNIX_EPOCH);
    assert_eq!(
        delta.resources,
        [(session_keys::resource_key(&gateway), None)]
    );
}

const GATEWAY: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gw}
spec:
  gatewayClassName: gateway
  listeners: [{name: http, port: 8080, protocol: HTTP}]
";

const ROUTE: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: web}
spec:
  parentRefs: [{name: gw, sectionName: http}]
  rules: [{filters: [{type: RequestRedirect, requestRedirect: {scheme: https}}]}]
";

/// What a Gateway without addresses says depends on why it has none.
#[test]
fn a_gateway_without_addresses_says_why() {
    let gateway = ObjectName::new("default", "gw");
    let cases = [
        (
            NoAddress::Pending,
            ConditionStatus::False,
            Some("waits for a load balancer"),
        ),
        (
            NoAddress::Nodes("no node has a proxy".to_owned()),
            ConditionStatus::False,
            Some("no node has a proxy"),
        ),
        (
            NoAddress::Unreadable("set the value".to_owned()),
            ConditionStatus::True,
            Some("set the value"),
        ),
        (NoAddress::Unneeded, ConditionStatus::True, None),
    ];
    for (absence, programmed, unassigned) in cases {
        let mut translator = Translator::new(Options::cluster());
        let assigned = AssignedAddresses {
            absence: absence.clone(),
            ..AssignedAddresses::default()
        };
        let mut batch = upserts(GATEWAY);
        batch.push(Event::AssignedAddresses(gateway.clone(), assigned));
        batch.push(Event::Start);
        let delta = translator.apply(batch, Timestamp::UNIX_EPOCH);
        let mut statuses = delta.statuses.iter();
        let status = statuses.find(|(object, _)| object.kind == ObjectKind::Gateway);
        let Some((_, Some(Status::Gateway(status)))) = status else {
            panic!("the Gateway has no status: {status:?}");
        };
        let condition = |kind| {
            let mut conditions = status.conditions.iter();
            conditions
                .find(|it| it.kind == kind)
                .expect("it is written")
        };
        let is_programmed = condition(ConditionType::Programmed).status;
        assert_eq!(is_programmed, programmed, "{absence:?}");
        let assigned = condition(ConditionType::AddressesAssigned);
        let message = &assigned.message;
        match unassigned {
            Some(text) => assert!(message.contains(text), "{absence:?}: {message}"),
            None => assert_eq!(assigned.status, ConditionStatus::True, "{message}"),
        }
    }
}
