//! HTTP/2 from clients: one task drives a connection, and each stream is a task that takes the same
//! request path as HTTP/1.

mod driver;
mod early_response;
pub(crate) mod tasks;

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;

use super::Downstream;
use crate::channel::Channel;
use crate::exchange::client::Shared;
use crate::exchange::scratch::Scratch;
use crate::exchange::{Client, ConnectionOutcome, NextStep};
use crate::http::h1::RequestError;
use crate::http2::Stream;
use crate::names::Interned;
use crate::observe::counters::GaugeGuard;
use crate::request;

pub(crate) use self::driver::serve;

/// A stream being served.
struct ServedStream {
    downstream: Rc<Downstream>,
    connection: Shared,
    bind: u32,
}

/// A stream that a client has opened.
struct Opened {
    stream: Stream,
    /// It has the request's head.
    scratch: Box<Scratch>,
    /// Why it is to be rejected.
    rejected: Option<RequestError>,
}

impl ServedStream {
    async fn run(self, opened: Opened) {
        let proxy = &self.downstream.proxy;
        let shard = &proxy.shard;
        let counters = shard.counters.binds.of(Interned::bind(self.bind));
        let _counted = GaugeGuard::new(&counters.streams);
        let Opened {
            stream,
            mut scratch,
            rejected,
        } = opened;
        if rejected.is_some() {
            scratch.received.reduce_to_outline();
        }
        let channel = Channel::H2(stream);
        let client = Client::of_stream(shard, channel, self.connection, self.bind);
        let mut buffer = shard.buffers.without_memory();
        let next = match rejected {
            None => {
                let handling = request::handle(proxy, &client, &mut buffer, &mut scratch);
                match until_reset(&client, pin!(handling)).await {
                    ConnectionOutcome::KeepAlive => NextStep::Close,
                    ConnectionOutcome::End(next) => next,
                }
            }
            Some(error) => {
                request::refuse(proxy, &client, &mut buffer, &mut scratch, error.into()).await
            }
        };
        shard.buffers.put(buffer);
        proxy.scratch.put(scratch);
        if next == NextStep::Reset {
            client.stream.reset_on_close();
        } else {
            early_response::drop_rest_of_request(shard, &client).await;
        }
    }
}

/// Runs an exchange, and lets it check its client as soon as the stream is reset.
async fn until_reset<T>(client: &Client, mut exchange: Pin<&mut impl Future<Output = T>>) -> T {
    let mut gone = false;
    poll_fn(|context| {
        let polled = exchange.as_mut().poll(context);
        let stream = client.stream.as_h2();
        if gone
            || polled.is_ready()
            || !stream.is_some_and(|stream| stream.poll_closed(context).is_ready())
        {
            return polled;
        }
        gone = true;
        client.deadline.on_stream_reset();
        exchange.as_mut().poll(context)
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::{Opened, ServedStream};

    fn of_run<F>(_: impl Fn(ServedStream, Opened) -> F) -> usize {
        size_of::<F>()
    }

    /// It was twice that while it passed the exchange's future on by value.
    #[test]
    fn the_future_of_a_stream_is_bounded() {
        assert!(
            of_run(ServedStream::run) <= 8 * 1024,
            "{} bytes",
            of_run(ServedStream::run)
        );
    }
}
