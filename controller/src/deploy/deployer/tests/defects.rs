//! Objects whose translation panics, beside others: translation and deployment together.

use jiff::Timestamp;
use tokio::sync::mpsc;
use translate::ObjectKind;
use translate::files::admit_value;
use translate::{Object, Options};

use super::*;
use crate::outputs::Observed;
use crate::translation::Translation;
use crate::watch::{Change, ChangeKind, Content, Kinds};

const GATEWAY_API: &str = "gateway.networking.k8s.io";

/// A translation that writes to the outputs of a scene.
struct Translated {
    kinds: Kinds,
    changes: mpsc::Sender<Change>,
    metrics: Metrics,
}

impl Translated {
    /// One of a cluster that has been read, and is empty.
    async fn begin(scene: &Scene) -> Self {
        let (kinds, metrics) = (Kinds::new(&[]), Metrics::default());
        let translation = Translation::new(
            Options::cluster(),
            &kinds,
            Arc::clone(&scene.outputs),
            &metrics,
            || Timestamp::UNIX_EPOCH,
        );
        let (changes, receiver) = mpsc::channel(10_000);
        tokio::spawn(translation.run(receiver));
        let translated = Self {
            kinds,
            changes,
            metrics,
        };
        for kind in translated.kinds.iter() {
            translated.send(kind, ChangeKind::Synced).await;
        }
        translated
    }

    async fn send(&self, kind: ObjectKind, what: ChangeKind) {
        let change = Change {
            kind,
            received: Instant::now(),
            what,
        };
        self.changes.send(change).await.expect("it translates");
    }

    async fn create(&self, object: Object) {
        let reference = object.object_ref();
        let kind = reference.kind;
        let observed = Observed {
            uid: format!("uid-of-{}", reference.name).into(),
            resource_version: "1".into(),
            generation: 1,
            api_version: format!("{GATEWAY_API}/v1").into(),
            is_deleted: false,
            status: "".into(),
        };
        let content = Content::Valid {
            object,
            observed: Some(Arc::new(observed)),
        };
        self.send(kind, ChangeKind::Upsert(reference.name, content))
            .await;
    }

    /// Number of translations that panicked.
    fn panics(&self) -> u64 {
        let text = self.metrics.text();
        let mut lines = text.lines();
        let number = lines
            .find_map(|line| line.strip_prefix("gateway_controller_translation_panics_total "));
        number.expect("it is counted").parse().expect("a number")
    }
}

fn admitted(group: &str, kind: &str, value: Value) -> Object {
    let Value::Object(fields) = value else {
        panic!("it is an object");
    };
    let admitted = admit_value(ObjectKind::find(group, kind).expect("a kind"), fields)
        .expect("a kind that is read");
    let findings = admitted.findings;
    admitted.object.unwrap_or_else(|| panic!("{findings:?}"))
}

fn gateway(namespace: &str, name: &str) -> Object {
    let value = json!({
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"gatewayClassName": "gateway", "listeners": [
            {"name": "http", "port": 80, "protocol": "HTTP"},
        ]},
    });
    admitted(GATEWAY_API, "Gateway", value)
}

fn route(name: &str) -> Object {
    let value = json!({
        "metadata": {"namespace": "infra", "name": name},
        "spec": {"parentRefs": [{"name": "edge"}], "hostnames": [format!("{name}.example.com")]},
    });
    admitted(GATEWAY_API, "HTTPRoute", value)
}

fn policy(name: &str) -> Object {
    let value = json!({
        "metadata": {"namespace": "infra", "name": name},
        "spec": {
            "targetRefs": [{"group": GATEWAY_API, "kind": "HTTPRoute", "name": name}],
            "authorization": {"deny": [{"when": "true"}]},
        },
    });
    admitted("gateway-system.io", "TrafficPolicy", value)
}

/// A single one ended the controller, and did so again after each restart.
#[tokio::test(start_paused = true)]
async fn a_thousand_objects_whose_translation_panics_affect_no_others() {
    let scene = Scene::with(&[]);
    scene.server.put("/api/v1/namespaces/shop", json!({}));
    let translated = Translated::begin(&scene).await;
    for object in [gateway("infra", "edge"), route("good")] {
        translated.create(object).await;
    }
    settle().await;
    assert_eq!(scene.deployment(), Some(Deployment::Done));
    let outputs = &scene.outputs;
    let statuses = || {
        let objects = [gateway("infra", "edge"), route("good")];
        objects.map(|it| {
            outputs
                .statuses
                .get(&it.object_ref())
                .expect("it has a status")
        })
    };
    let (before, writes) = (statuses(), scene.writes());

    for number in 0..1_000 {
        let name = format!("defect-of-translation-{number:03}");
        translated.create(gateway("infra", &name)).await;
        translated.create(route(&name)).await;
        translated.create(policy(&name)).await;
    }
    settle().await;
    assert_eq!(translated.panics(), 3_000, "each is translated once");
    assert_eq!(statuses(), before);
    assert_eq!(
        (scene.deployment(), scene.writes()),
        (Some(Deployment::Done), writes)
    );

    translated.create(gateway("shop", "later")).await;
    sleep(Duration::from_secs(2)).await;
    let later = ObjectName::new("shop", "later");
    assert_eq!(outputs.deployments.get(&later), Some(Deployment::Done));
    assert_eq!(translated.panics(), 3_000, "none is translated again");
    // Each tells of itself, but the Gateways, of which nothing is known.
    let closed = outputs
        .statuses
        .get(&route("defect-of-translation-000").object_ref());
    let closed = format!("{:?}", closed.expect("it has a status"));
    assert!(closed.contains("a defect of the controller"), "{closed}");
}
