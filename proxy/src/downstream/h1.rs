//! HTTP/1 from clients: reads heads one after another and passes each to the request path.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use xds::model::Alpn;

use crate::exchange::local_response::reject_for_removed_bind;
use crate::exchange::scratch::Scratch;
use crate::exchange::{Client, ConnectionOutcome, NextStep, Proxy};
use crate::failure::{Failure, FailureKind};
use crate::http::engine::frame::PREFACE;
use crate::http::h1::{HeadLimits, HeadScan, Progress, outline, parse_request};
use crate::limits::REQUESTS_PER_POLL;
use crate::memory::Buffer;
use crate::policy::proxy_protocol::Start;
use crate::request;
use crate::shard::Shard;
use crate::shard::deadline::Expiry;
use crate::shard::tasks::TaskState;

use super::proxy_protocol;

/// Serves requests until the connection ends or has been idle for a while.
pub(crate) async fn serve(proxy: &Rc<Proxy>, client: &mut Client) -> NextStep {
    let shard = &proxy.shard;
    let early = client.early.take();
    let mut buffer = early.map_or_else(|| shard.buffers.take_small(), |early| *early);
    let mut scratch = proxy.scratch.take();
    let next = requests(proxy, client, &mut buffer, &mut scratch).await;
    client.deadline.park();
    if next == NextStep::Park {
        shard.buffers.put_idle(buffer);
        proxy.scratch.put_idle(scratch);
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
) -> NextStep {
    let shard = &proxy.shard;
    let (mut without_wait, mut after_response) = (0, false);
    loop {
        shard.set_task_state(TaskState::ReadingHead);
        match read_head(shard, client, buffer, scratch, after_response).await {
            Head::Complete { waited } => {
                without_wait = if waited { 0 } else { without_wait + 1 };
            }
            Head::Failed(failure) => {
                scratch.received.keep_outline(&outline(buffer.filled()));
                return request::refuse(proxy, client, buffer, scratch, failure).await;
            }
            Head::Orphaned => return reject_for_removed_bind(shard, client).await,
            Head::OfH2 => {
                client.early = Some(Box::new(std::mem::take(buffer)));
                return NextStep::UpgradeToHttp2;
            }
            Head::Ended(next) => return next,
        }
        client.requests += 1;
        shard.set_task_state(TaskState::Forwarding);
        match request::handle(proxy, client, buffer, scratch).await {
            ConnectionOutcome::KeepAlive => {}
            ConnectionOutcome::End(next) => return next,
        }
        after_response = true;
        if without_wait >= REQUESTS_PER_POLL {
            shard.turns.yield_turn().await;
            without_wait = 0;
        }
    }
}

enum Head {
    /// The head is in the scratch memory; whether the read had to wait.
    Complete {
        waited: bool,
    },
    /// The head was rejected.
    Failed(Failure),
    /// Its bind was removed.
    Orphaned,
    /// The HTTP/2 connection preface instead of a head (RFC 9113 section 3.3).
    OfH2,
    Ended(NextStep),
}

/// Reads until the buffer holds a head, takes it out and parses it. After a response (`after_response`),
/// the next request is unlikely to have arrived yet.
async fn read_head(
    shard: &Rc<Shard>,
    client: &Client,
    buffer: &mut Buffer,
    scratch: &mut Scratch,
    after_response: bool,
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
                return Head::Ended(NextStep::Close);
            }
            Preface::Not | Preface::Partial => {}
        }
        if preface == Preface::Not && !buffer.is_empty() {
            let Some(limits) = &limits else {
                // A client that has sent a request gets a response.
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
            read_or_park(client, buffer, after_response).await
        } else {
            // Measured from the head's first bytes: later ones do not extend it.
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
                return Head::Ended(NextStep::Park);
            }
            // A truncated head is reported as such, however the connection ended.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return ended(client, buffer);
            }
            Err(_) => return Head::Ended(NextStep::Close),
        }
    }
}

/// A connection that begins with something other than a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Preface {
    Not,
    /// Possibly one of the others.
    Partial,
    /// The HTTP/2 preface; required if ALPN chose HTTP/2.
    OfH2,
    /// An untrusted PROXY protocol header.
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
    // ALPN decides: a client that sends the other protocol is rejected in the negotiated one.
    match client.agreed_protocol() {
        Some(Alpn::Http11) => Preface::Not,
        Some(Alpn::H2) if !bytes.is_empty() && !may_start => Preface::OfH2,
        _ if starts => Preface::OfH2,
        _ if may_start => Preface::Partial,
        _ => Preface::Not,
    }
}

/// Reads a request's first bytes; after a while without any, or when too many connections wait,
/// returns the buffer to the pool.
async fn read_or_park(
    client: &Client,
    buffer: &mut Buffer,
    after_response: bool,
) -> io::Result<usize> {
    if after_response && let Some(socket) = client.stream.as_socket() {
        let read = || socket.read_now(buffer);
        if let Some(read) = client.deadline.postpone(read).await {
            return read;
        }
    }
    let handle = client.deadline.read_handle();
    let _waits = client.deadline.wait_with_buffer();
    client.stream.read_until_canceled(buffer, handle).await
}

fn ended(client: &Client, buffer: &Buffer) -> Head {
    match (client.deadline.expired(), buffer.is_empty()) {
        (true, false) => Head::Failed(FailureKind::HeadTimeout.into()),
        _ => Head::Ended(NextStep::Close),
    }
}

/// Limits that apply before the request's listener is known.
struct Limits {
    head: HeadLimits,
    timeout: Option<Duration>,
}

impl Limits {
    /// `None` if the bind was removed.
    fn of(shard: &Shard, client: &Client) -> Option<Self> {
        let snapshot = shard.config.load();
        let limits = &snapshot.bind(client.bind)?.limits;
        Some(Self {
            head: HeadLimits::of_request(limits),
            timeout: limits.head_timeout,
        })
    }
}
