//! Input is a Gateway, its parameters and its namespace; output is the objects that run it:
//! `NAME.yaml` beside `NAME.out` in `tests/golden/deploy`. `UPDATE_GOLDEN=1` writes the actual
//! output, to be reviewed before it is committed.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::*;
use crate::deploy::ports::Transport;

#[test]
fn golden_cases_match_the_expected_output() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/deploy");
    let entries = fs::read_dir(folder).expect("the folder of cases exists");
    let paths = entries.map(|entry| entry.expect("an entry can be read").path());
    let mut cases: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|it| it == "yaml"))
        .collect();
    cases.sort();
    assert!(!cases.is_empty(), "there are no cases");
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut failures = Vec::new();
    for case in cases {
        let text = outcome(&read(&case));
        let expected = case.with_extension("out");
        if update {
            fs::write(&expected, text).expect("the expectation can be written");
        } else if read(&expected) != text {
            failures.push(format!("{}:\n{text}", case.display()));
        }
    }
    assert!(
        failures.is_empty(),
        "UPDATE_GOLDEN=1 accepts what came out\n\n{}",
        failures.join("\n")
    );
}

#[test]
fn an_overlay_cannot_change_the_owner() {
    let overlay = "
metadata: {name: other, namespace: other, labels: {app.kubernetes.io/managed-by: me}, ownerReferences: null}
spec:
  selector: {matchLabels: {app: other}}
  template: {metadata: {labels: null}}
";
    let overlay: Value = serde_saphyr::from_str(overlay).expect("YAML");
    let mut input = input(&documents(PLAIN));
    let plain = render(&input, &defaults(true)).objects;
    input.parameters.overlays.deployment = overlay;
    let changed = render(&input, &defaults(true)).objects;
    let (plain, changed) = (&plain[2], &changed[2]);
    assert_eq!(plain.child, changed.child);
    let of = |rendered: &Rendered| rendered.object.clone().expect("a valid overlay");
    let (plain, changed) = (of(plain), of(changed));
    for field in ["name", "namespace", "ownerReferences"] {
        assert_eq!(plain["metadata"][field], changed["metadata"][field]);
    }
    assert_eq!(plain["spec"]["selector"], changed["spec"]["selector"]);
    let selected = &changed["spec"]["selector"]["matchLabels"];
    for (label, value) in selected.as_object().expect("labels") {
        let of_pods = &changed["spec"]["template"]["metadata"]["labels"];
        assert_eq!(of_pods[label], *value);
        assert_eq!(changed["metadata"]["labels"][label], *value);
    }
}

#[test]
fn an_overlay_of_another_type_is_refused_by_its_field() {
    for (overlay, expected) in [
        (
            "{metadata: {labels: app}}",
            "makes metadata.labels invalid: invalid type: string \"app\", expected a map",
        ),
        (
            "{spec: {template: {metadata: {labels: [app]}}}}",
            "makes spec.template.metadata.labels invalid: invalid type: sequence",
        ),
        (
            "{spec: {template: {spec: {containers: {name: a}}}}}",
            "makes spec.template.spec.containers invalid: invalid type: map",
        ),
        (
            "{spec: {template: {spec: {containers: [a]}}}}",
            "makes spec.template.spec.containers[0] invalid: invalid type: string",
        ),
        ("{spec: {replicas: many}}", "makes spec.replicas invalid"),
        ("{metadata: app}", "makes metadata invalid"),
        ("app", "is not an object: write fields of a Deployment"),
        ("[app]", "is not an object: write fields of a Deployment"),
    ] {
        let mut input = input(&documents(PLAIN));
        input.parameters.overlays.deployment = serde_saphyr::from_str(overlay).expect("YAML");
        let rendered = render(&input, &defaults(true)).objects;
        let why = rendered[2].object.clone().expect_err(overlay);
        let expected = format!("the overlay overlays.deployment {expected}");
        assert!(why.starts_with(&expected), "{why}");
        let others = rendered.iter().filter(|it| it.object.is_ok());
        assert_eq!(others.count(), rendered.len() - 1);
    }
}

/// The API server takes a number for a quantity, and knows fields that this version does not.
#[test]
fn quantities_as_numbers_and_new_fields_are_left_to_the_api_server() {
    let overlay = "
spec:
  futureField: {a: 1}
  template:
    spec:
      containers:
      - {name: gateway, resources: {limits: {cpu: 2, memory: 1Gi}, requests: {cpu: 0.5}}}
";
    let mut input = input(&documents(PLAIN));
    input.parameters.overlays.deployment = serde_saphyr::from_str(overlay).expect("YAML");
    let rendered = render(&input, &defaults(true)).objects;
    let object = rendered[2].object.clone().expect("a valid overlay");
    let resources = &object["spec"]["template"]["spec"]["containers"][0]["resources"];
    assert_eq!(resources["limits"]["cpu"], 2);
    assert_eq!(object["spec"]["futureField"]["a"], 1);
}

const PLAIN: &str = "
kind: Gateway
metadata: {name: edge, namespace: infra}
spec: {gatewayClassName: gateway, listeners: [{name: web, port: 80, protocol: HTTP}]}
";

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn outcome(text: &str) -> String {
    let documents = documents(text);
    let is_encrypted = !text.contains("#! xds: plaintext");
    let mut input = input(&documents);
    for line in text.lines() {
        input.scaled_by = match line.strip_prefix("#! scaled by ") {
            None => continue,
            Some("one before") => ScaledBy::Before,
            Some(other) => ScaledBy::Another(other.to_owned()),
        };
    }
    let mut out = String::new();
    let rendering = render(&input, &defaults(is_encrypted));
    for problem in rendering.problems {
        let (kind, reason) = (problem.kind, problem.reason);
        writeln!(out, "# {kind} ({reason}): {}", problem.message).expect("text");
    }
    for rendered in rendering.objects {
        let object = rendered.object.expect("a valid overlay");
        let yaml = serde_saphyr::to_string(&object).expect("plain data");
        write!(out, "--- # {}\n{yaml}", rendered.child).expect("text");
    }
    out
}

fn defaults(is_encrypted: bool) -> Defaults {
    let scheme = if is_encrypted { "https" } else { "http" };
    Defaults {
        image: "registry.example.com/gateway:1".to_owned(),
        image_pull_policy: "IfNotPresent".to_owned(),
        xds_address: format!("{scheme}://controller.gateway-system.svc:9978"),
        authorities: is_encrypted.then(|| "PEM of authorities".to_owned()),
        audience: "gateway-system.io/xds".to_owned(),
    }
}

fn documents(text: &str) -> Vec<Value> {
    let documents = text.split("\n---\n");
    documents
        .map(|it| serde_saphyr::from_str(it).expect("YAML"))
        .collect()
}

fn input(documents: &[Value]) -> RenderInput {
    let find = |kind: &str| documents.iter().find(|it| it["kind"] == kind);
    let gateway = find("Gateway").expect("a Gateway");
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let name = ObjectName::new(
        &text(&gateway["metadata"]["namespace"]),
        &text(&gateway["metadata"]["name"]),
    );
    let spec = &gateway["spec"];
    let strings = |value: &Value| serde_json::from_value(value.clone()).unwrap_or_default();
    let listeners = spec["listeners"].as_array().into_iter().flatten();
    let ports = listeners.map(|listener| Port {
        transport: match listener["protocol"].as_str() {
            Some("UDP") => Transport::Udp,
            _ => Transport::Tcp,
        },
        number: serde_json::from_value(listener["port"].clone()).expect("a port"),
    });
    let namespace = find("Namespace").unwrap_or(&Value::Null);
    let level = &namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"];
    let parameters = find("GatewayParameters").map(|it| Parameters::parse(&it["spec"]));
    RenderInput {
        name,
        uid: "7d8b2b1e-0000-4000-8000-000000000000".to_owned(),
        infrastructure: Infrastructure {
            class: text(&spec["gatewayClassName"]),
            labels: strings(&spec["infrastructure"]["labels"]),
            annotations: strings(&spec["infrastructure"]["annotations"]),
            parameters: None,
            has_foreign_parameters: false,
            addresses: serde_json::from_value(spec["addresses"].clone()).unwrap_or_default(),
        },
        ports: ports.collect(),
        parameters: parameters
            .transpose()
            .expect("valid parameters")
            .unwrap_or_default(),
        enforces_restricted: level == "restricted",
        scaled_by: ScaledBy::default(),
        is_metrics_name_taken: false,
    }
}
