//! The tasks that process the objects of a queue. A panic of one is contained: it is counted and
//! logged, its place in the queue is free again, and it concerns its object alone.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::task::{Id, JoinSet};
use tracing::error;
use translate::ObjectRef;
use xds::fast_hash::FastHashMap;

use super::measures::WriterMeasures;

/// The running tasks of a queue, each with its object.
#[derive(Debug)]
pub struct Tasks<T> {
    running: JoinSet<T>,
    objects: FastHashMap<Id, ObjectRef>,
    measures: WriterMeasures,
}

/// The message of a panic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Panic(String);

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Panic {
    fn of(payload: &(dyn Any + Send)) -> Self {
        let text = payload.downcast_ref::<&str>().map(|it| (*it).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
        Self(text.unwrap_or_else(|| "no message".to_owned()))
    }
}

impl<T: Send + 'static> Tasks<T> {
    pub(crate) fn new(measures: WriterMeasures) -> Self {
        Self {
            running: JoinSet::new(),
            objects: FastHashMap::default(),
            measures,
        }
    }

    /// Starts to process an object.
    pub fn start(&mut self, object: ObjectRef, task: impl Future<Output = T> + Send + 'static) {
        let handle = self.running.spawn(task);
        self.objects.insert(handle.id(), object);
    }

    /// Waits for the next task to end; `None` if there is none. Cancel-safe.
    pub async fn next(&mut self) -> Option<(ObjectRef, Result<T, Panic>)> {
        loop {
            let (id, result) = match self.running.join_next_with_id().await? {
                Ok((id, result)) => (id, Ok(result)),
                Err(error) => (error.id(), Err(error)),
            };
            let Some(object) = self.objects.remove(&id) else {
                continue;
            };
            let result = result.map_err(|error| match error.try_into_panic() {
                Ok(payload) => self.panicked(&object, &*payload),
                Err(cancelled) => Panic(cancelled.to_string()),
            });
            return Some((object, result));
        }
    }

    /// Runs a step of processing an object that needs no task.
    ///
    /// # Errors
    ///
    /// It panicked.
    pub fn run<R>(&self, object: &ObjectRef, step: impl FnOnce() -> R) -> Result<R, Panic> {
        // What a step leaves behind is not looked at after a panic: it only reads.
        let result = catch_unwind(AssertUnwindSafe(step));
        result.map_err(|payload| self.panicked(object, &*payload))
    }

    /// Ends all tasks.
    pub async fn shutdown(&mut self) {
        self.running.shutdown().await;
        self.objects.clear();
    }

    fn panicked(&self, object: &ObjectRef, payload: &(dyn Any + Send)) -> Panic {
        let panic = Panic::of(payload);
        self.measures.panicked();
        error!(
            %object,
            %panic,
            "a defect: writing this object panicked; others are not affected; please report it"
        );
        panic
    }
}
