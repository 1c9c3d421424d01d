//! Streams of a connection to a server, which is the engine in its other role, without sockets.

use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::{Wakes, context, options};
use crate::http::engine::encode::Switch;
use crate::http::engine::error::{Code, ConnectionError, ResetCause};
use crate::http::engine::{
    Connection, Decoded, EndOfInput, Event, Role, Scheme, SectionWriter, Step, StreamKey, Then,
    frame,
};
use crate::http::h1::{RequestError, RequestKind};
use crate::http2::driver::pass;
use crate::http2::pace::Verdict;
use crate::http2::{NoHead, Owner, ReceivedHead, Session, Stream, StreamEnd};
use crate::limits::INTERIM_RESPONSES;

/// A connection with its server.
struct Rig {
    session: Rc<Session>,
    server: Connection,
    decoded: Decoded,
    /// The streams that the server knows, in order.
    keys: Vec<StreamKey>,
    /// The streams that it was told are reset.
    resets: Vec<(StreamKey, ResetCause)>,
}

/// A pair whose server allows so many streams.
fn rig(streams: u32) -> Rig {
    let mut options_of_server = options(Role::Server, 65_535);
    options_of_server.streams = streams;
    let mut rig = Rig {
        session: Session::new(options(Role::Client, 65_535), Rc::default(), Rc::default()),
        server: Connection::new(options_of_server),
        decoded: Decoded::default(),
        keys: Vec::new(),
        resets: Vec::new(),
    };
    rig.exchange();
    rig
}

impl Rig {
    /// A stream with a request.
    fn request(&self) -> Stream {
        let stream = self.session.stream_to_open();
        stream.put_request(RequestKind::Other, |head| {
            head.method(b"GET");
            head.scheme(Scheme::Http);
            head.path(b"/");
            head.authority(b"a.test");
            Switch::Ignored
        });
        stream
    }

    /// Passes on everything that either side has written, until there is no more.
    fn exchange(&mut self) {
        loop {
            let asked = self.session.take_output();
            self.session.end_turn(&context());
            self.serve(asked.as_deref().unwrap_or_default());
            let answered = std::mem::take(self.server.output());
            self.server.output_taken();
            self.receive(&answered);
            if asked.is_none() && answered.is_empty() {
                return;
            }
        }
    }

    fn serve(&mut self, input: &[u8]) {
        self.server.begin_turn(Duration::ZERO);
        let mut at = 0;
        loop {
            let step = self.server.receive(input, &mut at, &mut self.decoded);
            match step.expect("a correct client") {
                Step::Event(Event::Request { key, .. }) => self.keys.push(key),
                Step::Event(Event::Reset { key, cause }) => {
                    self.resets.push((key, cause));
                    self.server.release(key);
                }
                Step::Event(_) => {}
                Step::NextTurn => self.server.begin_turn(Duration::ZERO),
                Step::NeedMore | Step::OutputFull => return,
            }
        }
    }

    fn receive(&mut self, input: &[u8]) {
        self.session.begin_turn(Duration::ZERO);
        let mut at = 0;
        loop {
            match self.session.receive(input, &mut at).expect("correct") {
                Step::Event(event) => pass(&self.session, event, input, &mut Nobody),
                Step::NextTurn => self.session.begin_turn(Duration::ZERO),
                Step::NeedMore | Step::OutputFull => return,
            }
        }
    }

    /// Responds to the nth request.
    fn responds(&mut self, nth: usize) {
        let key = self.keys[nth];
        let responded = self.server.respond(key, Then::End, |head| head.status(204));
        responded.expect("an open stream");
        self.server.release(key);
        self.exchange();
    }
}

/// An owner who does nothing about what concerns the connection.
struct Nobody;

impl Owner for Nobody {
    fn accept(&mut self, _: &Rc<Session>, _: StreamKey, _: Then, _: Option<RequestError>) {
        panic!("servers open no streams");
    }

    fn on_settings(&mut self) {}

    fn on_parked(&mut self) {}

    fn on_go_away(&mut self) {}

    fn on_send_failure(&mut self) -> bool {
        panic!("nothing is sent over a socket");
    }

    fn on_error(&mut self, error: ConnectionError) {
        panic!("{error}");
    }

    fn on_verdict(&mut self, verdict: Verdict) {
        panic!("{verdict:?}");
    }

    fn on_end(&mut self, end: EndOfInput) {
        panic!("{end:?}");
    }
}

/// Whether a request without a body was sent; `None` if it waits.
fn sent(stream: &Stream) -> Option<bool> {
    match pin!(stream.send(b"", Some(b""))).poll(&mut context()) {
        Poll::Ready(sent) => Some(sent.is_ok()),
        Poll::Pending => None,
    }
}

fn head(stream: &Stream) -> Poll<Result<Box<ReceivedHead>, NoHead>> {
    pin!(stream.next_head()).poll(&mut context())
}

fn status(stream: &Stream) -> Option<u16> {
    match head(stream) {
        Poll::Ready(Ok(received)) => Some(received.head.status),
        _ => None,
    }
}

fn end(stream: &Stream) -> Option<StreamEnd> {
    match head(stream) {
        Poll::Ready(Err(NoHead::Ended(end))) => Some(end),
        _ => None,
    }
}

#[test]
fn requests_wait_in_order_until_the_server_allows_another_stream() {
    let mut rig = rig(2);
    let streams: Vec<_> = (0..5).map(|_| rig.request()).collect();
    let [one, two, three, four, five] = <[Stream; 5]>::try_from(streams).ok().expect("five");
    assert_eq!(
        [&one, &two, &three, &four].map(sent),
        [Some(true), Some(true), None, None]
    );
    rig.exchange();
    assert_eq!(rig.keys.len(), 2);
    rig.responds(0);
    assert_eq!(status(&one), Some(204));
    drop(one);
    // The room is for the first one that waits, not for those that come later.
    assert_eq!([&five, &four].map(sent), [None, None]);
    // If that one is not sent any more, it is for the next one.
    drop(three);
    assert_eq!([&five, &four].map(sent), [None, Some(true)]);
    rig.exchange();
    assert_eq!(rig.keys.len(), 3);
    rig.responds(1);
    rig.responds(2);
    drop((two, four));
    assert_eq!(sent(&five), Some(true));
    rig.exchange();
    assert!(rig.resets.is_empty(), "{:?}", rig.resets);
}

#[test]
fn a_goaway_ends_the_requests_that_wait_and_lets_others_finish() {
    let mut rig = rig(1);
    let [one, two, three] = std::array::from_fn(|_| rig.request());
    assert_eq!([&one, &two].map(sent), [Some(true), None]);
    rig.exchange();
    rig.server.shut_down();
    rig.exchange();
    assert_eq!(end(&two), Some(StreamEnd::Unsent));
    assert_eq!(sent(&two), Some(false));
    // One that the connection was handed out to before the GOAWAY arrived.
    assert_eq!(sent(&three), Some(false));
    assert_eq!(end(&three), Some(StreamEnd::Unsent));
    rig.responds(0);
    assert_eq!(status(&one), Some(204));
    assert!(!rig.session.opens_streams());
}

#[test]
fn requests_above_the_last_one_of_a_goaway_are_unprocessed() {
    let mut rig = rig(10);
    let [one, two] = std::array::from_fn(|_| rig.request());
    assert_eq!([&one, &two].map(sent), [Some(true), Some(true)]);
    rig.exchange();
    let mut bytes = Vec::new();
    frame::write_go_away(&mut bytes, 1, Code::NO_ERROR);
    rig.receive(&bytes);
    assert_eq!(end(&one), None);
    assert_eq!(end(&two), Some(StreamEnd::Reset(ResetCause::Unprocessed)));
    drop(two);
    rig.responds(0);
    assert_eq!(status(&one), Some(204));
}

#[test]
fn a_request_that_is_not_needed_any_more_is_cancelled() {
    let mut rig = rig(10);
    let [one, two] = std::array::from_fn(|_| rig.request());
    assert_eq!(sent(&one), Some(true));
    rig.exchange();
    drop((one, two));
    rig.exchange();
    let cancelled = ResetCause::Peer(Code::CANCEL);
    assert_eq!(rig.resets, [(rig.keys[0], cancelled)]);
    assert_eq!(rig.session.users(), 0);
}

/// An endpoint could fill the memory otherwise, while its client reads nothing.
#[test]
fn only_so_many_interim_responses_are_kept() {
    let mut rig = rig(10);
    let stream = rig.request();
    assert_eq!(sent(&stream), Some(true));
    rig.exchange();
    let key = rig.keys[0];
    for _ in 0..INTERIM_RESPONSES + 50 {
        let informed = rig.server.inform(key, |head| head.status(103));
        informed.expect("an open stream");
    }
    rig.exchange();
    let mut interims = 0;
    while status(&stream) == Some(103) {
        interims += 1;
    }
    // The reader fails with the last one.
    assert_eq!(interims, INTERIM_RESPONSES + 1);
}

#[test]
fn a_request_that_waits_for_the_output_ends_with_its_connection() {
    let rig = rig(100);
    let body = vec![b'x'; 40_000];
    let others = [rig.request(), rig.request()];
    for other in &others {
        let _ = pin!(other.send(&body, None)).poll(&mut context());
    }
    let wakes = Arc::<Wakes>::default();
    let waker = Waker::from(Arc::clone(&wakes));
    let stream = rig.request();
    let mut sending = pin!(stream.send(b"", Some(b"")));
    let mut context = Context::from_waker(&waker);
    assert!(sending.as_mut().poll(&mut context).is_pending());
    rig.session.end_streams(StreamEnd::Closed);
    assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
    assert!(matches!(sending.poll(&mut context), Poll::Ready(Err(_))));
    let none = head(&stream);
    assert!(matches!(
        none,
        Poll::Ready(Err(NoHead::Ended(StreamEnd::Unsent)))
    ));
}

#[test]
fn a_stream_that_has_ended_leaves_its_place_before_it_is_released() {
    let mut rig = rig(1);
    let [one, other] = [rig.request(), rig.request()];
    assert_eq!((sent(&one), sent(&other)), (Some(true), None));
    rig.exchange();
    rig.responds(0);
    assert_eq!(sent(&other), Some(true));
    rig.exchange();
    assert_eq!(rig.keys.len(), 2);
    assert!(head(&one).is_ready());
}

#[test]
fn a_request_in_the_output_is_not_sent_when_its_connection_ends() {
    let mut rig = rig(100);
    let [one, other] = [rig.request(), rig.request()];
    assert_eq!(sent(&one), Some(true));
    rig.exchange();
    assert_eq!(sent(&other), Some(true));
    rig.session.end_streams(StreamEnd::Closed);
    let end = |stream| match head(stream) {
        Poll::Ready(Err(NoHead::Ended(end))) => end,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        (end(&one), end(&other)),
        (StreamEnd::Closed, StreamEnd::Unsent)
    );
    assert_eq!(rig.session.take_output(), None);
}
