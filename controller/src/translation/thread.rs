//! The thread of translation.
//!
//! A batch is translated without a pause, for seconds if many objects change. On a worker thread of the
//! runtime, the task that it woke last, such as the status writer, would wait for its end; with one
//! processor all of them would: probes, the renewal of the Lease, the xDS server.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread::Builder;

use tokio::runtime::{self, Runtime};
use tokio::sync::{mpsc, oneshot, watch};

use super::Translation;
use crate::watch::Change;

impl Translation {
    /// Starts it on its own thread, where it waits until all of `are_ready`. Drop the future to stop it; it ends
    /// with the translation, and panics if that does.
    ///
    /// # Errors
    ///
    /// The thread cannot be started.
    pub fn start(
        self,
        are_ready: [watch::Receiver<bool>; 2],
        changes: mpsc::Receiver<Change>,
    ) -> io::Result<impl Future<Output = ()> + Send + 'static> {
        start(async move {
            for mut part in are_ready {
                // Without a sender, nothing is going to change.
                let _ = part.wait_for(|is_ready| *is_ready).await;
            }
            self.run(changes).await;
        })
    }
}

type Panic = Box<dyn Any + Send>;

fn start(
    task: impl Future<Output = ()> + Send + 'static,
) -> io::Result<impl Future<Output = ()> + Send + 'static> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    let (sender, ended) = oneshot::channel();
    let thread = Builder::new().name(NAME.to_owned());
    thread.spawn(move || run(&runtime, task, sender))?;
    Ok(async move {
        if let Ok(Err(panic)) = ended.await {
            resume_unwind(panic);
        }
    })
}

/// Runs the task until its end, or until nobody waits for it.
fn run(
    runtime: &Runtime,
    task: impl Future<Output = ()>,
    mut ended: oneshot::Sender<Result<(), Panic>>,
) {
    let result = catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(async {
            tokio::select! {
                () = task => {}
                () = ended.closed() => {}
            }
        });
    }));
    let _ = ended.send(result);
}

/// Name of the thread, as shown by tools.
const NAME: &str = "translation";

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex, PoisonError, mpsc as blocking};

    use jiff::Timestamp;
    use tokio::time::Instant;
    use translate::Options;

    use translate::ObjectKind;

    use super::*;
    use crate::metrics::Metrics;
    use crate::outputs::Outputs;
    use crate::watch::{ChangeKind, Kinds};

    /// The runtime of these tests has a single thread, which a task in the way would stop.
    #[tokio::test]
    async fn a_long_batch_does_not_stop_other_tasks() {
        let (release, released) = blocking::channel();
        let translation = start(async move { released.recv().expect("it is released") });
        let translation = tokio::spawn(translation.expect("a thread"));
        let other = tokio::spawn(async { tokio::task::yield_now().await });
        other.await.expect("it runs beside the batch");
        release.send(()).expect("the batch waits");
        translation.await.expect("it ended");
    }

    #[tokio::test]
    async fn a_panic_of_translation_is_one_of_its_task() {
        let translation = start(async { panic!("a defect") }).expect("a thread");
        let error = tokio::spawn(translation).await.expect_err("it panicked");
        let panic = error.into_panic();
        assert_eq!(panic.downcast_ref(), Some(&"a defect"));
    }

    #[tokio::test]
    async fn translation_ends_when_nobody_waits_for_it() {
        let (guard, dropped) = oneshot::channel::<()>();
        let translation = start(async move {
            let _guard = guard;
            std::future::pending::<()>().await;
        });
        drop(translation.expect("a thread"));
        dropped.await.expect_err("the task was dropped");
    }

    #[tokio::test]
    async fn batches_are_translated_on_the_thread_of_translation() {
        static THREAD: Mutex<Option<String>> = Mutex::new(None);
        let clock = || {
            let name = std::thread::current().name().map(str::to_owned);
            *THREAD.lock().unwrap_or_else(PoisonError::into_inner) = name;
            Timestamp::UNIX_EPOCH
        };
        let (kinds, outputs) = (Kinds::new(&[]), Arc::new(Outputs::default()));
        let kind = ObjectKind::Gateway;
        let metrics = Metrics::default();
        let translation = Translation::new(Options::cluster(), &kinds, outputs, &metrics, clock);
        let (sender, changes) = mpsc::channel(1);
        let (_ready, is_ready) = watch::channel(true);
        let is_ready = [is_ready.clone(), is_ready];
        let translation = translation.start(is_ready, changes).expect("a thread");
        let change = Change {
            kind,
            what: ChangeKind::Synced,
            received: Instant::now(),
        };
        sender.send(change).await.expect("translation runs");
        drop(sender);
        translation.await;
        let thread = THREAD.lock().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(thread.as_deref(), Some(NAME));
    }
}
