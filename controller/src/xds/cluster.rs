//! An API server for tests: it reviews tokens, publishes its keys, and stores Secrets and
//! ConfigMaps. It can be unavailable.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clap::Parser as _;
use http::{Method, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use xds::delta::Publication;
use xds::model::ObjectName;

use super::AUDIENCE;
use super::keys::tests::{ISSUER, Signer};
use crate::args::Cli;
use crate::context::Context;
use crate::leadership::{Election, Leadership};
use crate::metrics::Metrics;
use crate::outputs::{ExistingGateway, Outputs};
use crate::stopping::{Stop, Stopping};

pub(super) struct Cluster {
    pub(super) signer: Signer,
    pub(super) is_away: AtomicBool,
    /// The result of reviews; null for an unknown user.
    pub(super) user: Mutex<Value>,
    reviews: AtomicUsize,
    objects: Mutex<BTreeMap<String, Value>>,
    versions: AtomicUsize,
}

pub(super) fn web() -> ObjectName {
    ObjectName::new("a", "web")
}

/// The context of a part of the controller.
pub(super) struct Replica {
    pub(super) context: Context,
    pub(super) election: Election,
    pub(super) stop: Stop,
}

impl Cluster {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            signer: Signer::new(),
            is_away: false.into(),
            user: Mutex::new(json!({
                "username": "system:serviceaccount:a:web",
                "extra": {"authentication.kubernetes.io/pod-name": ["web-1"]},
            })),
            reviews: AtomicUsize::new(0),
            objects: Mutex::default(),
            versions: AtomicUsize::new(0),
        })
    }

    pub(super) fn client(self: &Arc<Self>) -> Client {
        let cluster = Arc::clone(self);
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let cluster = Arc::clone(&cluster);
            async move { Ok::<_, Infallible>(cluster.respond(request).await) }
        });
        Client::new(service, "default")
    }

    /// The outputs of a controller that has read this cluster.
    pub(super) fn outputs() -> Arc<Outputs> {
        let outputs = Arc::new(Outputs::default());
        outputs.infrastructure.set(&web(), Some(Arc::default()));
        let gateway = ExistingGateway {
            uid: "uid-of-web".into(),
            class: None,
        };
        outputs.gateways.set(&web(), Some(gateway));
        outputs.accounts.set(&web(), Some("uid-of-web".to_owned()));
        outputs.published.publish(Publication::default());
        outputs.gateways_known.send_replace(true);
        outputs
    }

    pub(super) fn replica(self: &Arc<Self>, arguments: &[&str]) -> Replica {
        let arguments = ["controller", "run"].iter().chain(arguments);
        let args = Cli::parse_from(arguments).into_run();
        let (stop, stopping) = Stopping::new();
        let (election, leadership) = Leadership::new();
        let context = Context {
            client: self.client(),
            args: Arc::new(args),
            outputs: Self::outputs(),
            leadership,
            stopping,
            metrics: Metrics::default(),
        };
        Replica {
            context,
            election,
            stop,
        }
    }

    pub(super) fn reviews(&self) -> usize {
        self.reviews.load(Ordering::Relaxed)
    }

    /// The only object whose path has this suffix.
    pub(super) fn object(&self, path: &str) -> Option<Value> {
        let objects = locked(&self.objects);
        let mut found = objects.iter().filter(|(it, _)| it.ends_with(path));
        found.next().map(|(_, object)| object.clone())
    }

    pub(super) fn events(&self) -> Vec<Value> {
        let objects = locked(&self.objects);
        let events = objects.iter().filter(|(it, _)| it.contains("/events/"));
        events.map(|(_, event)| event.clone()).collect()
    }

    /// Puts an object at a path.
    pub(super) fn store(&self, path: &str, object: Value) {
        locked(&self.objects).insert(path.to_owned(), object);
    }

    /// Changes an object, as a user does.
    pub(super) fn change(&self, path: &str, change: impl FnOnce(&mut Value)) {
        let mut objects = locked(&self.objects);
        let mut found = objects.iter_mut().filter(|(it, _)| it.ends_with(path));
        change(found.next().expect("there is one").1);
    }

    async fn respond(&self, request: http::Request<Body>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        if self.is_away.load(Ordering::Relaxed) {
            return status(StatusCode::INTERNAL_SERVER_ERROR);
        }
        let body = body.collect().await.expect("a body").to_bytes();
        let sent = serde_json::from_slice(&body).unwrap_or_default();
        let body = match parts.uri.path() {
            "/.well-known/openid-configuration" => json!({"issuer": ISSUER}),
            "/openid/v1/jwks" => self.signer.jwks(),
            "/apis/authentication.k8s.io/v1/tokenreviews" => self.reviewed(sent),
            path => match self.stored(&parts.method, path, sent) {
                Ok(object) => object,
                Err(code) => return status(code),
            },
        };
        Response::new(Body::from(body.to_string().into_bytes()))
    }

    fn reviewed(&self, mut review: Value) -> Value {
        self.reviews.fetch_add(1, Ordering::Relaxed);
        assert_eq!(review["spec"]["audiences"], json!([AUDIENCE]));
        let user = locked(&self.user).clone();
        review["status"] = if user.is_null() {
            json!({"authenticated": false, "error": "token has expired"})
        } else {
            json!({"authenticated": true, "audiences": [AUDIENCE], "user": user})
        };
        review
    }

    fn stored(&self, method: &Method, path: &str, mut sent: Value) -> Result<Value, StatusCode> {
        let mut objects = locked(&self.objects);
        let version = self.versions.fetch_add(1, Ordering::Relaxed);
        let sent_version = sent["metadata"]["resourceVersion"].take();
        sent["metadata"]["resourceVersion"] = json!(version.to_string());
        let path = match sent["metadata"]["name"].as_str() {
            Some(name) if method == Method::POST => format!("{path}/{name}"),
            _ => path.to_owned(),
        };
        let present = objects.get(&path);
        match (method.as_str(), present) {
            ("GET", Some(present)) => return Ok(present.clone()),
            ("GET" | "PUT" | "PATCH", None) => return Err(StatusCode::NOT_FOUND),
            ("POST", None) => {}
            // Requests contain the whole object, also patches.
            ("PUT" | "PATCH", Some(it)) if it["metadata"]["resourceVersion"] == sent_version => {}
            _ => return Err(StatusCode::CONFLICT),
        }
        objects.insert(path, sent.clone());
        Ok(sent)
    }
}

fn status(code: StatusCode) -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code.as_u16(),
        "message": "", "reason": code.canonical_reason().map(|it| it.replace(' ', "")),
    });
    let response = Response::builder().status(code);
    let response = response.body(Body::from(status.to_string().into_bytes()));
    response.expect("a response")
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
