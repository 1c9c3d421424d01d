//! The server of a script: the adapter without its rationing of reads, and an echo.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::RecvStream;
use h2::server::{Builder, SendResponse};
use http::{Request, Response};

use crate::http::h2::guard::Peer;
use crate::http2::io::Link;
use crate::http2::liveness::Liveness;
use crate::http2::pace::{BufferParking, Deadlines, Pace};
use crate::http2::usage::InUse;
use crate::limits::{H2_FRAME_BYTES, H2_STREAM_WINDOW_BYTES, Limits};
use crate::memory::Buffer;
use crate::net::Stream;
use crate::shard::Shard;
use crate::shard::deadline::Deadline;

/// Serves a connection until it ends: one task drives it, and each stream has one.
pub(super) async fn serve(shard: Rc<Shard>, stream: Stream, reads: Rc<Deadline>) {
    let writes = Deadline::new(&shard, stream.fd());
    let deadlines = Deadlines {
        reads: &reads,
        writes: &writes,
    };
    let pace = Pace {
        head: None,
        idle: None,
        write: None,
        parks: BufferParking::Yes,
    };
    let first = Buffer::default();
    let link = Link::new(&shard, &stream, deadlines, pace, Peer::Client, first);
    let mut builder = Builder::new();
    builder
        .initial_window_size(H2_STREAM_WINDOW_BYTES)
        .initial_connection_window_size(Limits::default().http2_connection_window())
        .max_frame_size(H2_FRAME_BYTES);
    let mut shaking = pin!(builder.handshake::<_, Bytes>(link.io()));
    let shaken = in_turns(&link, |context| shaking.as_mut().poll(context)).await;
    let mut connection = shaken.expect("a preface");
    let mut liveness = Liveness::of(connection.ping_pong());
    in_turns(&link, |context| {
        loop {
            let mut polled = connection.poll_accept(context);
            if polled.is_pending() && liveness.is_asked_for(&link, context) {
                polled = connection.poll_accept(context);
            }
            let Some(accepted) = ready!(polled) else {
                return Poll::Ready(());
            };
            let (request, respond) = accepted.expect("nothing is wrong with the frames");
            monoio::spawn(echo(request, respond, link.usage().enter()));
        }
    })
    .await;
    link.linger().await;
}

/// Polls once per iteration of the connection until ready.
async fn in_turns<T>(link: &Link<'_>, mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
    poll_fn(|context| {
        link.begin_turn();
        let polled = poll(context);
        link.end_turn(context).expect("the client stays");
        assert_eq!(link.verdict(), None);
        polled
    })
    .await
}

/// Echoes a body while it is received.
async fn echo(request: Request<RecvStream>, mut respond: SendResponse<Bytes>, _in_use: InUse) {
    let mut body = request.into_body();
    let is_empty = body.is_end_stream();
    let response = respond.send_response(Response::new(()), is_empty);
    let mut answer = response.expect("the client stays");
    while let Some(data) = body.data().await {
        let data = data.expect("the client stays");
        let released = body.flow_control().release_capacity(data.len());
        released.expect("it came");
        answer.send_data(data, false).expect("the client stays");
    }
    if !is_empty {
        let end = answer.send_data(Bytes::new(), true);
        end.expect("the client stays");
    }
}
