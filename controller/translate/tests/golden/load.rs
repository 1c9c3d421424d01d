//! Objects of a case, without what `admit` would say about them.

use saphyr::{LoadableYamlNode, ScalarOwned, YamlOwned};
use serde_json::{Map, Value};
use translate::Object;

pub fn objects(text: &str) -> Vec<Object> {
    let docs = YamlOwned::load_from_str(text).expect("yaml");
    docs.iter()
        .map(json)
        .filter(|v| !v.is_null())
        .map(object)
        .collect()
}

fn object(mut v: Value) -> Object {
    let kind = v["kind"].as_str().expect("kind").to_owned();
    if kind != "Namespace" && v["metadata"]["namespace"].is_null() {
        v["metadata"]["namespace"] = "default".into();
    }
    fn de<T: serde::de::DeserializeOwned + Into<Object>>(v: Value) -> Object {
        serde_json::from_value::<T>(v.clone())
            .unwrap_or_else(|e| panic!("{e}: {v}"))
            .into()
    }
    use translate::api::*;
    match &*kind {
        "Gateway" => de::<Gateway>(v),
        "HTTPRoute" => de::<HttpRoute>(v),
        "ReferenceGrant" => de::<ReferenceGrant>(v),
        "Service" => de::<Service>(v),
        "EndpointSlice" => de::<EndpointSlice>(v),
        "Secret" => de::<Secret>(v),
        "ConfigMap" => de::<ConfigMap>(v),
        "Namespace" => de::<Namespace>(v),
        "Backend" => de::<Backend>(v),
        "TrafficPolicy" => de::<TrafficPolicy>(v),
        other => panic!("kind {other}"),
    }
}

fn json(y: &YamlOwned) -> Value {
    match y {
        YamlOwned::Value(ScalarOwned::Null) => Value::Null,
        YamlOwned::Value(ScalarOwned::Boolean(b)) => (*b).into(),
        YamlOwned::Value(ScalarOwned::Integer(i)) => (*i).into(),
        YamlOwned::Value(ScalarOwned::FloatingPoint(f)) => f.into_inner().into(),
        YamlOwned::Value(ScalarOwned::String(s)) => s.as_str().into(),
        YamlOwned::Sequence(s) => s.iter().map(json).collect(),
        YamlOwned::Mapping(m) => Value::Object(
            m.iter()
                .map(|(k, v)| (json(k).as_str().expect("key").to_owned(), json(v)))
                .collect::<Map<_, _>>(),
        ),
        other => panic!("{other:?}"),
    }
}
