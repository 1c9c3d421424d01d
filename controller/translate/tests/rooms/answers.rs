//! Answers and error pages: bodies that change, and those beyond what a Gateway has room for.

use serde_json::{Value, json};
use translate::budgets::Budget;
use translate::{Delta, Event, Object, Options, Translator};
use xds::model::{AnswerContent, Policy};

use super::networks::{then, unresolved};
use super::{apply, metadata, policies, refused, route, translator};
use crate::support::{GATEWAY_API, admitted, gateway};

fn policy(number: usize, field: &str, value: &Value) -> Object {
    let value = json!({
        "metadata": metadata("noisy", &format!("p-{number:02}"), number),
        "spec": {
            "targetRefs": [
                {"group": GATEWAY_API, "kind": "HTTPRoute", "name": format!("r-{number:02}")},
            ],
            field: value,
        },
    });
    admitted("gateway-system.io", "TrafficPolicy", value)
}

/// A ConfigMap with this page.
fn page(text: &str) -> Object {
    let value = json!({"metadata": metadata("noisy", "pages", 0), "data": {"page.html": text}});
    admitted("", "ConfigMap", value)
}

/// The body of the only policy that changed, if it was ever read.
fn body(delta: &Delta) -> Option<String> {
    let policies = policies(delta);
    let [Policy { spec, .. }] = &*policies else {
        panic!("{policies:?}");
    };
    match &spec.respond.as_ref().expect("an answer").content {
        AnswerContent::Given(content) => {
            Some(String::from_utf8_lossy(content.body.bytes()).into_owned())
        }
        AnswerContent::Missing => None,
        AnswerContent::Empty => panic!("it has a body"),
    }
}

#[test]
fn a_body_that_was_read_stays_until_it_is_replaced() {
    let mut translator = Translator::new(Options::cluster());
    let answer = json!({"status": 503, "bodyFrom": {"name": "pages", "key": "page.html"}});
    let objects = vec![gateway(1), route("noisy", 0), policy(0, "respond", &answer)];
    let delta = apply(&mut translator, objects);
    assert_eq!(body(&delta), None);
    let message = unresolved(&delta).expect("a problem");
    assert!(
        message.contains("ConfigMap noisy/pages does not exist"),
        "{message}"
    );
    assert!(
        message.contains("its status and a text of the gateway"),
        "{message}"
    );

    let delta = then(&mut translator, Event::Upsert(page("soon")));
    assert_eq!(
        (body(&delta), unresolved(&delta)),
        (Some("soon".to_owned()), None)
    );

    let large = "x".repeat(256 * 1024 + 1);
    let delta = then(&mut translator, Event::Upsert(page(&large)));
    assert!(policies(&delta).is_empty(), "nothing changes for proxies");
    let message = unresolved(&delta).expect("a problem");
    assert!(
        message.contains("has 262145 bytes: use 262144 or less"),
        "{message}"
    );
    assert!(
        message.contains("previous version stays in effect, with 4 bytes"),
        "{message}"
    );

    let delta = then(&mut translator, Event::Upsert(page(&large[1..])));
    assert_eq!(body(&delta).map(|it| it.len()), Some(256 * 1024));

    let delta = then(&mut translator, Event::Delete(page("").object_ref()));
    assert!(policies(&delta).is_empty(), "nothing changes for proxies");
    assert!(unresolved(&delta).is_some());
}

#[test]
fn answers_beyond_the_budget_of_a_gateway_close_what_they_are_for() {
    let mut translator = translator(Budget::GatewayAnswerBytes, 1000);
    let mut objects = vec![gateway(1)];
    for number in 0..3 {
        objects.push(route("noisy", number));
        let answer = json!({"status": 503, "body": "x".repeat(400)});
        objects.push(policy(number, "respond", &answer));
    }
    // Pages close nothing.
    objects.push(route("noisy", 3));
    let pages = json!([{
        "statuses": ["404"],
        "bodies": [{"contentType": "text/plain", "body": "x".repeat(400)}],
    }]);
    objects.push(policy(3, "errorPages", &pages));
    let delta = apply(&mut translator, objects);
    let full = ["noisy/p-02", "noisy/p-03"].map(str::to_owned);
    assert_eq!(refused(&delta), full.into());
    let policies = policies(&delta);
    let closed: Vec<&str> = { policies.iter() }
        .filter(|it| it.spec.is_invalid)
        .map(|it| it.key.as_str())
        .collect();
    assert!(
        matches!(closed[..], [only] if only.contains("p-02")),
        "{closed:?}"
    );
}

/// An empty answer, as of a closed path, needs no room.
#[test]
fn an_answer_without_body_counts_for_nothing() {
    let mut translator = translator(Budget::GatewayAnswers, 0);
    let answer = json!({"status": 410});
    let objects = vec![gateway(1), route("noisy", 0), policy(0, "respond", &answer)];
    let delta = apply(&mut translator, objects);
    assert!(refused(&delta).is_empty());
}
