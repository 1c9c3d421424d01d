//! The objects of a case: admitted, or for cases of what no file gets past `admit` with (but a
//! cluster with other definitions might hold) only parsed.

use serde::de::DeserializeOwned;
use serde_json::Value;
use translate::Object;
use translate::admit::{Severity, Source, admit};
use translate::api::{
    Backend, EndpointSlice, Gateway, HttpRoute, ReferenceGrant, Secret, Service, TrafficPolicy,
};

use super::yaml;

pub(crate) fn objects(text: &str) -> Vec<Object> {
    if text.lines().any(|line| line == "#! unadmitted") {
        return yaml::documents(text).into_iter().map(parsed).collect();
    }
    let admitted = admit(&[Source::new("case.yaml", text)]);
    let mut errors = admitted.findings.iter();
    let error = errors.find(|finding| finding.severity == Severity::Error);
    assert!(error.is_none(), "not admitted: {error:?}");
    admitted
        .objects
        .into_iter()
        .map(|(object, _)| object)
        .collect()
}

fn parsed(mut object: Value) -> Object {
    let namespace = &mut object["metadata"]["namespace"];
    if namespace.is_null() {
        *namespace = "default".into();
    }
    let kind = object["kind"].as_str().expect("a kind").to_owned();
    match &*kind {
        "Gateway" => typed::<Gateway>(object),
        "EndpointSlice" => typed::<EndpointSlice>(object),
        "HTTPRoute" => typed::<HttpRoute>(object),
        "ReferenceGrant" => typed::<ReferenceGrant>(object),
        "Service" => typed::<Service>(object),
        "Secret" => typed::<Secret>(object),
        "Backend" => typed::<Backend>(object),
        "TrafficPolicy" => typed::<TrafficPolicy>(object),
        other => panic!("add `{other}` to this list"),
    }
}

fn typed<T: DeserializeOwned + Into<Object>>(object: Value) -> Object {
    serde_json::from_value::<T>(object)
        .expect("an object")
        .into()
}
