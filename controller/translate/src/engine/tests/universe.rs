//! A small set of closely related objects, each in several versions.

use std::path::Path;

use base64::prelude::{BASE64_STANDARD, Engine as _};

use crate::files::{Source, admit};
use crate::objects::object_ref::ObjectRef;
use crate::objects::store::Object;
use crate::policy::api::{PolicyEntries, TrafficPolicy};

/// An object in all its versions.
pub(crate) struct VersionedObject {
    pub(crate) reference: ObjectRef,
    pub(crate) versions: Vec<Object>,
}

/// Every object of `universe.yaml`, apart by `===`, in its versions, apart by `---`. Each exists
/// with two ages and in two generations. `LAST_PLACE` stands for a policy's status with room for one
/// more ancestor, `NO_PLACE` for a full one.
pub(crate) fn things() -> Vec<VersionedObject> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let file = folder.join("src/engine/tests/universe.yaml");
    let text = std::fs::read_to_string(file).expect("the file is there");
    text.split("\n===\n").map(thing).collect()
}

fn thing(text: &str) -> VersionedObject {
    let mut versions = Vec::new();
    for version in text.split("\n---\n") {
        for metadata in METADATA {
            let text = version.replace("AGE", metadata);
            let text = text.replace("LAST_PLACE", &status(PolicyEntries::MAX - 1));
            versions.push(object(
                &text.replace("NO_PLACE", &status(PolicyEntries::MAX)),
            ));
        }
    }
    VersionedObject {
        reference: versions[0].object_ref(),
        versions,
    }
}

/// A policy's status with entries of another controller.
fn status(entries: usize) -> String {
    let others = (0..entries).map(|number| {
        format!("{{ancestorRef: {{name: other-{number}}}, controllerName: example.com/another}}")
    });
    let others: Vec<String> = others.collect();
    format!("status: {{ancestors: [{}]}}", others.join(", "))
}

fn object(text: &str) -> Object {
    let admitted = admit(&[Source::new("universe.yaml", with_files(text))]);
    let mut objects = admitted.objects.into_iter();
    let Some((object, _)) = objects.next() else {
        panic!("not admitted: {text}: {:?}", admitted.findings);
    };
    match object {
        Object::TrafficPolicy(policy) if text.contains("targets: nothing") => {
            let mut policy = TrafficPolicy::clone(&policy);
            policy.spec.target_refs.clear();
            policy.into()
        }
        other => other,
    }
}

fn with_files(text: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pem");
    let names = ["web.crt", "web.key", "ca.crt", "other.crt", "other.key"];
    let mut text = text.to_owned();
    for name in names {
        let bytes = std::fs::read(folder.join(name)).expect("the file is there");
        // In a quoted text of YAML, two line breaks are one.
        let pem = String::from_utf8_lossy(&bytes).replace('\n', "\n\n");
        text = text.replace(&format!("@pem:{name}"), &pem);
        text = text.replace(&format!("@{name}"), &BASE64_STANDARD.encode(bytes));
    }
    text
}

const METADATA: [&str; 3] = [
    "creationTimestamp: 2024-01-01T00:00:00Z, generation: 1",
    "creationTimestamp: 2024-01-01T00:00:00Z, generation: 2",
    "creationTimestamp: 2023-01-01T00:00:00Z, generation: 1",
];
