//! When all objects are examined for what does not work although it is valid: soon after a change, and so seldom
//! that it takes little time in all.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::Instant;
use translate::diagnosis::{Diagnosis, Others, diagnose};
use translate::{ObjectRef, Translator};

use crate::outputs::Outputs;

/// When the next examination is due. It runs on a thread of its own, so that no change waits for it.
#[derive(Debug, Default)]
pub(super) struct Examination {
    due: Option<Instant>,
    last: Arc<Mutex<Last>>,
}

/// The last examination.
#[derive(Debug, Default)]
struct Last {
    is_running: bool,
    /// Until then, changes are collected.
    not_before: Option<Instant>,
    found: BTreeMap<ObjectRef, Arc<[Diagnosis]>>,
}

impl Examination {
    /// Notes that objects have changed.
    pub(super) fn changed(&mut self, now: Instant) {
        if self.due.is_none() {
            let soon = now + DELAY;
            let not_before = lock(&self.last).not_before;
            self.due = Some(not_before.map_or(soon, |it| it.max(soon)));
        }
    }

    /// When to call [`Examination::run_if_due`].
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Begins to examine all objects if that is due. What is found is handed over at the end.
    pub(super) fn run_if_due(
        &mut self,
        translator: &Translator,
        outputs: &Arc<Outputs>,
    ) -> Option<JoinHandle<()>> {
        let now = Instant::now();
        if self.due? > now {
            return None;
        }
        let mut last = lock(&self.last);
        if last.is_running {
            self.due = Some(now + DELAY);
            return None;
        }
        last.is_running = true;
        self.due = None;
        // The objects are shared: their number is what a clone costs.
        let (store, options) = (translator.store().clone(), translator.options().clone());
        let (running, outputs) = (Running(Arc::clone(&self.last)), Arc::clone(outputs));
        Some(spawn_blocking(move || {
            let started = Instant::now();
            let found = diagnose(&store, &options, Others::Hidden);
            let mut last = lock(&running.0);
            last.take(found, &outputs);
            let ended = Instant::now();
            last.not_before = Some(ended + (ended - started) * SHARE);
        }))
    }
}

impl Last {
    /// Hands over what changed.
    fn take(&mut self, found: Vec<Diagnosis>, outputs: &Outputs) {
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
}

/// An examination that runs, until it is dropped: by a panic too, so that the next one may begin.
struct Running(Arc<Mutex<Last>>);

impl Drop for Running {
    fn drop(&mut self) {
        lock(&self.0).is_running = false;
    }
}

/// A panic while it is locked leaves nothing half done that matters: the next examination replaces it.
fn lock(last: &Mutex<Last>) -> MutexGuard<'_, Last> {
    last.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Time from a change to the examination, so that one sees all objects of a `kubectl apply`: 500 ms.
const DELAY: Duration = Duration::from_millis(500);
/// At least this many times as long as an examination took, none follows: it takes 2 % of a processor at most.
const SHARE: u32 = 50;

#[cfg(test)]
mod tests {
    use super::*;
    use translate::{Batch, Event, Options};

    #[tokio::test(start_paused = true)]
    async fn changes_are_examined_together_and_what_is_mended_is_gone() {
        let text = "{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: a}, spec: \
                    {parentRefs: [{name: gone}]}}";
        let source = translate::files::Source::new("a.yaml", text);
        let objects = translate::files::admit(&[source]).objects;
        let route = objects.into_iter().next().expect("it is valid").0;
        let name = route.object_ref();
        let outputs = Arc::new(Outputs::default());
        let mut translator = Translator::new(Options::cluster());
        let mut examination = Examination::default();
        let apply = |event: Event, examination: &mut Examination, translator: &mut Translator| {
            translator.apply(Batch::from_iter([event]), jiff::Timestamp::UNIX_EPOCH);
            examination.changed(Instant::now());
        };
        apply(Event::Upsert(route), &mut examination, &mut translator);
        let early = examination.run_if_due(&translator, &outputs);
        assert!(early.is_none(), "it waits for more");
        tokio::time::advance(DELAY).await;
        let running = examination.run_if_due(&translator, &outputs);
        running.expect("it is due").await.expect("it ends");
        let found = outputs.diagnoses.get(&name).expect("a parent is missing");
        assert_eq!(found[0].field, "spec.parentRefs[0].name");
        assert_eq!(examination.due(), None);

        apply(
            Event::Delete(name.clone()),
            &mut examination,
            &mut translator,
        );
        tokio::time::advance(DELAY).await;
        let running = examination.run_if_due(&translator, &outputs);
        running.expect("it is due").await.expect("it ends");
        assert_eq!(outputs.diagnoses.get(&name), None);
    }

    #[tokio::test(start_paused = true)]
    async fn one_examination_runs_at_a_time() {
        let outputs = Arc::new(Outputs::default());
        let translator = Translator::new(Options::cluster());
        let mut examination = Examination::default();
        let running = Running(Arc::clone(&examination.last));
        lock(&running.0).is_running = true;
        examination.changed(Instant::now());
        tokio::time::advance(DELAY).await;
        let second = examination.run_if_due(&translator, &outputs);
        assert!(second.is_none(), "the first one runs");
        drop(running);
        tokio::time::advance(DELAY).await;
        let second = examination.run_if_due(&translator, &outputs);
        second.expect("it is due").await.expect("it ends");
    }
}
