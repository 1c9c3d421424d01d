//! Proxies of the release before get the rules that its controller sent them.
//!
//! `former/rules.bin` has the rules of `former/objects.yaml` as that controller encoded them, each a
//! length-delimited resource of delta xDS. It goes with their form: see `xds/src/encode/former.rs`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use bytes::{Buf as _, Bytes};
use jiff::Timestamp;
use prost::Message as _;
use translate::files::{Severity, Source, admit};
use translate::{Event, Object, Options, Translator};
use xds::decode;
use xds::delta::{Encoded, Member, Poll, ProxySession, Publication, Views};
use xds::discovery::{DeltaDiscoveryRequest, DeltaDiscoveryResponse, Resource};
use xds::model::{self, Features, Kind, Model, ObjectName};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/former")
}

fn objects() -> Vec<Object> {
    let text = std::fs::read_to_string(folder().join("objects.yaml")).expect("it is there");
    let admitted = admit(&[Source::new("objects.yaml", text)]);
    let mut findings = admitted.findings.iter();
    let error = findings.find(|it| it.severity == Severity::Error);
    assert!(error.is_none(), "{error:?}");
    admitted.objects.into_iter().map(|(it, _)| it).collect()
}

fn recorded() -> BTreeMap<String, Resource> {
    let bytes = std::fs::read(folder().join("rules.bin")).expect("it is there");
    let mut bytes = Bytes::from(bytes);
    let mut rules = BTreeMap::new();
    while bytes.has_remaining() {
        let rule = Resource::decode_length_delimited(&mut bytes).expect("whole resources");
        rules.insert(rule.name.clone(), rule);
    }
    assert_eq!(rules.len(), 9);
    rules
}

/// The changes of a translation, published.
fn published() -> (Views, Model) {
    let mut translator = Translator::new(Options::cluster());
    let mut batch: Vec<Event> = objects().into_iter().map(Event::Upsert).collect();
    batch.push(Event::Start);
    let delta = translator.apply(batch, Timestamp::UNIX_EPOCH);
    let mut publication = Publication::default();
    let mut model = Model::default();
    for (key, resource) in delta.resources {
        let resource = resource.expect("everything is new");
        let encoded = Arc::new(Encoded::new(&resource));
        model.insert(resource);
        publication.resources.push((key, Some(encoded)));
    }
    for (gateway, change) in delta.views {
        let joined = change.joined.into_iter();
        let members = joined.map(|key| (gateway.clone(), key, Member::Joined));
        publication.members.extend(members);
    }
    let mut views = Views::default();
    views.publish(publication);
    (views, model)
}

#[test]
fn a_proxy_of_the_release_before_gets_what_its_controller_sent() {
    let (mut views, _) = published();
    let gateway = ObjectName::new("infra", "edge");
    let mut session = ProxySession::begin(&mut views, gateway, Features::NONE);
    for kind in Kind::ALL {
        let request = DeltaDiscoveryRequest {
            type_url: kind.type_url().to_owned(),
            ..DeltaDiscoveryRequest::default()
        };
        let answered = session.receive(request, Instant::now());
        answered.expect("a known type");
    }
    let Poll::Derive(derivation) = session.poll(&mut views, Instant::now()) else {
        panic!("their form has to be derived");
    };
    views.install(derivation.run());
    let Poll::Send(unsent) = session.poll(&mut views, Instant::now()) else {
        panic!("it sends everything");
    };
    let mut sent = BTreeMap::new();
    for response in session.send(unsent) {
        let bytes = response.body.chain(response.tail);
        let response = DeltaDiscoveryResponse::decode(bytes).expect("a response");
        if response.type_url == Kind::Route.type_url() {
            let rules = response.resources.into_iter();
            sent.extend(rules.map(|rule| (rule.name.clone(), rule)));
        }
    }
    assert_eq!(sent, recorded());
}

/// A proxy that was updated before its controller.
#[test]
fn a_proxy_understands_the_rules_of_the_controller_of_the_release_before() {
    let (_, current) = published();
    let mut former = Model::default();
    for (name, rule) in recorded() {
        let content = rule.resource.expect("it has content");
        let decoded = decode::resource(Kind::Route, &content.value);
        let decoded = decoded.unwrap_or_else(|problems| panic!("{name}: {problems}"));
        former.insert(decoded);
    }
    let shown = |model: &Model| {
        let rules = model.rules_at_listeners();
        rules
            .map(|it| (it.key(), it.attachment.clone(), it.route.rule.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(shown(&former), shown(&current));
    let rules: Vec<&str> = { current.routes.values() }
        .map(|rule: &Arc<model::Route>| rule.key.as_str())
        .collect();
    let expected = [
        "HTTPRoute/app/everywhere/0/infra/edge",
        "HTTPRoute/app/shop/0/infra/edge",
        "HTTPRoute/app/shop/1/infra/edge",
        "TCPRoute/app/bytes/0/infra/edge",
    ];
    assert_eq!(rules, expected, "each comes once");
}
