//! An API server in this process, behind kube's client: lists in pages, watches with bookmarks, and
//! the faults between an API server and its clients.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Collected};
use kube::Client;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::response::{ResponseBody, line, refuse, whole};
use crate::served::SERVED;

/// An API server. A clone is the same.
#[derive(Clone)]
pub(crate) struct Cluster(Arc<Mutex<State>>);

/// Plural of the kind, namespace, name.
type Key = (String, String, String);

struct State {
    /// API version, kind, plural.
    served: Vec<(&'static str, &'static str, &'static str)>,
    objects: BTreeMap<Key, Value>,
    version: u64,
    /// Watches from earlier versions are rejected.
    oldest: u64,
    history: Vec<(u64, String, Bytes)>,
    watches: Vec<Watch>,
    /// Lists that are read in pages, each with its version.
    lists: Vec<(u64, Vec<Value>)>,
    /// Kinds that discovery does not name.
    hidden: Vec<&'static str>,
    forbidden: BTreeSet<&'static str>,
    is_away: bool,
    is_ready: bool,
    /// Watches do not end by themselves: their ends are lost on the network.
    is_half_open: bool,
    faults: Option<SmallRng>,
}

struct Watch {
    plural: String,
    lines: mpsc::UnboundedSender<Bytes>,
    is_stuck: bool,
}

impl Cluster {
    /// Serves the core kinds and all of Gateway API and ours.
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(State {
            served: SERVED.to_vec(),
            objects: BTreeMap::new(),
            version: 10,
            oldest: 0,
            history: Vec::new(),
            watches: Vec::new(),
            lists: Vec::new(),
            hidden: Vec::new(),
            forbidden: BTreeSet::new(),
            is_away: false,
            is_ready: true,
            is_half_open: false,
            faults: None,
        })))
    }

    pub(crate) fn client(&self) -> Client {
        let cluster = self.clone();
        let service = tower::service_fn(move |request| {
            let cluster = cluster.clone();
            async move { Ok::<_, Infallible>(cluster.serve(request).await) }
        });
        Client::new(service, "default")
    }

    /// Creates or replaces an object.
    pub(crate) fn put(&self, object: &Value) {
        let mut state = self.state();
        let key = key(object);
        let is_new = !state.objects.contains_key(&key);
        let mut object = object.clone();
        state.version += 1;
        object["metadata"]["resourceVersion"] = state.version.to_string().into();
        object["metadata"]["managedFields"] = json!([{"manager": "test"}]);
        state.objects.insert(key.clone(), object.clone());
        state.notify(&key.0, if is_new { "ADDED" } else { "MODIFIED" }, &object);
    }

    pub(crate) fn delete(&self, object: &Value) {
        let mut state = self.state();
        let key = key(object);
        if let Some(mut object) = state.objects.remove(&key) {
            state.version += 1;
            object["metadata"]["resourceVersion"] = state.version.to_string().into();
            state.notify(&key.0, "DELETED", &object);
        }
    }

    pub(crate) fn objects(&self) -> Vec<Value> {
        self.state().objects.values().cloned().collect()
    }

    /// Drops the history so far: earlier watches have to list again.
    pub(crate) fn compact(&self) {
        let mut state = self.state();
        state.oldest = state.version;
        state.history.clear();
    }

    pub(crate) fn disconnect(&self) {
        self.state().watches.clear();
    }

    /// New watches do not end by themselves: their ends are lost on the network.
    pub(crate) fn set_half_open(&self) {
        self.state().is_half_open = true;
    }

    /// All watches stay open, and send no more events.
    pub(crate) fn get_stuck(&self) {
        for watch in &mut self.state().watches {
            watch.is_stuck = true;
        }
    }

    pub(crate) fn forbid(&self, plural: &'static str) {
        self.state().forbidden.insert(plural);
    }

    pub(crate) fn allow(&self, plural: &'static str) {
        self.state().forbidden.remove(plural);
    }

    /// Stops responding to requests, or resumes.
    pub(crate) fn set_away(&self, is_away: bool) {
        let mut state = self.state();
        state.is_away = is_away;
        if is_away {
            state.watches.clear();
        }
    }

    /// Says from now on whether it has started.
    pub(crate) fn set_ready(&self, is_ready: bool) {
        self.state().is_ready = is_ready;
    }

    /// Removes the definition of a kind, or installs it.
    pub(crate) fn set_served(&self, plural: &str, is_served: bool) {
        let mut state = self.state();
        state.served.retain(|(_, _, it)| *it != plural);
        if is_served {
            let all = SERVED.iter().filter(|(_, _, it)| *it == plural);
            state.served.extend(all);
        }
    }

    /// Leaves a kind out of discovery, or not: its definition and its objects stay.
    pub(crate) fn set_hidden(&self, plural: &'static str, is_hidden: bool) {
        let mut state = self.state();
        state.hidden.retain(|it| *it != plural);
        state.hidden.extend(is_hidden.then_some(plural));
    }

    /// Injects random faults from now on; `None` stops that.
    pub(crate) fn set_faults(&self, seed: Option<u64>) {
        self.state().faults = seed.map(SmallRng::seed_from_u64);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn serve(&self, request: Request<kube::client::Body>) -> Response<ResponseBody> {
        let (head, body) = request.into_parts();
        let path = head.uri.path().to_owned();
        let query = head.uri.query().unwrap_or_default().to_owned();
        let body = body.collect().await.map(Collected::to_bytes);
        let body = serde_json::from_slice(&body.unwrap_or_default()).unwrap_or(Value::Null);
        let fault = self.state().fault();
        if let Fault::Hangs = fault {
            sleep(Duration::from_secs(75)).await;
        }
        if self.state().is_away {
            sleep(Duration::from_secs(5)).await;
            return refuse(503, "away");
        }
        match fault {
            Fault::None => self.state().answer(&head.method, &path, &query, body),
            Fault::Hangs => refuse(504, "timed out"),
            Fault::Code(code) => refuse(code, "by chance"),
        }
    }
}

enum Fault {
    None,
    Hangs,
    Code(u16),
}

impl State {
    fn fault(&mut self) -> Fault {
        let Some(random) = &mut self.faults else {
            return Fault::None;
        };
        match random.random_range(0..40) {
            0 => Fault::Hangs,
            1 => Fault::Code(403),
            2 => Fault::Code(410),
            3 => Fault::Code(429),
            4..8 => Fault::Code(500),
            _ => Fault::None,
        }
    }

    fn answer(
        &mut self,
        method: &Method,
        path: &str,
        query: &str,
        body: Value,
    ) -> Response<ResponseBody> {
        let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
        match (method, &*segments) {
            (&Method::GET, ["readyz"]) if !self.is_ready => refuse(500, "starting"),
            (&Method::GET, ["apis"]) => self.groups(),
            (&Method::GET, ["apis", group, version]) => {
                self.resources(&format!("{group}/{version}"))
            }
            (
                &Method::GET,
                [
                    "apis",
                    "apiextensions.k8s.io",
                    "v1",
                    "customresourcedefinitions",
                    name,
                ],
            ) => self.definition(name),
            (&Method::GET, ["api", version, plural]) => self.collection(version, plural, query),
            (&Method::GET, ["apis", group, version, plural]) => {
                self.collection(&format!("{group}/{version}"), plural, query)
            }
            (
                method,
                [
                    "apis",
                    "coordination.k8s.io",
                    "v1",
                    "namespaces",
                    namespace,
                    "leases",
                    ..,
                ],
            ) => self.lease(method, namespace, segments.get(6).copied(), body),
            _ => refuse(404, "no such path"),
        }
    }

    fn groups(&self) -> Response<ResponseBody> {
        let mut groups: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let named = self.served.iter().filter(|it| !self.hidden.contains(&it.2));
        for (api_version, _, _) in named {
            if let Some((group, version)) = api_version.split_once('/') {
                groups.entry(group).or_default().insert(version);
            }
        }
        let groups = groups.into_iter().map(|(group, versions)| {
            let versions = versions.into_iter();
            let versions: Vec<Value> = versions
                .map(|it| json!({"groupVersion": format!("{group}/{it}"), "version": it}))
                .collect();
            json!({"name": group, "versions": versions, "preferredVersion": versions[0]})
        });
        let groups: Vec<Value> = groups.collect();
        whole(&json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
    }

    fn resources(&self, api_version: &str) -> Response<ResponseBody> {
        let resources = self.served.iter();
        let resources = resources.filter(|it| it.0 == api_version && !self.hidden.contains(&it.2));
        let verbs = json!(["get", "list", "watch"]);
        let resources: Vec<Value> = resources
            .flat_map(|(_, kind, plural)| {
                let resource = |name: String| json!({"name": name, "singularName": "", "namespaced": true, "kind": kind, "verbs": verbs});
                [resource(format!("{plural}/status")), resource((*plural).to_owned())]
            })
            .collect();
        whole(
            &json!({"kind": "APIResourceList", "groupVersion": api_version, "resources": resources}),
        )
    }

    fn definition(&self, name: &str) -> Response<ResponseBody> {
        let mut served = self.served.iter();
        let found = served.find(|(api_version, _, plural)| {
            let group = api_version.split('/').next().unwrap_or_default();
            format!("{plural}.{group}") == name
        });
        let Some((api_version, _, _)) = found else {
            return refuse(404, "not found");
        };
        let version = api_version.split('/').next_back();
        whole(&json!({"spec": {"versions": [{"name": version, "served": true}]}}))
    }

    fn collection(
        &mut self,
        api_version: &str,
        plural: &str,
        query: &str,
    ) -> Response<ResponseBody> {
        if !self
            .served
            .iter()
            .any(|it| it.0 == api_version && it.2 == plural)
        {
            return refuse(404, "the server could not find the requested resource");
        }
        if self.forbidden.contains(plural) {
            return refuse(403, &format!("{plural} is forbidden"));
        }
        let parameter = |name: &str| {
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
        };
        if parameter("watch") == Some("true") {
            let since = parameter("resourceVersion").and_then(|it| it.parse().ok());
            return self.watch(plural, since.unwrap_or_default());
        }
        let (list, start) = if let Some(token) = parameter("continue") {
            let (list, start) = token.split_once('.').expect("a token of ours");
            let number = |text: &str| text.parse::<usize>().expect("a number");
            (number(list), number(start))
        } else {
            let objects = self.objects.iter().filter(|(key, _)| key.0 == plural);
            let objects = objects.map(|(_, object)| object.clone()).collect();
            self.lists.push((self.version, objects));
            (self.lists.len() - 1, 0)
        };
        let (version, objects): &(u64, Vec<Value>) = &self.lists[list];
        if start > 0 && *version < self.oldest {
            return refuse(410, "The provided continue parameter is too old");
        }
        let end = (start + PAGE).min(objects.len());
        let next = (end < objects.len()).then(|| format!("{list}.{end}"));
        whole(&json!({
            "kind": "List", "apiVersion": api_version,
            "metadata": {"resourceVersion": version.to_string(), "continue": next.unwrap_or_default()},
            "items": objects[start..end],
        }))
    }

    fn watch(&mut self, plural: &str, since: u64) -> Response<ResponseBody> {
        let (lines, receiver) = mpsc::unbounded_channel();
        if since < self.oldest {
            let status = json!({"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old resource version"});
            let _ = lines.send(line("ERROR", &status));
        } else {
            for (version, changed, line) in &self.history {
                if *version > since && changed == plural {
                    let _ = lines.send(line.clone());
                }
            }
            let plural = plural.to_owned();
            self.watches.push(Watch {
                plural,
                lines,
                is_stuck: false,
            });
        }
        let is_half_open = self.faults.as_mut().is_some_and(SmallRng::random);
        let end = if is_half_open || self.is_half_open {
            3600
        } else {
            60
        };
        Response::new(ResponseBody::Lines(
            receiver,
            Box::pin(sleep(Duration::from_secs(end))),
        ))
    }

    fn notify(&mut self, plural: &str, kind: &str, object: &Value) {
        let event = line(kind, object);
        self.history
            .push((self.version, plural.to_owned(), event.clone()));
        let bookmark = json!({"kind": "", "apiVersion": "", "metadata": {"resourceVersion": self.version.to_string()}});
        let faults = &mut self.faults;
        self.watches.retain_mut(|watch| {
            if watch.plural != plural || watch.is_stuck {
                return !watch.lines.is_closed();
            }
            let chance = faults
                .as_mut()
                .map_or(u32::MAX, |random| random.random_range(0..12));
            match chance {
                // The connection ends before the event, or gets stuck.
                0 => return false,
                1 => watch.is_stuck = true,
                2 => drop(watch.lines.send(event.clone())),
                _ => {}
            }
            if !watch.is_stuck {
                let _ = watch.lines.send(event.clone());
                let _ = watch.lines.send(line("BOOKMARK", &bookmark));
            }
            true
        });
    }

    fn lease(
        &mut self,
        method: &Method,
        namespace: &str,
        name: Option<&str>,
        mut body: Value,
    ) -> Response<ResponseBody> {
        let named = body["metadata"]["name"].as_str();
        let name = name.or(named).unwrap_or_default().to_owned();
        let key = ("leases".to_owned(), namespace.to_owned(), name);
        let present = self.objects.get(&key);
        match (method.as_str(), present) {
            ("GET", Some(present)) => return whole(present),
            ("POST", Some(_)) => return refuse(409, "already exists"),
            ("PUT", Some(present))
                if present["metadata"]["resourceVersion"]
                    != body["metadata"]["resourceVersion"] =>
            {
                return refuse(409, "the object has been modified");
            }
            ("POST", None) | ("PUT", Some(_)) => {}
            _ => return refuse(404, "not found"),
        }
        self.version += 1;
        body["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.objects.insert(key, body.clone());
        whole(&body)
    }
}

fn key(object: &Value) -> Key {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = text(&object["kind"]);
    let (_, _, plural) = SERVED
        .iter()
        .find(|it| it.1 == kind)
        .expect("a kind of the tests");
    let metadata = &object["metadata"];
    (
        (*plural).to_owned(),
        text(&metadata["namespace"]),
        text(&metadata["name"]),
    )
}

/// Objects in a page of a list.
const PAGE: usize = 2;
