//! An API server in this process, behind kube's client: objects with versions and generations, merge
//! patches, server-side apply (by whole fields), lists and watches, and faults on demand.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Response, StatusCode};
use http_body_util::{BodyExt as _, Collected};
use hyper::body::{Body, Frame};
use kube::Client;
use kube::client::Body as KubeBody;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::path::ApiPath;

/// An API server. A clone is the same.
#[derive(Clone, Default)]
pub(crate) struct ApiServer(Arc<Mutex<State>>);

/// A fault of a request that writes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// The response has this status code; with 429, `Retry-After` has this many seconds.
    Refused(u16, u32),
    /// It is applied, and no response is sent.
    AppliedWithoutAnswer,
}

/// A request that was made.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) at: Instant,
    pub(crate) method: Method,
    pub(crate) uri: String,
    pub(crate) code: u16,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<ApiPath, Value>,
    version: u64,
    faults: VecDeque<Fault>,
    /// Writes of paths that contain a text are answered with a code.
    refused: Vec<(String, u16)>,
    forbidden: Vec<String>,
    requests: Vec<Request>,
    watches: Vec<(ApiPath, mpsc::UnboundedSender<Bytes>)>,
    history: Vec<(u64, ApiPath, Bytes)>,
    in_flight: usize,
    max_in_flight: usize,
    latency: Duration,
}

impl ApiServer {
    pub(crate) fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: http::Request<KubeBody>| {
            let server = server.clone();
            async move { Ok::<_, Infallible>(server.serve(request).await) }
        });
        Client::new(service, "default")
    }

    /// How long each request takes.
    pub(crate) fn set_latency(&self, latency: Duration) {
        self.state().latency = latency;
    }

    /// The next writes fail, one for each fault.
    pub(crate) fn fail(&self, faults: impl IntoIterator<Item = Fault>) {
        self.state().faults.extend(faults);
    }

    /// Every write of a path that contains this text is answered with this code.
    pub(crate) fn refuse(&self, path: &str, code: u16) {
        self.state().refused.push((path.to_owned(), code));
    }

    /// Every read of a path that contains this text is forbidden.
    pub(crate) fn forbid(&self, path: &str) {
        self.state().forbidden.push(path.to_owned());
    }

    /// Ends [`ApiServer::refuse`].
    pub(crate) fn accept_all(&self) {
        self.state().refused.clear();
    }

    /// Faults that were not used up.
    pub(crate) fn faults_left(&self) -> usize {
        self.state().faults.len()
    }

    /// Creates or replaces an object as another client. Returns the stored object.
    pub(crate) fn put(&self, path: &str, object: Value) -> Value {
        self.state().store(&ApiPath::parse(path), object)
    }

    /// Removes an object as another client.
    pub(crate) fn remove(&self, path: &str) {
        self.state().delete(&ApiPath::parse(path));
    }

    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        self.state().objects.get(&ApiPath::parse(path)).cloned()
    }

    /// Requests so far, without watches.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.state().requests.clone()
    }

    /// Write requests so far.
    pub(crate) fn writes(&self) -> Vec<Request> {
        let mut writes = self.requests();
        writes.retain(|it| it.method != Method::GET);
        writes
    }

    /// Every change of a collection, from its beginning, as a watch sends it.
    pub(crate) fn changes(&self, collection: &str) -> mpsc::UnboundedReceiver<Bytes> {
        self.state().follow(ApiPath::parse(collection), 0)
    }

    /// The largest number of concurrent requests, without watches.
    pub(crate) fn max_in_flight(&self) -> usize {
        self.state().max_in_flight
    }

    async fn serve(&self, request: http::Request<KubeBody>) -> Response<ResponseBody> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map(Collected::to_bytes);
        let body = body.unwrap_or_default();
        let query = head.uri.query().unwrap_or_default().to_owned();
        let path = ApiPath::parse(head.uri.path());
        if query.contains("watch=true") {
            let mut parameters = query.split('&');
            let since = parameters.find_map(|it| it.strip_prefix("resourceVersion="));
            let since = since.and_then(|it| it.parse().ok()).unwrap_or(0);
            return respond(200, ResponseBody::Stream(self.state().follow(path, since)));
        }
        let latency = {
            let mut state = self.state();
            state.in_flight += 1;
            state.max_in_flight = state.max_in_flight.max(state.in_flight);
            state.latency
        };
        sleep(latency).await;
        let (code, value, is_answered) = {
            let mut state = self.state();
            state.in_flight -= 1;
            let fault = match head.method {
                Method::GET => state.prohibition_of(head.uri.path()),
                _ => state
                    .refusal_of(head.uri.path())
                    .or_else(|| state.faults.pop_front()),
            };
            let (code, value) = match fault {
                Some(Fault::Refused(code, seconds)) => refusal(code, "injected fault", seconds),
                _ => state.answer(&head.method, &path, &query, &body),
            };
            state.requests.push(Request {
                at: Instant::now(),
                method: head.method,
                uri: head.uri.to_string(),
                code,
            });
            (
                code,
                value,
                !matches!(fault, Some(Fault::AppliedWithoutAnswer)),
            )
        };
        if !is_answered {
            std::future::pending::<()>().await;
        }
        respond(code, ResponseBody::Whole(Some(value.to_string().into())))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn prohibition_of(&self, path: &str) -> Option<Fault> {
        let is_forbidden = self.forbidden.iter().any(|it| path.contains(it));
        is_forbidden.then_some(Fault::Refused(403, 0))
    }

    fn refusal_of(&self, path: &str) -> Option<Fault> {
        let mut refused = self.refused.iter();
        let (_, code) = refused.find(|(text, _)| path.contains(text))?;
        Some(Fault::Refused(*code, 0))
    }

    fn answer(
        &mut self,
        method: &Method,
        path: &ApiPath,
        query: &str,
        body: &[u8],
    ) -> (u16, Value) {
        let present = self.objects.get(&path.object()).cloned();
        match (method, present) {
            (&Method::GET, _) if path.name.is_empty() => (200, self.list(path)),
            (&Method::GET, Some(present)) => (200, present),
            (&Method::PATCH, present) if query.contains("fieldManager") => {
                self.apply(path, present, query, body)
            }
            (&Method::PATCH, Some(present)) => self.patch(path, present, body),
            (&Method::DELETE, Some(present)) => self.delete_checked(path, &present, body),
            (&Method::POST, _) => self.create(path, parse(body)),
            (&Method::PUT, Some(present)) => self.replace(path, &present, parse(body)),
            _ => refusal(404, "not found", 0),
        }
    }

    fn list(&self, collection: &ApiPath) -> Value {
        let objects = self.objects.iter();
        let items: Vec<&Value> = objects
            .filter(|(path, _)| path.is_in(collection))
            .map(|(_, object)| object)
            .collect();
        let version = self.version.to_string();
        json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": version}, "items": items})
    }

    /// Only objects with a name are kept: Events have none that matters.
    fn create(&mut self, collection: &ApiPath, object: Value) -> (u16, Value) {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let path = ApiPath {
            name: name.to_owned(),
            ..collection.clone()
        };
        if self.objects.contains_key(&path) {
            return refusal(409, "it exists", 0);
        }
        (201, self.store(&path, object))
    }

    fn replace(&mut self, path: &ApiPath, present: &Value, object: Value) -> (u16, Value) {
        let version = &object["metadata"]["resourceVersion"];
        if *version != present["metadata"]["resourceVersion"] {
            return refusal(409, "the object has been modified", 0);
        }
        (200, self.store(&path.object(), object))
    }

    fn patch(&mut self, path: &ApiPath, mut present: Value, body: &[u8]) -> (u16, Value) {
        let patch = parse(body);
        let wanted = &patch["metadata"]["resourceVersion"];
        if !wanted.is_null() && *wanted != present["metadata"]["resourceVersion"] {
            return refusal(409, "the object has been modified", 0);
        }
        merge(&mut present, &patch);
        (200, self.store(&path.object(), present))
    }

    /// The second of two managers must use force where it changes something; of the fields, only `spec.replicas`
    /// has managers, and becomes 1 when its last one leaves it out.
    fn apply(
        &mut self,
        path: &ApiPath,
        present: Option<Value>,
        query: &str,
        body: &[u8],
    ) -> (u16, Value) {
        let manager = query
            .split('&')
            .find_map(|it| it.strip_prefix("fieldManager="));
        let manager = manager.unwrap_or_default().to_owned();
        let (code, patch) = (if present.is_some() { 200 } else { 201 }, parse(body));
        let is_new = present.is_none();
        let before = present.unwrap_or_else(|| json!({"metadata": {}}));
        let mut object = before.clone();
        merge(&mut object, &patch);
        let owner = &before["metadata"]["managedFields"][0]["manager"];
        let is_foreign = !is_new && *owner != json!(manager);
        let is_forced = query.contains("force=true");
        if is_foreign && !is_forced && object != before {
            return refusal(409, "conflict with another field manager", 0);
        }
        let managers = before["metadata"]["managedFields"].as_array();
        let is_own = |it: &&Value| it["manager"] == manager && it["operation"] == "Apply";
        let replicas = "/fieldsV1/f:spec/f:replicas";
        let had_replicas = managers.into_iter().flatten().find(is_own);
        let had_replicas = had_replicas.is_some_and(|it| it.pointer(replicas).is_some());
        let has_replicas = patch["spec"]["replicas"].is_number();
        let others = managers.into_iter().flatten().filter(|it| !is_own(it));
        let is_scaled = object["spec"]["replicas"] != before["spec"]["replicas"];
        let others = others.filter(|it| {
            let holds = it.pointer(replicas).is_some() && !is_scaled;
            !it["subresource"].is_null() || holds || !is_forced
        });
        let others: Vec<Value> = others.cloned().collect();
        let is_held = others
            .iter()
            .any(|it| it["subresource"] == "scale" || it.pointer(replicas).is_some());
        if had_replicas && !has_replicas && !is_held {
            object["spec"]["replicas"] = 1.into();
        }
        let mut own = json!({"manager": manager, "operation": "Apply"});
        if has_replicas {
            own["fieldsV1"] = json!({"f:spec": {"f:replicas": {}}});
        }
        let mut managers = others;
        managers.insert(
            if is_foreign && !is_forced {
                managers.len()
            } else {
                0
            },
            own,
        );
        object["metadata"]["managedFields"] = managers.into();
        if query.contains("dryRun=All") {
            return (code, object);
        }
        (code, self.store(&path.object(), object))
    }

    fn delete_checked(&mut self, path: &ApiPath, present: &Value, body: &[u8]) -> (u16, Value) {
        let options = if body.is_empty() {
            Value::Null
        } else {
            parse(body)
        };
        let uid = &options["preconditions"]["uid"];
        if !uid.is_null() && *uid != present["metadata"]["uid"] {
            return refusal(409, "another uid", 0);
        }
        self.delete(path);
        (
            200,
            json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}),
        )
    }

    fn delete(&mut self, path: &ApiPath) {
        if let Some(mut object) = self.objects.remove(path) {
            self.version += 1;
            object["metadata"]["resourceVersion"] = self.version.to_string().into();
            self.notify(path, "DELETED", &object);
        }
    }

    /// Stores an object; its version changes if it differs from the stored one, and its generation
    /// too if `spec` differs.
    fn store(&mut self, path: &ApiPath, mut object: Value) -> Value {
        let before = self.objects.get(path).cloned();
        let kept = before.as_ref().map(|it| it["metadata"].clone());
        let metadata = &mut object["metadata"];
        metadata["name"] = path.name.clone().into();
        if !path.namespace.is_empty() {
            metadata["namespace"] = path.namespace.clone().into();
        }
        if let Some(kept) = kept {
            for field in ["uid", "resourceVersion", "generation"] {
                metadata[field] = kept[field].clone();
            }
        } else {
            metadata["uid"] = format!("uid-{}", self.version + 1).into();
            metadata["generation"] = 1.into();
        }
        if before.as_ref() == Some(&object) {
            return object;
        }
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        if let Some(before) = before.as_ref().filter(|it| it["spec"] != object["spec"]) {
            let generation = before["metadata"]["generation"].as_i64().unwrap_or(0);
            object["metadata"]["generation"] = (generation + 1).into();
        }
        self.objects.insert(path.clone(), object.clone());
        let kind = if before.is_some() {
            "MODIFIED"
        } else {
            "ADDED"
        };
        self.notify(path, kind, &object);
        object
    }

    fn notify(&mut self, path: &ApiPath, kind: &str, object: &Value) {
        let line = Bytes::from(format!(r#"{{"type":"{kind}","object":{object}}}"#) + "\n");
        self.history
            .push((self.version, path.clone(), line.clone()));
        self.watches.retain(|(collection, sender)| {
            !path.is_in(collection) || sender.send(line.clone()).is_ok()
        });
    }

    /// The changes after a version, and future ones.
    fn follow(&mut self, collection: ApiPath, since: u64) -> mpsc::UnboundedReceiver<Bytes> {
        let (sender, receiver) = mpsc::unbounded_channel();
        for (version, path, line) in &self.history {
            if *version > since && path.is_in(&collection) {
                let _ = sender.send(line.clone());
            }
        }
        self.watches.push((collection, sender));
        receiver
    }
}

fn parse(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap_or_else(|error| panic!("no JSON: {error}"))
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    for (name, value) in fields {
        match value {
            Value::Null => drop(target.as_object_mut().and_then(|it| it.remove(name))),
            value => merge(&mut target[name], value),
        }
    }
}

fn refusal(code: u16, message: &str, retry_after: u32) -> (u16, Value) {
    let reason = match code {
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        422 => "Invalid",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        _ => "InternalError",
    };
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
        "message": message, "details": {"retryAfterSeconds": retry_after},
    });
    (code, status)
}

fn respond(code: u16, answer: ResponseBody) -> Response<ResponseBody> {
    let mut response = Response::new(answer);
    *response.status_mut() = StatusCode::from_u16(code).expect("a status code");
    response
}

enum ResponseBody {
    Whole(Option<Bytes>),
    Stream(mpsc::UnboundedReceiver<Bytes>),
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take()),
            Self::Stream(receiver) => receiver.poll_recv(context),
        };
        next.map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}
