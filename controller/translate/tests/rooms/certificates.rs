//! Certificates of ListenerSets beyond what a Gateway has room for.

use std::collections::BTreeSet;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use jiff::Timestamp;
use serde_json::json;
use translate::ObjectKind;
use translate::budgets::{Budget, Limits};
use translate::status::Status;
use translate::{Delta, Event, Object, Options, Translator};
use xds::model::Resource;

use crate::support::{GATEWAY_API, admitted, gateway};

/// A ListenerSet of 64 listeners, each with as large Secrets as Kubernetes takes, filled every proxy of the
/// Gateway, as soon as its tenant let them grow.
#[test]
fn certificates_of_listener_sets_beyond_the_limit_of_a_gateway_are_refused() {
    let one = 600;
    let mut translator = Translator::new(Options {
        budgets: Limits::default().with(Budget::SetCertificateBytes, 8 * one),
        ..Options::cluster()
    });
    let mut batch = vec![Event::Upsert(gateway(1))];
    batch.extend(["noisy", "quiet"].map(|namespace| Event::Upsert(secret(namespace))));
    batch.extend((0..20).map(|number| Event::Upsert(https("noisy", number, 1))));
    batch.extend((0..2).map(|number| Event::Upsert(https("quiet", 50 + number, 1))));
    batch.push(Event::Start);
    let delta = translator.apply(batch, Timestamp::UNIX_EPOCH);
    let with = with_certificate(&delta);
    assert!(
        ["quiet/set-050", "quiet/set-051"]
            .iter()
            .all(|it| with.contains(*it)),
        "{with:?}"
    );
    let served: Vec<&String> = with.iter().filter(|it| it.starts_with("noisy")).collect();
    assert!((1..20).contains(&served.len()), "{with:?}");
    assert!(
        served.iter().all(|it| ***it < *"noisy/set-010"),
        "the oldest: {with:?}"
    );
    let uses = translator.take_budget_changes();
    let of_certificates = { uses.iter() }
        .find(|((budget, gateway), _)| *budget == Budget::SetCertificateBytes && gateway.is_some())
        .and_then(|(_, used)| *used);
    let used = of_certificates.expect("they are counted");
    assert!(
        used.share > 1.0 && used.refused == 20 - served.len() as u64,
        "{used:?}"
    );
    let Some(Status::ListenerSet(status)) = status_of_set(&delta, "set-019") else {
        panic!("it has a status");
    };
    let text = format!("{status:?}");
    for part in [
        "TooManyListeners",
        "has no room for the certificates",
        "infra/edge",
    ] {
        assert!(text.contains(part), "{text}");
    }
    // One that grows takes the place of others of its namespace only.
    let grown = Event::Upsert(https("noisy", 0, 6));
    let delta = translator.apply(vec![grown], Timestamp::UNIX_EPOCH);
    assert_eq!(
        with_certificate(&delta),
        ["noisy/set-000".to_owned()].into()
    );
    let without: BTreeSet<&str> = { delta.resources.iter() }
        .filter(|(key, _)| key.key.starts_with("ListenerSet/"))
        .map(|(key, _)| &*key.key)
        .collect();
    assert!(
        without.iter().all(|it| it.contains("/noisy/")),
        "{without:?}"
    );
}

fn status_of_set<'a>(delta: &'a Delta, name: &str) -> Option<&'a Status> {
    let mut statuses = delta.statuses.iter();
    let found = statuses
        .find(|(object, _)| object.kind == ObjectKind::ListenerSet && &*object.name.name == name);
    found.and_then(|(_, status)| status.as_ref())
}

/// The ListenerSets whose listeners are sent with a certificate.
fn with_certificate(delta: &Delta) -> BTreeSet<String> {
    let listeners = delta.resources.iter().filter_map(|(_, it)| match it {
        Some(Resource::Listener(listener)) => Some(listener),
        _ => None,
    });
    let with = listeners.filter(|it| {
        it.protocol
            .tls()
            .is_some_and(|tls| tls.pairs().next().is_some())
    });
    let sets = with.filter_map(|it| it.key.listener_set());
    sets.map(|it| it.to_string()).collect()
}

fn secret(namespace: &str) -> Object {
    let pem = |bytes: &[u8]| BASE64_STANDARD.encode(bytes);
    let value = json!({
        "metadata": {"namespace": namespace, "name": "web"}, "type": "kubernetes.io/tls",
        "data": {
            "tls.crt": pem(include_bytes!("../pem/web.crt")),
            "tls.key": pem(include_bytes!("../pem/web.key")),
        },
    });
    admitted("", "Secret", value)
}

/// A ListenerSet with a host of its own, and as many references to its certificate.
fn https(namespace: &str, number: usize, certificates: usize) -> Object {
    let second = i64::try_from(number).expect("a small number");
    let created = Timestamp::from_second(second).expect("a time");
    let references = vec![json!({"name": "web"}); certificates];
    let value = json!({
        "metadata": {
            "namespace": namespace, "name": format!("set-{number:03}"),
            "creationTimestamp": created.to_string(),
        },
        "spec": {
            "parentRef": {"namespace": "infra", "name": "edge"},
            "listeners": [{
                "name": "https", "port": 8443, "protocol": "HTTPS",
                "hostname": format!("set-{number}.example.com"), "tls": {"certificateRefs": references},
            }],
        },
    });
    admitted(GATEWAY_API, "ListenerSet", value)
}
