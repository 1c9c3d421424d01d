//! The API server of a cluster that is made of JSON: objects are read, listed and applied, and ports of
//! pods are forwarded to addresses of this machine.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use http::header::{AUTHORIZATION, CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, UPGRADE};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::port_forward::forward;

pub(super) struct ApiServer {
    state: Arc<State>,
    /// Where it listens: `host:port`.
    pub(super) address: String,
    folder: TempDir,
}

#[derive(Default)]
struct State(Mutex<Contents>);

#[derive(Default)]
struct Contents {
    objects: BTreeMap<String, Value>,
    kinds: BTreeSet<String>,
    /// Addresses by pod and port.
    ports: BTreeMap<(String, u16), String>,
    /// Responds with 403 if a path ends with this.
    forbidden: Vec<&'static str>,
    /// That every request has to bear.
    token: Option<&'static str>,
}

impl ApiServer {
    /// Starts one. Its threads end with the process.
    pub(super) fn start() -> Self {
        let state = Arc::new(State::default());
        let (sender, address) = std::sync::mpsc::channel();
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
                let address = listener.local_addr().expect("its address");
                sender.send(address).expect("the test waits");
                serve(listener, shared).await;
            });
        });
        Self {
            state,
            address: address.recv().expect("it starts").to_string(),
            folder: tempfile::tempdir().expect("a folder"),
        }
    }

    /// Puts an object of a kind, which is known from then on.
    pub(super) fn put(&self, version: &str, plural: &str, mut object: Value) {
        let group = if version.contains('/') { "apis" } else { "api" };
        let metadata = &object["metadata"];
        let name = metadata["name"].as_str().expect("a name").to_owned();
        let namespace = metadata["namespace"].as_str().map(str::to_owned);
        let scope = namespace.map_or_else(String::new, |it| format!("namespaces/{it}/"));
        object["apiVersion"] = version.into();
        let mut contents = self.state.contents();
        let path = format!("/{group}/{version}/{scope}{plural}/{name}");
        contents.objects.insert(path, object);
        contents
            .kinds
            .insert(format!("/{group}/{version}/{plural}"));
    }

    /// Forwards a port of a pod to an address.
    pub(super) fn forward(&self, pod: &str, port: u16, address: &str) {
        let mut contents = self.state.contents();
        let key = (pod.to_owned(), port);
        contents.ports.insert(key, address.to_owned());
    }

    /// Refuses requests whose paths end so.
    pub(super) fn forbid(&self, ending: &'static str) {
        self.state.contents().forbidden.push(ending);
    }

    /// Lets only those in who bear the token.
    pub(super) fn require(&self, token: &'static str) {
        self.state.contents().token = Some(token);
    }

    /// A kubeconfig with two contexts: `here`, as a user who may be anything, and `nowhere`.
    pub(super) fn kubeconfig(&self, user: &Value) -> PathBuf {
        let path = self.folder.path().join("kubeconfig");
        let server = format!("http://{}", self.address);
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "here",
            "clusters": [
                {"name": "here", "cluster": {"server": server}},
                {"name": "nowhere", "cluster": {"server": "http://127.0.0.1:1"}},
            ],
            "users": [{"name": "me", "user": user}],
            "contexts": [
                {"name": "here", "context": {"cluster": "here", "user": "me"}},
                {"name": "nowhere", "context": {"cluster": "nowhere", "user": "me"}},
            ],
        });
        fs::write(&path, kubeconfig.to_string()).expect("a file");
        path
    }
}

impl State {
    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn serve(listener: TcpListener, state: Arc<State>) {
    loop {
        let (stream, _) = listener.accept().await.expect("it listens");
        let state = Arc::clone(&state);
        let service = service_fn(move |request| {
            let state = Arc::clone(&state);
            async move {
                Ok::<_, Infallible>(match *request.method() {
                    Method::PATCH => apply(request, &state).await,
                    _ => answer(request, &state),
                })
            }
        });
        let connection = http1::Builder::new()
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        tokio::spawn(connection);
    }
}

/// Server-side apply of an owner of all fields.
async fn apply(request: Request<Incoming>, state: &State) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.expect("a body").to_bytes();
    let mut object: Value = serde_json::from_slice(&body).expect("JSON");
    let mut contents = state.contents();
    let path = head.uri.path().to_owned();
    if contents.forbidden.iter().any(|it| path.ends_with(it)) {
        return refusal(403, &format!("{path} is forbidden for user me"));
    }
    let known = contents.objects.get(&path).cloned().unwrap_or_default();
    let version = &known["metadata"]["resourceVersion"];
    let version = version.as_str().and_then(|it| it.parse::<u64>().ok());
    let is_same = known["spec"] == object["spec"];
    let version = version.unwrap_or_default() + u64::from(!is_same);
    object["metadata"]["resourceVersion"] = version.to_string().into();
    contents.objects.insert(path, object.clone());
    respond(200, &object)
}

fn answer(request: Request<Incoming>, state: &State) -> Response<Full<Bytes>> {
    let contents = state.contents();
    let path = request.uri().path().to_owned();
    let authorization = request.headers().get(AUTHORIZATION);
    if let Some(token) = contents.token
        && authorization.is_none_or(|it| it != format!("Bearer {token}").as_str())
    {
        return refusal(401, "Unauthorized");
    }
    if contents.forbidden.iter().any(|it| path.ends_with(it)) {
        return refusal(403, &format!("{path} is forbidden for user me"));
    }
    if let Some(pod) = path.strip_suffix("/portforward") {
        let Some(object) = contents.objects.get(pod) else {
            return refusal(404, "not found");
        };
        let name = object["metadata"]["name"].as_str().expect("a name");
        let query = request.uri().query().unwrap_or_default();
        let port = query.rsplit('=').next().and_then(|it| it.parse().ok());
        let port = port.expect("one port");
        let address = contents.ports.get(&(name.to_owned(), port)).cloned();
        return upgrade(request, port, address);
    }
    if let Some(object) = contents.objects.get(&path) {
        return respond(200, object);
    }
    let plural = path.rsplit('/').next().unwrap_or_default();
    let everywhere = match path.find("/namespaces/") {
        Some(end) => format!("{}/{plural}", &path[..end]),
        None => path.clone(),
    };
    if !contents.kinds.contains(&everywhere) {
        return refusal(404, "the server could not find the requested resource");
    }
    let query = request.uri().query().unwrap_or_default();
    let objects = contents.objects.iter().filter(|(own, object)| {
        let collection = own.rsplit_once('/').map_or("", |(it, _)| it);
        let is_in = if path == everywhere {
            collection.ends_with(&format!("/{plural}"))
        } else {
            collection == path
        };
        is_in && has_labels(object, query)
    });
    let items: Vec<&Value> = objects.map(|(_, object)| object).collect();
    respond(
        200,
        &json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": items}),
    )
}

/// Whether an object has the labels of a list request, which are `name=value` here.
fn has_labels(object: &Value, query: &str) -> bool {
    let selector = query
        .split('&')
        .find_map(|it| it.strip_prefix("labelSelector="));
    let selector = selector.unwrap_or_default();
    let selector = selector.replace("%3D", "=").replace("%2C", ",");
    let selector = selector.replace("%2F", "/");
    let mut pairs = selector.split(',').filter(|it| !it.is_empty());
    pairs.all(|pair| {
        let (name, value) = pair.split_once('=').expect("a pair");
        object["metadata"]["labels"][name] == value
    })
}

fn upgrade(
    request: Request<Incoming>,
    port: u16,
    address: Option<String>,
) -> Response<Full<Bytes>> {
    let key = request.headers().get(SEC_WEBSOCKET_KEY);
    let accept = derive_accept_key(key.expect("a WebSocket").as_bytes());
    tokio::spawn(async move {
        let upgraded = hyper::upgrade::on(request).await.expect("an upgrade");
        forward(upgraded, port, address).await;
    });
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers: &mut HeaderMap = response.headers_mut();
    headers.insert(CONNECTION, "Upgrade".parse().expect("a value"));
    headers.insert(UPGRADE, "websocket".parse().expect("a value"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept.parse().expect("a value"));
    let protocol = "v4.channel.k8s.io".parse().expect("a value");
    headers.insert("sec-websocket-protocol", protocol);
    response
}

fn refusal(code: u16, message: &str) -> Response<Full<Bytes>> {
    let reason = match code {
        401 => "Unauthorized",
        403 => "Forbidden",
        _ => "NotFound",
    };
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
        "message": message,
    });
    respond(code, &status)
}

fn respond(code: u16, value: &Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(value.to_string()));
    *response.status_mut() = StatusCode::from_u16(code).expect("a status code");
    response
}
