//! When all objects are examined for what does not work although it is valid: soon after a change, and so seldom
//! that it takes little of the time of translation.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use translate::diagnosis::{Diagnosis, Others, diagnose};
use translate::{ObjectRef, Translator};

use crate::outputs::Outputs;

/// The findings of the last examination, and when the next one is due.
#[derive(Debug, Default)]
pub(super) struct Examination {
    due: Option<Instant>,
    /// Until then, changes are collected.
    not_before: Option<Instant>,
    found: BTreeMap<ObjectRef, Arc<[Diagnosis]>>,
}

impl Examination {
    /// Notes that objects have changed.
    pub(super) fn changed(&mut self, now: Instant) {
        if self.due.is_none() {
            let soon = now + DELAY;
            self.due = Some(self.not_before.map_or(soon, |it| it.max(soon)));
        }
    }

    /// When to call [`Examination::run_if_due`].
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Examines all objects if that is due, and hands over what changed.
    pub(super) fn run_if_due(&mut self, translator: &Translator, outputs: &Outputs) {
        let started = Instant::now();
        if self.due.is_none_or(|due| due > started) {
            return;
        }
        self.due = None;
        let (store, options) = (translator.store(), translator.options());
        self.take(diagnose(store, options, Others::Hidden), outputs);
        let ended = Instant::now();
        self.not_before = Some(ended + (ended - started) * SHARE);
    }

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

/// Time from a change to the examination, so that one sees all objects of a `kubectl apply`: 500 ms.
const DELAY: Duration = Duration::from_millis(500);
/// At least this many times as long as an examination took, none follows: it takes 2 % of the time at most.
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
        let outputs = Outputs::default();
        let mut translator = Translator::new(Options::cluster());
        let mut examination = Examination::default();
        let apply = |event: Event, examination: &mut Examination, translator: &mut Translator| {
            translator.apply(Batch::from_iter([event]), jiff::Timestamp::UNIX_EPOCH);
            examination.changed(Instant::now());
        };
        apply(Event::Upsert(route), &mut examination, &mut translator);
        examination.run_if_due(&translator, &outputs);
        assert_eq!(outputs.diagnoses.get(&name), None, "it waits for more");
        tokio::time::advance(DELAY).await;
        examination.run_if_due(&translator, &outputs);
        let found = outputs.diagnoses.get(&name).expect("a parent is missing");
        assert_eq!(found[0].field, "spec.parentRefs[0].name");
        assert_eq!(examination.due(), None);

        apply(
            Event::Delete(name.clone()),
            &mut examination,
            &mut translator,
        );
        tokio::time::advance(DELAY).await;
        examination.run_if_due(&translator, &outputs);
        assert_eq!(outputs.diagnoses.get(&name), None);
    }
}
