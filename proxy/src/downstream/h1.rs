//! HTTP/1 from clients: heads off the wire one after another, each handed to the request path.

use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use xds::model::Alpn;

use crate::exchange::answer::turn_away;
use crate::exchange::scratch::Scratch;
use crate::exchange::{After, Client, Next, Proxy};
use crate::failure::{Failure, FailureKind};
use crate::http::h1::{HeadLimits, HeadScan, Progress, outline, parse_request};
use crate::http::h2::frame::PREFACE;
use crate::limits::REQUESTS_PER_POLL;
use crate::memory::Buffer;
use crate::policy::proxy_protocol::Start;
use crate::request;
use crate::shard::Shard;
use crate::shard::deadline::Expiry;
use crate::shard::tasks::TaskState;

use super::proxy_protocol;

/// Serves requests until the connection ends or nothing has come for a while.
pub(crate) async fn serve(proxy: &Rc<Proxy>, client: &mut Client) -> Next {
    let shard = &proxy.shard;
    let early = client.early.take();
    let mut buffer = early.map_or_else(|| shard.buffers.take_small(), |early| *early);
    let mut scratch = proxy.scratch.take();
    let next = requests(proxy, client, &mut buffer, &mut scratch).await;
    client.deadline.park();
    if next == Next::Park {
        shard.buffers.give_up(buffer);
        proxy.scratch.give_up(scratch);
    } else {
        shard.buffers.put(buffer);
        proxy.scratch.put(scratch);
    }
    next
}

async fn requests(
    proxy: &Rc<Proxy>,
    client: &mut Client,
    buffer: &mut Buffer,
    scratch: &mut Scratch,
) -> Next {
    let shard = &proxy.shard;
    let (mut without_wait, mut answered) = (0, false);
    loop {
        shard.note(TaskState::ReadingHead);
        match read_head(shard, client, buffer, scratch, answered).await {
            Head::Complete { waited } => {
                without_wait = if waited { 0 } else { without_wait + 1 };
            }
            Head::Failed(failure) => {
                scratch.received.keep_outline(&outline(buffer.filled()));
                return request::refuse(proxy, client, buffer, scratch, failure).await;
            }
            Head::Orphaned => return turn_away(shard, client).await,
            Head::OfH2 => {
                client.early = Some(Box::new(std::mem::take(buffer)));
                return Next::SpeakH2;
            }
            Head::Ended(next) => return next,
        }
        client.requests += 1;
        shard.note(TaskState::Forwarding);
        match request::handle(proxy, client, buffer, scratch).await {
            After::KeepAlive => {}
            After::End(next) => return next,
        }
        answered = true;
        if without_wait >= REQUESTS_PER_POLL {
            shard.turns.give_way().await;
            without_wait = 0;
        }
    }
}

enum Head {
    /// It is in the scratch memory; whether the socket had to be waited for.
    Complete { waited: bool },
    /// It is not to be believed.
    Failed(Failure),
    /// Its bind is gone.
    Orphaned,
    /// It is no head, but what HTTP/2 begins with (RFC 9113 section 3.3).
    OfH2,
    /// There is none.
    Ended(Next),
}

/// Reads until the buffer holds a head, takes it out of the buffer and parses it; `answered`, where
/// the client has just had an answer, and is unlikely to have sent the next one yet.
async fn read_head(
    shard: &Rc<Shard>,
    client: &Client,
    buffer: &mut Buffer,
    scratch: &mut Scratch,
    answered: bool,
) -> Head {
    let mut scan = HeadScan::default();
    let (mut waited, mut timed) = (false, false);
    loop {
        let limits = Limits::of(shard, client);
        let preface = match client.requests {
            0 => preface(client, buffer.filled()),
            _ => Preface::Not,
        };
        match preface {
            Preface::OfH2 => return Head::OfH2,
            Preface::Untrusted => {
                proxy_protocol::refuse_untrusted(shard, client);
                return Head::Ended(Next::Close);
            }
            Preface::Not | Preface::Partial => {}
        }
        if preface == Preface::Not && !buffer.is_empty() {
            let Some(limits) = &limits else {
                // Whoever sends a request to it is owed an answer.
                return Head::Orphaned;
            };
            let head = &mut scratch.received.head;
            match parse_request(buffer.filled(), &limits.head, &mut scan, head) {
                Ok(Progress::Partial) => {}
                Ok(Progress::Complete { len }) => {
                    client.deadline.disarm();
                    scratch
                        .received
                        .keep(buffer.filled().get(..len).unwrap_or_default());
                    buffer.consume(len);
                    return Head::Complete { waited };
                }
                Err(error) => return Head::Failed(error.into()),
            }
        }
        buffer.make_room();
        let read = if buffer.is_empty() {
            read_or_park(client, buffer, answered).await
        } else {
            // From the head's first bytes on: what trickles in later does not extend it.
            if !std::mem::replace(&mut timed, true) {
                let timeout = limits.and_then(|limits| limits.timeout);
                client.deadline.arm(timeout, Expiry::StopReading);
            }
            client.stream.read(buffer).await
        };
        waited = true;
        match read {
            Ok(0) => return ended(client, buffer),
            Ok(_) => {}
            Err(error) if error.raw_os_error() == Some(libc::ECANCELED) => {
                return Head::Ended(Next::Park);
            }
            // A head that is cut short is one, however the connection ended.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return ended(client, buffer);
            }
            Err(_) => return Head::Ended(Next::Close),
        }
    }
}

/// What a connection begins with other than a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Preface {
    Not,
    /// One of the others so far.
    Partial,
    /// What an HTTP/2 client begins with, or should have begun with.
    OfH2,
    /// A PROXY protocol header that is not believed.
    Untrusted,
}

fn preface(client: &Client, bytes: &[u8]) -> Preface {
    match proxy_protocol::forbidden_start(client, bytes) {
        Start::Header(_) => return Preface::Untrusted,
        Start::Undecided => return Preface::Partial,
        Start::Data => {}
    }
    let starts = bytes.starts_with(PREFACE);
    let may_start = !bytes.is_empty() && PREFACE.starts_with(bytes);
    // What TLS has agreed on is what is spoken: a client that says anything else is not answered in
    // the other protocol, but refused in this one.
    match client.agreed_protocol() {
        Some(Alpn::Http11) => Preface::Not,
        Some(Alpn::H2) if !bytes.is_empty() && !may_start => Preface::OfH2,
        _ if starts => Preface::OfH2,
        _ if may_start => Preface::Partial,
        _ => Preface::Not,
    }
}

/// Reads a request's first bytes; after a while without any, or where too many wait, gives the buffer
/// back.
async fn read_or_park(client: &Client, buffer: &mut Buffer, answered: bool) -> io::Result<usize> {
    let handle = client.deadline.cancel_handle();
    let _waits = client.deadline.wait_with_buffer();
    let read = pin!(client.stream.read_until_canceled(buffer, handle));
    if answered {
        client.deadline.put_off(read).await
    } else {
        read.await
    }
}

fn ended(client: &Client, buffer: &Buffer) -> Head {
    match (client.deadline.expired(), buffer.is_empty()) {
        (true, false) => Head::Failed(FailureKind::HeadTimeout.into()),
        _ => Head::Ended(Next::Close),
    }
}

/// What holds before the request's listener is known.
struct Limits {
    head: HeadLimits,
    timeout: Option<Duration>,
}

impl Limits {
    /// `None` where the bind is gone.
    fn of(shard: &Shard, client: &Client) -> Option<Self> {
        let snapshot = shard.config.load();
        let limits = &snapshot.bind(client.bind)?.limits;
        Some(Self {
            head: HeadLimits::of_request(limits),
            timeout: limits.head_timeout,
        })
    }
}
