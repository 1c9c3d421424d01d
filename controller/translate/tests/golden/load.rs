//! The objects of a case: admitted; or only parsed, for objects that `admit` would reject in a file
//! but a cluster with other definitions might hold; or, for cases of rejections, the objects in
//! force instead. `@web.crt` stands for the file of that name in `tests/pem`, in base64, and
//! `@pem:web.crt` for its text, to be quoted.

use std::fs;
use std::path::Path;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde::de::DeserializeOwned;
use serde_json::Value;
use translate::Object;
use translate::api::{
    Backend, BackendTlsPolicy, ConfigMap, EndpointSlice, Gateway, GrpcRoute, HttpRoute,
    ListenerSet, ReferenceGrant, Secret, Service, TcpRoute, TlsRoute, TrafficPolicy, UdpRoute,
};
use translate::files::{Configuration, Severity, Source, admit};

use super::yaml;

pub(crate) fn objects(text: &str) -> Vec<Object> {
    let text = &*with_files(text);
    if text.lines().any(|line| line == "#! unadmitted") {
        return yaml::documents(text).into_iter().map(parsed).collect();
    }
    let source = Source::new("case.yaml", text);
    if text.lines().any(|line| line == "#! refused") {
        let mut configuration = Configuration::default();
        configuration.reload(&[source]);
        return configuration.in_force().collect();
    }
    let admitted = admit(&[source]);
    let mut errors = admitted.findings.iter();
    let error = errors.find(|finding| finding.severity == Severity::Error);
    assert!(error.is_none(), "not admitted: {error:?}");
    admitted
        .objects
        .into_iter()
        .map(|(object, _)| object)
        .collect()
}

fn with_files(text: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pem");
    let files = fs::read_dir(folder).expect("the folder exists");
    files.fold(text.to_owned(), |text, file| {
        let path = file.expect("an entry can be read").path();
        let name = path.file_name().expect("a name").to_string_lossy();
        let bytes = fs::read(&path).expect("a file can be read");
        // In a quoted text of YAML, two line breaks are one.
        let pem = String::from_utf8_lossy(&bytes).replace('\n', "\n\n");
        let text = text.replace(&format!("@pem:{name}"), &pem);
        text.replace(&format!("@{name}"), &BASE64_STANDARD.encode(bytes))
    })
}

fn parsed(mut object: Value) -> Object {
    let namespace = &mut object["metadata"]["namespace"];
    if namespace.is_null() {
        *namespace = "default".into();
    }
    let kind = object["kind"].as_str().expect("a kind").to_owned();
    match &*kind {
        "Gateway" => typed::<Gateway>(object),
        "ListenerSet" => typed::<ListenerSet>(object),
        "BackendTLSPolicy" => typed::<BackendTlsPolicy>(object),
        "EndpointSlice" => typed::<EndpointSlice>(object),
        "HTTPRoute" => typed::<HttpRoute>(object),
        "GRPCRoute" => typed::<GrpcRoute>(object),
        "TLSRoute" => typed::<TlsRoute>(object),
        "TCPRoute" => typed::<TcpRoute>(object),
        "UDPRoute" => typed::<UdpRoute>(object),
        "ReferenceGrant" => typed::<ReferenceGrant>(object),
        "Service" => typed::<Service>(object),
        "Secret" => typed::<Secret>(object),
        "Backend" => typed::<Backend>(object),
        "ConfigMap" => typed::<ConfigMap>(object),
        "TrafficPolicy" => typed::<TrafficPolicy>(object),
        other => panic!("add `{other}` to this list"),
    }
}

fn typed<T: DeserializeOwned + Into<Object>>(object: Value) -> Object {
    serde_json::from_value::<T>(object)
        .expect("an object")
        .into()
}
