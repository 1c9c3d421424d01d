//! The half of the catalogue of mistakes that needs a cluster: each is made, named by a condition or an Event of
//! the object that its user wrote and by `gwctl status`, and mended, after which nothing is left of it. The other
//! half is in `admin/gwctl/tests/mistakes.rs`.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use hyper::StatusCode;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::edge_gateway::{EdgeGateway, HOST};
use crate::test::manifests::{gateway, listener, route};
use crate::test::objects::{ExpectedCondition, expected_condition};
use crate::test::scope::Scope;

/// A mistake, and where it shows.
struct Mistake {
    name: &'static str,
    /// The objects with the mistake.
    wrong: Vec<Value>,
    shown: Shown,
    /// A part of the sentence.
    text: &'static str,
    /// What mends it: the objects as they should be.
    right: Vec<Value>,
    /// What else mends it: objects that are deleted.
    deleted: Vec<(&'static str, &'static str)>,
}

/// The object that says what is wrong, and how.
enum Shown {
    Condition(&'static str, &'static str, ExpectedCondition<'static>),
    /// Of objects without a status of ours: an Event with this reason.
    Event(&'static str, &'static str, &'static str),
}

/// How long a mistake may take to be named: 5 s after the controller can know, which looks at pods after 5 s, and
/// has to wait for the kubelet; and what a busy machine adds.
const NAMED_WITHIN: Duration = Duration::from_mins(1);

pub(in crate::test) async fn mistakes_in_objects_are_named_until_they_are_mended(
    scope: &Scope,
) -> Result<()> {
    let site = EdgeGateway::open(scope).await?;
    for mistake in in_routes().into_iter().chain(in_referenced_objects()) {
        mistake.expect_named_until_mended(scope).await?;
    }
    // None of them has harmed the others.
    site.until(HOST, "/", StatusCode::OK).await?;
    scope.gwctl(&["status"]).await.map(drop)
}

pub(in crate::test) async fn what_keeps_pods_from_running_is_named_until_it_is_mended(
    scope: &Scope,
) -> Result<()> {
    // Each in a namespace of its own, since a quota and a security standard concern all pods of one.
    let scopes = [
        scope.another().await?,
        scope.another().await?,
        scope.another().await?,
    ];
    let [quota, image, standard] = &scopes;
    let all = async {
        let quota = exceeded_quota().expect_named_until_mended(quota);
        let image = missing_image().expect_named_until_mended(image);
        let standard = refused_by_standard(standard);
        let (quota, image, standard) = tokio::join!(quota, image, standard);
        quota.and(image).and(standard)
    };
    let result = all.await;
    for scope in &scopes {
        scope.close().await?;
    }
    result
}

impl Mistake {
    async fn expect_named_until_mended(self, scope: &Scope) -> Result<()> {
        let name = self.name;
        self.check(scope)
            .await
            .with_context(|| format!("mistake: {name}"))
    }

    async fn check(self, scope: &Scope) -> Result<()> {
        scope.apply(&self.wrong).await?;
        let made = Instant::now();
        let sentence = self.sentence(scope).await?;
        ensure!(
            sentence.contains(self.text),
            "the sentence is `{sentence}`, without `{}`",
            self.text
        );
        ensure!(
            made.elapsed() < NAMED_WITHIN,
            "it was named after {:?}",
            made.elapsed()
        );
        let shown = scope.status().await?;
        ensure!(
            shown.contains(self.text),
            "gwctl status does not say it: {shown}"
        );
        if !self.right.is_empty() {
            scope.apply(&self.right).await?;
        }
        for (kind, name) in &self.deleted {
            scope.delete(kind, name).await?;
        }
        self.until_gone(scope).await
    }

    async fn sentence(&self, scope: &Scope) -> Result<String> {
        match self.shown {
            Shown::Condition(kind, name, expected) => scope.condition(kind, name, expected).await,
            Shown::Event(kind, name, reason) => {
                let what = format!("an Event {reason} of {kind} {name}");
                let found = scope.until(&what, async || event(scope, (kind, name), reason).await);
                found.await
            }
        }
    }

    async fn until_gone(&self, scope: &Scope) -> Result<()> {
        match self.shown {
            Shown::Condition(kind, name, expected) => {
                let what = format!("{kind} {name} not to be {expected:?} any more");
                let is_gone = async || {
                    let object = scope.object(kind, name).await?;
                    Ok((!object.is_some_and(|it| has(&it, expected))).then_some(()))
                };
                scope.until(&what, is_gone).await
            }
            Shown::Event(kind, name, _) => {
                if scope.object(kind, name).await?.is_none() {
                    return Ok(());
                }
                let what = format!("an Event that {kind} {name} is well");
                let found =
                    scope.until(&what, async || event(scope, (kind, name), "Resolved").await);
                found.await.map(drop)
            }
        }
    }
}

/// The note of an Event about an object.
async fn event(scope: &Scope, (kind, name): (&str, &str), reason: &str) -> Result<Option<String>> {
    let fields = format!("regarding.kind={kind},regarding.name={name},reason={reason}");
    let words = [
        "get",
        "events.events.k8s.io",
        "--output=jsonpath={.items[*].note}",
        "--field-selector",
        &fields,
    ];
    let note = scope.kubectl(&words, "").await?;
    Ok((!note.trim().is_empty()).then_some(note))
}

/// Whether an object, or a part of it, has a condition.
fn has(object: &Value, expected: ExpectedCondition<'_>) -> bool {
    let lists = ["parents", "ancestors", "listeners"].map(|field| &object["status"][field]);
    let parts = lists.into_iter().filter_map(Value::as_array).flatten();
    let mut conditions = [&object["status"]]
        .into_iter()
        .chain(parts)
        .filter_map(|part| part["conditions"].as_array())
        .flatten();
    conditions.any(|it| it["type"] == expected.kind && it["status"] == expected.status)
}

const DEGRADED: &str = "Degraded";

/// Mistakes in routes of a namespace with a Gateway `edge` that serves Service `echo`.
fn in_routes() -> Vec<Mistake> {
    vec![
        Mistake {
            name: "a selector that matches no pod",
            wrong: vec![
                service("lonely", &json!({"app": "nobody"}), &json!("http")),
                to("lonely", "lonely"),
            ],
            shown: Shown::Condition(
                "HTTPRoute",
                "lonely",
                expected_condition(DEGRADED, "True", "NoReadyEndpoints"),
            ),
            text: "its selector matches no running pod",
            right: Vec::new(),
            deleted: vec![("HTTPRoute", "lonely"), ("Service", "lonely")],
        },
        Mistake {
            name: "a redirect to where the request came from",
            wrong: vec![redirect("around", &json!({"scheme": "http", "port": 80}))],
            shown: Shown::Condition(
                "HTTPRoute",
                "around",
                expected_condition(DEGRADED, "True", "RedirectLoop"),
            ),
            text: "is redirected to where it came from, again and again",
            right: vec![redirect(
                "around",
                &json!({"hostname": "www.example.com", "port": 80}),
            )],
            deleted: Vec::new(),
        },
        Mistake {
            name: "a Gateway that does not exist",
            wrong: vec![at("stray", "egde")],
            shown: Shown::Event("HTTPRoute", "stray", "NoMatchingParent"),
            text: "egde does not exist",
            right: vec![at("stray", "edge")],
            deleted: Vec::new(),
        },
    ]
}

/// In what other objects refer to.
fn in_referenced_objects() -> Vec<Mistake> {
    vec![
        Mistake {
            name: "a ReferenceGrant with a name for the group of Services",
            wrong: vec![grant("core")],
            shown: Shown::Event("ReferenceGrant", "others", "InvalidKind"),
            text: "there is no kind `Service` in group `core`",
            right: vec![grant("")],
            deleted: Vec::new(),
        },
        Mistake {
            name: "a Secret with other entries",
            wrong: vec![
                json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "opaque"},
                       "stringData": {"password": "secret"}}),
                named(&json!([{"name": "https", "port": 443, "protocol": "HTTPS",
                               "tls": {"certificateRefs": [{"name": "opaque"}]}}])),
            ],
            shown: Shown::Event("Secret", "opaque", "InvalidCertificateRef"),
            text: "has no entry `tls.crt`",
            right: Vec::new(),
            deleted: vec![("Gateway", "other")],
        },
        Mistake {
            name: "an overlay with a field that there is not",
            wrong: vec![
                parameters(&json!({"overlays": {"deployment": {"spec": {"replica": 3}}}})),
                with_parameters(),
            ],
            shown: Shown::Event("GatewayParameters", "nodes", "DeploymentFailed"),
            text: "check the overlays of the GatewayParameters",
            right: vec![parameters(&json!({"replicas": 1}))],
            deleted: vec![("Gateway", "other")],
        },
        Mistake {
            name: "a policy whose target does not exist",
            wrong: vec![
                json!({"apiVersion": "gateway-system.io/v1alpha1", "kind": "TrafficPolicy",
                "metadata": {"name": "lost"}, "spec": {
                    "targetRefs": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "rout"}],
                    "respond": {"status": 418}}}),
            ],
            shown: Shown::Condition(
                "TrafficPolicy",
                "lost",
                expected_condition("Accepted", "False", "TargetNotFound"),
            ),
            text: "rout does not exist",
            right: Vec::new(),
            deleted: vec![("TrafficPolicy", "lost")],
        },
    ]
}

/// No pod may be created.
fn exceeded_quota() -> Mistake {
    let quota = |pods: &str| {
        json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small"},
               "spec": {"hard": {"pods": pods}}})
    };
    Mistake {
        name: "a quota that lets no pod be created",
        wrong: vec![quota("0"), gateway(&[listener(80, "HTTP")])],
        shown: not_deployed("edge"),
        text: "exceeded quota: small",
        right: vec![quota("10")],
        deleted: Vec::new(),
    }
}

/// Makes and mends a mistake at which the controller reads pods.
pub(super) async fn an_image_is_missing(scope: &Scope) -> Result<()> {
    missing_image().expect_named_until_mended(scope).await
}

/// No registry has it.
fn missing_image() -> Mistake {
    Mistake {
        name: "an image that does not exist",
        wrong: vec![
            parameters(&json!({"image": "localhost:1/no-such-image:1"})),
            with_parameters(),
        ],
        shown: not_deployed("other"),
        text: "cannot get image `localhost:1/no-such-image:1`",
        right: vec![parameters(&json!({"replicas": 1}))],
        deleted: Vec::new(),
    }
}

/// The standard of a namespace that the pods of its Gateway do not keep, which is mended by its label.
async fn refused_by_standard(scope: &Scope) -> Result<()> {
    let enforce = "pod-security.kubernetes.io/enforce";
    let label = format!("{enforce}=baseline");
    let namespace = &*scope.namespace;
    scope
        .kubectl(&["label", "namespace", namespace, &label], "")
        .await?;
    let mistake = Mistake {
        name: "pods that the security standard of the namespace refuses",
        wrong: vec![
            parameters(&json!({"exposure": "HostPort"})),
            with_parameters(),
        ],
        shown: not_deployed("other"),
        text: "violates PodSecurity \"baseline",
        right: vec![parameters(&json!({"replicas": 1}))],
        deleted: Vec::new(),
    };
    mistake.expect_named_until_mended(scope).await
}

fn not_deployed(gateway: &'static str) -> Shown {
    let failed = expected_condition("DeploymentFailed", "True", "DeploymentFailed");
    Shown::Condition("Gateway", gateway, failed)
}

fn parameters(spec: &Value) -> Value {
    json!({"apiVersion": "gateway-system.io/v1alpha1", "kind": "GatewayParameters",
           "metadata": {"name": "nodes"}, "spec": spec})
}

/// Gateway `other`, with these parameters.
fn with_parameters() -> Value {
    let mut gateway = named(&json!([{"name": "http", "port": 80, "protocol": "HTTP"}]));
    gateway["spec"]["infrastructure"] = json!({"parametersRef": {
        "group": "gateway-system.io", "kind": "GatewayParameters", "name": "nodes"}});
    gateway
}

fn named(listeners: &Value) -> Value {
    let mut gateway = gateway(&[]);
    gateway["metadata"]["name"] = json!("other");
    gateway["spec"]["listeners"] = listeners.clone();
    gateway
}

fn service(name: &str, selector: &Value, port: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
           "spec": {"selector": selector, "ports": [{"port": 80, "targetPort": port}]}})
}

/// A route of a host of its own.
fn to(name: &str, backend: &str) -> Value {
    let mut route = route("HTTPRoute", 80, backend);
    route["metadata"]["name"] = json!(name);
    route["spec"]["hostnames"] = json!([format!("{name}.example.com")]);
    route
}

fn at(name: &str, parent: &str) -> Value {
    let mut route = to(name, "echo");
    route["spec"]["parentRefs"] = json!([{"name": parent}]);
    route
}

fn redirect(name: &str, to_where: &Value) -> Value {
    let mut route = to(name, "echo");
    route["spec"]["rules"] =
        json!([{"filters": [{"type": "RequestRedirect", "requestRedirect": to_where}]}]);
    route
}

fn grant(group: &str) -> Value {
    json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "ReferenceGrant",
           "metadata": {"name": "others"}, "spec": {
               "from": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "web"}],
               "to": [{"group": group, "kind": "Service"}]}})
}
