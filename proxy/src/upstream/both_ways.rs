//! Sends to an endpoint while its response is awaited: it may respond before it has read everything.

use std::future::{Future, poll_fn};
use std::pin::Pin;

/// Runs both to completion; when the second completes first, `stop` makes the first one end too.
/// Neither is dropped early: the kernel uses their buffers.
pub(crate) async fn first_until_second<T>(
    mut first: Pin<&mut impl Future<Output = ()>>,
    mut second: Pin<&mut impl Future<Output = T>>,
    stop: impl FnOnce(),
) -> T {
    let mut sending = true;
    let result = poll_fn(|context| {
        if sending && first.as_mut().poll(context).is_ready() {
            sending = false;
        }
        second.as_mut().poll(context)
    })
    .await;
    if sending {
        stop();
        first.await;
    }
    result
}
