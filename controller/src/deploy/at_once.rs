//! Several requests at the same time.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

/// A future, and its output once there is one.
struct Running<F: Future> {
    future: Pin<Box<F>>,
    output: Option<F::Output>,
}

impl<F: Future> Running<F> {
    fn of(future: F) -> Self {
        Self {
            future: Box::pin(future),
            output: None,
        }
    }
}

/// Runs futures together, on one task. Returns their outputs in the same order.
pub(super) async fn at_once<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut all: Vec<Running<F>> = futures.map(Running::of).collect();
    poll_fn(|context| {
        let mut result = Poll::Ready(());
        for running in all.iter_mut().filter(|it| it.output.is_none()) {
            match running.future.as_mut().poll(context) {
                Poll::Ready(output) => running.output = Some(output),
                Poll::Pending => result = Poll::Pending,
            }
        }
        result
    })
    .await;
    all.into_iter().filter_map(|it| it.output).collect()
}
