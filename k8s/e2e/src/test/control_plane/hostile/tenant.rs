//! The hostile tenant: writes attacks and random objects at a fixed rate into its own namespace.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Result, ensure};
use kube::Error;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::sync::oneshot::Receiver;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use super::apart::Apart;
use super::attacks::ATTACKS;
use super::schema::Schema;
use crate::test::control_plane::random::Random;
use crate::test::scope::Scope;

/// Interval of writes: 20 a second.
const INTERVAL: Duration = Duration::from_millis(50);

/// Writes in flight; while there are as many, no more are begun.
const CONCURRENT: usize = 20;

/// Random objects of each kind at a time.
const OBJECTS: usize = 12;

/// Of 100 writes, how many delete an object.
const DELETES: u32 = 10;

/// Of 100 writes that are not deletions, how many are random objects.
const GENERATED: u32 = 40;

/// Largest status of an object in bytes, and largest message of a condition in characters, with
/// some room for what the API server adds.
const STATUS: usize = 80 << 10;
const MESSAGE: usize = 2_200;

/// Kinds whose objects are made from their schemas, and their definitions.
const GENERATED_KINDS: [(&str, &str); 10] = [
    ("TrafficPolicy", "trafficpolicies.gateway-system.io"),
    ("Backend", "backends.gateway-system.io"),
    ("GatewayParameters", "gatewayparameters.gateway-system.io"),
    ("HTTPRoute", "httproutes.gateway.networking.k8s.io"),
    ("GRPCRoute", "grpcroutes.gateway.networking.k8s.io"),
    ("TLSRoute", "tlsroutes.gateway.networking.k8s.io"),
    ("TCPRoute", "tcproutes.gateway.networking.k8s.io"),
    ("UDPRoute", "udproutes.gateway.networking.k8s.io"),
    ("ListenerSet", "listenersets.gateway.networking.k8s.io"),
    (
        "BackendTLSPolicy",
        "backendtlspolicies.gateway.networking.k8s.io",
    ),
];

/// A tenant at work, in a thread of its own.
pub(super) struct Tenant(Apart<Result<Writes>>);

/// What became of the tenant's writes.
#[derive(Debug, Default, Clone)]
pub(super) struct Writes {
    accepted: BTreeMap<String, usize>,
    rejected: usize,
    deleted: usize,
    /// Neither accepted nor rejected, such as timeouts.
    failed: Vec<String>,
}

impl Tenant {
    /// Begins to write. `owner` is the namespace of the shared Gateways.
    pub(super) async fn start(scope: &Scope, owner: &str) -> Result<Self> {
        let mut schemas = Vec::new();
        for (kind, definition) in GENERATED_KINDS {
            schemas.push(Schema::read(scope, kind, definition).await?);
        }
        let mut writer = Writer {
            scope: scope.clone(),
            owner: owner.to_owned(),
            schemas,
            random: Random::new(u64::from(std::process::id())),
        };
        let work = Apart::start(async move |stopped| {
            writer.scope = writer.scope.in_this_runtime().await?;
            Ok(writer.write(stopped).await)
        });
        work.map(Self)
    }

    pub(super) async fn stop(self) -> Writes {
        let outcome = self.0.stop().await.and_then(|writes| writes);
        outcome.unwrap_or_else(|error| Writes {
            failed: vec![format!("{error:#}")],
            ..Writes::default()
        })
    }
}

struct Writer {
    scope: Scope,
    owner: String,
    schemas: Vec<Schema>,
    random: Random,
}

impl Writer {
    async fn write(mut self, mut stopped: Receiver<()>) -> Writes {
        let writes = Rc::default();
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut pending = JoinSet::new();
        loop {
            tokio::select! {
                _ = &mut stopped => break,
                _ = ticks.tick() => {}
            }
            while pending.len() >= CONCURRENT {
                pending.join_next().await;
            }
            let delete = self.random.chance(DELETES);
            let object = self.next();
            let sent = send(self.scope.clone(), object, delete, Rc::clone(&writes));
            pending.spawn_local(sent);
        }
        while pending.join_next().await.is_some() {}
        writes.take()
    }

    fn next(&mut self) -> Value {
        if self.random.chance(GENERATED) {
            return self.generated();
        }
        let attack = &ATTACKS[self.random.below(ATTACKS.len())];
        let number = self.random.below(attack.objects);
        let object = (attack.make)(&mut self.random, number, &self.owner);
        debug_assert!(object["metadata"]["name"] == format!("{}-{number}", attack.name));
        object
    }

    /// A random object, which mostly belongs to one of the shared Gateways.
    fn generated(&mut self) -> Value {
        let schema = &self.schemas[self.random.below(self.schemas.len())];
        let mut spec = schema.generate(&mut self.random);
        let gateway = self.random.one_of(&["edge", "epoll"]);
        let parent = json!({"name": gateway, "namespace": self.owner});
        if self.random.chance(80) {
            if spec.get("parentRefs").is_some() {
                spec["parentRefs"] = json!([parent]);
            }
            if spec.get("parentRef").is_some() {
                spec["parentRef"] = parent;
            }
        }
        let name = format!("random-{}", self.random.below(OBJECTS));
        json!({"kind": schema.kind, "metadata": {"name": name}, "spec": spec})
    }
}

/// Applies an object, or deletes the one of its name.
async fn send(scope: Scope, mut object: Value, delete: bool, writes: Rc<RefCell<Writes>>) {
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    let name = object["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let outcome = async {
        let (objects, resource) = scope.objects_of(&kind)?;
        object["apiVersion"] = json!(resource.api_version);
        Ok::<_, anyhow::Error>(if delete {
            objects
                .delete(&name, &DeleteParams::background())
                .await
                .map(drop)
        } else {
            let params = PatchParams::apply("hostile").force();
            objects
                .patch(&name, &params, &Patch::Apply(&object))
                .await
                .map(drop)
        })
    };
    let outcome = outcome.await;
    let mut writes = writes.borrow_mut();
    match outcome {
        Ok(Ok(())) if delete => writes.deleted += 1,
        Ok(Ok(())) => *writes.accepted.entry(kind).or_default() += 1,
        Ok(Err(Error::Api(status))) if (400..500).contains(&status.code) => writes.rejected += 1,
        Ok(Err(error)) => writes.failed.push(format!("{kind} {name}: {error}")),
        Err(error) => writes.failed.push(format!("{kind} {name}: {error:#}")),
    }
}

impl Writes {
    /// Checks that the API server took enough of each kind for the run to mean something.
    pub(super) fn check(&self) -> Result<()> {
        for kind in [
            "HTTPRoute",
            "ListenerSet",
            "TrafficPolicy",
            "GatewayParameters",
            "EndpointSlice",
        ] {
            let count = self.accepted.get(kind).copied().unwrap_or_default();
            ensure!(count >= 1, "no write of a {kind} was accepted: {self}");
        }
        Ok(())
    }
}

impl fmt::Display for Writes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let accepted: usize = self.accepted.values().sum();
        write!(
            f,
            "{accepted} writes accepted ({:?}), {} rejected by the API server, {} deletions, {} failed {:?}",
            self.accepted,
            self.rejected,
            self.deleted,
            self.failed.len(),
            self.failed.iter().take(3).collect::<Vec<_>>()
        )
    }
}

/// Checks that whatever is refused says why, and that no status is too large.
pub(super) async fn check_refusals(scope: &Scope) -> Result<()> {
    let others = ["Gateway"].into_iter();
    let kinds = GENERATED_KINDS.iter().map(|(kind, _)| *kind).chain(others);
    for kind in kinds {
        let objects = scope.objects(kind)?.list(&ListParams::default()).await?;
        for object in objects {
            check_refusal(kind, &object)?;
        }
    }
    Ok(())
}

fn check_refusal(kind: &str, object: &DynamicObject) -> Result<()> {
    let name = object.metadata.name.as_deref().unwrap_or_default();
    let status = &object.data["status"];
    let size = status.to_string().len();
    ensure!(
        size <= STATUS,
        "the status of {kind} {name} has {size} bytes"
    );
    for condition in conditions(status) {
        let message = condition["message"].as_str().unwrap_or_default();
        let says_why = condition["status"] != "False" || !message.is_empty();
        ensure!(says_why, "{kind} {name} does not say why: {condition}");
        let length = message.len();
        ensure!(
            length <= MESSAGE,
            "a message of {kind} {name} has {length} bytes"
        );
    }
    Ok(())
}

/// All conditions of a status: of the object, its parents, ancestors and listeners.
pub(in crate::test::control_plane) fn conditions(status: &Value) -> impl Iterator<Item = &Value> {
    let lists = ["parents", "ancestors", "listeners"].map(|field| &status[field]);
    let parts = lists.into_iter().filter_map(Value::as_array).flatten();
    [status]
        .into_iter()
        .chain(parts)
        .filter_map(|part| part["conditions"].as_array())
        .flatten()
}
