//! The server of a script: a connection as those of clients, and an echo.

use std::future::poll_fn;
use std::rc::Rc;
use std::time::Duration;

use http::StatusCode;

use crate::http::engine::error::ConnectionError;
use crate::http::engine::{EndOfInput, Options, Role, StreamKey, Then};
use crate::http::h1::encode::{LocalResponse, Persist};
use crate::http::h1::{HeadLimits, RequestError, RequestKind};
use crate::http::head::Version;
use crate::http2::pace::{BufferParking, Pace, Verdict};
use crate::http2::{Link, Outbox, Owner, ReadMode, Reader, Session};
use crate::limits::{H2_STREAM_WINDOW_BYTES, Limits};
use crate::memory::{Buffer, BufferPool};
use crate::net::Stream;
use crate::shard::Shard;
use crate::shard::deadline::Deadline;

/// Serves a connection until it ends: one task drives it, and each stream has one.
pub(super) async fn serve(shard: Rc<Shard>, stream: Stream, reads: Rc<Deadline>) {
    let limits = Limits::default();
    let options = Options {
        role: Role::Server,
        streams: limits.http2_streams,
        stream_window: H2_STREAM_WINDOW_BYTES,
        connection_window: limits.http2_connection_window(),
        heads: HeadLimits::of_request(&limits),
    };
    let pace = Pace {
        head: None,
        idle: None,
        write: None,
        parks: BufferParking::Yes,
    };
    let writes = Deadline::new(&shard, stream.fd());
    let session = Session::new(options, Rc::default(), Rc::clone(&shard.buffers));
    let reader = Reader::new(&shard, &stream, &reads, pace, Buffer::default());
    let outbox = Outbox::new(&stream, &writes, pace.write);
    let mut link = Link::new(session, reader, outbox);
    let mut echoes = Echoes(Rc::clone(&shard.buffers));
    poll_fn(|context| {
        link.begin_turn(Duration::ZERO);
        let turn = link.receive(context, &mut echoes);
        link.poll_end_turn(context, turn, &shard.turns, &mut echoes)
    })
    .await;
    link.reader.linger().await;
}

/// Echoes every request.
struct Echoes(Rc<BufferPool>);

impl Owner for Echoes {
    fn accept(
        &mut self,
        session: &Rc<Session>,
        key: StreamKey,
        then: Then,
        rejected: Option<RequestError>,
    ) {
        assert_eq!(rejected, None);
        monoio::spawn(echo(session.accept(key, then), self.0.without_memory()));
    }

    fn on_settings(&mut self) {}

    fn on_parked(&mut self) {}

    fn on_go_away(&mut self) {
        panic!("the client sends no GOAWAY");
    }

    /// The client may close before it has read everything.
    fn on_send_failure(&mut self) -> bool {
        false
    }

    fn on_error(&mut self, error: ConnectionError) {
        panic!("nothing is wrong with the frames: {error}");
    }

    fn on_verdict(&mut self, verdict: Verdict) {
        panic!("no timeout is set: {verdict:?}");
    }

    fn on_end(&mut self, end: EndOfInput) {
        assert_eq!(end, EndOfInput::BetweenFrames);
    }
}

/// Echoes a body while it is received.
async fn echo(stream: crate::http2::Stream, mut buffer: Buffer) {
    stream.put_local_response(&LocalResponse {
        status: StatusCode::OK,
        request_kind: RequestKind::Other,
        client: Version::Http2,
        persist: Persist::Keep,
        append: b"",
        length: 0,
    });
    loop {
        let read = stream.read(&mut buffer, ReadMode::Uncancelable).await;
        if read.expect("the client stays") == 0 {
            break;
        }
        let sent = stream.send(buffer.filled(), None).await;
        sent.expect("the client stays");
        buffer.clear();
    }
    let ended = stream.send(b"", Some(b"")).await;
    ended.expect("the client stays");
}
