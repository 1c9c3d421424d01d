//! When all objects are examined for what does not work although it is valid: soon after a change, and so seldom
//! that it takes little time in all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinError, JoinHandle, spawn_blocking};
use tokio::time::{Instant, sleep_until};
use translate::diagnosis::{Diagnosis, Hints, Others, diagnose};
use translate::status::{Reason, Status};
use translate::{ObjectRef, Store, Translator};

use crate::outputs::Outputs;

/// The findings of the last examination, and when the next one is due. It runs on a thread of its own, so that no
/// change waits for it.
#[derive(Debug, Default)]
pub(super) struct Examination {
    due: Option<Instant>,
    running: Option<JoinHandle<Examined>>,
    ended: Option<Result<Examined, JoinError>>,
    /// Until then, changes are collected.
    not_before: Option<Instant>,
    found: BTreeMap<ObjectRef, Arc<[Diagnosis]>>,
    /// Since when Services have no endpoint, or none with a hint, by route and field.
    settling: BTreeMap<(ObjectRef, String, Reason), Instant>,
}

/// The statuses, as translation has them, that say of an object that it does not exist.
pub(super) type Missing = BTreeMap<ObjectRef, Arc<Status>>;

/// The result of an examination.
#[derive(Debug)]
struct Examined {
    found: Vec<Diagnosis>,
    hinted: Vec<Hinted>,
    /// How long it took.
    took: Duration,
}

/// A status with a hint at what was probably meant, by the names that there are now.
#[derive(Debug)]
pub(super) struct Hinted {
    pub(super) object: ObjectRef,
    pub(super) before: Arc<Status>,
    pub(super) after: Status,
}

impl Examination {
    /// Notes that objects have changed.
    pub(super) fn changed(&mut self, now: Instant) {
        self.due_at(now + DELAY);
    }

    fn due_at(&mut self, soon: Instant) {
        let at = self.not_before.map_or(soon, |it| it.max(soon));
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// Waits until there is something to do: call [`Examination::go_on`] then. For ever if nothing is due.
    pub(super) async fn wake(&mut self) {
        match (&mut self.running, self.due) {
            (Some(running), _) => {
                self.ended = Some(running.await);
                self.running = None;
            }
            (None, Some(due)) => sleep_until(due).await,
            (None, None) => std::future::pending().await,
        }
    }

    /// Takes the result of an examination that has ended, and begins the next one if that is due.
    /// Returns the statuses of which the names that they hint at may have changed.
    pub(super) fn go_on(
        &mut self,
        translator: &Translator,
        missing: &Missing,
        outputs: &Outputs,
    ) -> Vec<Hinted> {
        let (now, mut hinted) = (Instant::now(), Vec::new());
        // One that panicked, by a defect, has been logged: the findings before stay.
        if let Some(Ok(examined)) = self.ended.take() {
            self.not_before = Some(now + examined.took * SHARE);
            self.take(examined.found, outputs, now);
            hinted = examined.hinted;
        }
        if self.running.is_some() || self.due.is_none_or(|due| due > now) {
            return hinted;
        }
        self.due = None;
        // The objects are shared: a clone costs some nanoseconds for each.
        let (store, options) = (translator.store().clone(), translator.options().clone());
        let missing = missing.clone();
        self.running = Some(spawn_blocking(move || {
            let started = Instant::now();
            Examined {
                found: diagnose(&store, &options, Others::Hidden),
                hinted: hinted_again(&store, missing),
                took: started.elapsed(),
            }
        }));
        hinted
    }

    /// Hands over what changed.
    fn take(&mut self, found: Vec<Diagnosis>, outputs: &Outputs, now: Instant) {
        let found = self.settled(found, now);
        let mut by_object: BTreeMap<ObjectRef, Vec<Diagnosis>> = BTreeMap::new();
        for diagnosis in found {
            let of_object = by_object.entry(diagnosis.object.clone()).or_default();
            of_object.push(diagnosis);
        }
        let now: BTreeMap<ObjectRef, Arc<[Diagnosis]>> = by_object
            .into_iter()
            .map(|(object, found)| (object, found.into()))
            .collect();
        let before = std::mem::replace(&mut self.found, now);
        let gone = before.into_keys().filter(|it| !self.found.contains_key(it));
        let gone = gone.map(|object| (object, None));
        let now = self.found.iter();
        let now = now.map(|(object, found)| (object.clone(), Some(Arc::clone(found))));
        outputs.diagnoses.set_all(gone.chain(now));
    }

    /// Leaves out Services that have had no endpoint, or none with a hint, for a moment only, as when a Deployment is
    /// created or its last pod is replaced: the conditions of all their routes would be written twice.
    fn settled(&mut self, found: Vec<Diagnosis>, now: Instant) -> Vec<Diagnosis> {
        let is_of_endpoints = |it: &Diagnosis| {
            matches!(
                it.reason,
                Reason::NoReadyEndpoints | Reason::NoEndpointSlice | Reason::NoTopologyHints
            )
        };
        // One without a slice has an empty one next: that is no other finding.
        let kind = |reason| match reason {
            Reason::NoEndpointSlice => Reason::NoReadyEndpoints,
            other => other,
        };
        let key = |it: &Diagnosis| (it.object.clone(), it.field.clone(), kind(it.reason));
        let now_empty = found.iter().filter(|it| is_of_endpoints(it)).map(key);
        let now_empty: BTreeSet<(ObjectRef, String, Reason)> = now_empty.collect();
        self.settling.retain(|it, _| now_empty.contains(it));
        for it in now_empty {
            self.settling.entry(it).or_insert(now);
        }
        let lasts = |since: &Instant| *since + SETTLE <= now;
        let waiting = self.settling.values().filter(|it| !lasts(it)).min();
        if let Some(since) = waiting.copied() {
            self.due_at(since + SETTLE);
        }
        let settling = &self.settling;
        let lasting = found.into_iter();
        lasting
            .filter(|it| !is_of_endpoints(it) || settling.get(&key(it)).is_none_or(lasts))
            .collect()
    }
}

/// Completes statuses again: translation does so only when it writes them, and names come and go meanwhile. What
/// there is no room for stays as it is.
fn hinted_again(store: &Store, missing: Missing) -> Vec<Hinted> {
    let hints = Hints::new(store, Others::Hidden);
    let hinted = missing.into_iter().map(|(object, before)| {
        let mut after = Status::clone(&before);
        hints.complete(&object, &mut after);
        let hinted = Hinted {
            object,
            before,
            after,
        };
        (!hints.take_shortness()).then_some(hinted)
    });
    hinted.flatten().collect()
}

/// Time from a change to the examination, so that one sees all objects of a `kubectl apply`: 500 ms.
const DELAY: Duration = Duration::from_millis(500);
/// At least this many times as long as an examination took, none follows: it takes 2 % of a processor at most.
const SHARE: u32 = 50;
/// How long a Service is without endpoints before that is reported: 2 s.
const SETTLE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;
    use translate::{Batch, Event, Object, Options};

    fn objects(text: &str) -> Vec<Object> {
        let source = translate::files::Source::new("a.yaml", text);
        let admitted = translate::files::admit(&[source]).objects;
        admitted.into_iter().map(|it| it.0).collect()
    }

    const ROUTE: &str = "{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: a}, spec: \
                         {parentRefs: [{name: NAME}], rules: [{backendRefs: [{name: shop, port: 80}]}]}}";

    struct Scene {
        outputs: Outputs,
        translator: Translator,
        examination: Examination,
    }

    impl Scene {
        fn new() -> Self {
            Self {
                outputs: Outputs::default(),
                translator: Translator::new(Options::cluster()),
                examination: Examination::default(),
            }
        }

        fn apply(&mut self, events: impl IntoIterator<Item = Event>) {
            let batch = Batch::from_iter(events);
            self.translator.apply(batch, jiff::Timestamp::UNIX_EPOCH);
            self.examination.changed(Instant::now());
        }

        /// Goes on until nothing runs or is due before this time.
        async fn pass(&mut self, until: Instant) {
            loop {
                let missing = Missing::new();
                self.examination
                    .go_on(&self.translator, &missing, &self.outputs);
                let is_due = self.examination.due.is_some_and(|it| it <= until);
                if self.examination.running.is_none() && !is_due {
                    return sleep_until(until).await;
                }
                self.examination.wake().await;
            }
        }

        fn found(&self, object: &ObjectRef) -> Vec<Reason> {
            let found = self.outputs.diagnoses.get(object);
            let found = found.iter().flat_map(|it| it.iter());
            found.map(|it| it.reason).collect()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn changes_are_examined_together_and_what_is_mended_is_gone() {
        let mut scene = Scene::new();
        let objects = objects(&ROUTE.replace("NAME", "gone"));
        let name = objects[0].object_ref();
        let start = Instant::now();
        scene.apply(objects.into_iter().map(Event::Upsert));
        scene.pass(start + DELAY / 2).await;
        assert_eq!(scene.found(&name), [], "it waits for more");
        scene.pass(start + DELAY).await;
        assert_eq!(scene.found(&name), [Reason::NoMatchingParent]);
        assert_eq!(scene.examination.due, None);

        scene.apply([Event::Delete(name.clone())]);
        scene.pass(start + DELAY * 3).await;
        assert_eq!(scene.found(&name), []);
    }

    #[tokio::test(start_paused = true)]
    async fn services_that_have_no_endpoint_for_a_moment_are_not_reported() {
        let mut scene = Scene::new();
        let gateway = "{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {name: edge}, spec: \
                       {gatewayClassName: gateway, listeners: [{name: http, port: 80, protocol: HTTP}]}}";
        let service =
            "{apiVersion: v1, kind: Service, metadata: {name: shop}, spec: {ports: [{port: 80}]}}";
        let route = ROUTE.replace("NAME", "edge");
        let objects = objects(&format!("{route}\n---\n{gateway}\n---\n{service}"));
        let route = objects.iter().find(|it| matches!(it, Object::HttpRoute(_)));
        let route = route.expect("a route").object_ref();
        let start = Instant::now();
        scene.apply(objects.into_iter().map(Event::Upsert));
        scene.pass(start + SETTLE).await;
        assert_eq!(scene.found(&route), [], "it may end by itself");
        scene.pass(start + SETTLE * 2).await;
        assert_eq!(scene.found(&route), [Reason::NoEndpointSlice]);
    }

    #[tokio::test(start_paused = true)]
    async fn endpoints_without_hints_for_a_moment_are_not_reported() {
        let mut scene = Scene::new();
        let text = "{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {name: edge}, spec: \
                    {gatewayClassName: gateway, listeners: [{name: http, port: 80, protocol: HTTP}]}}\n---\n\
                    {apiVersion: v1, kind: Service, metadata: {name: shop}, spec: {trafficDistribution: \
                    PreferSameZone, ports: [{port: 80}]}}\n---\n\
                    {apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: shop, labels: \
                    {kubernetes.io/service-name: shop}}, addressType: IPv4, ports: [{port: 8080}], endpoints: \
                    [{addresses: [10.0.0.1]}]}\n---\n";
        let objects = objects(&format!("{text}{}", ROUTE.replace("NAME", "edge")));
        let route = objects.iter().find(|it| matches!(it, Object::HttpRoute(_)));
        let route = route.expect("a route").object_ref();
        let start = Instant::now();
        scene.apply(objects.into_iter().map(Event::Upsert));
        scene.pass(start + SETTLE).await;
        assert_eq!(scene.found(&route), [], "hints may follow");
        scene.pass(start + SETTLE * 2).await;
        assert_eq!(scene.found(&route), [Reason::NoTopologyHints]);
    }
}
