//! The PROXY protocol header of a connection: read once, before the first request, where the bind's
//! policy says that one may come; the end of the connection where it comes from whom the policy does
//! not trust.

use std::io;
use std::rc::Rc;

use xds::model::Scheme;

use crate::config::Opening;
use crate::exchange::Client;
use crate::memory::Buffer;
use crate::observe::proxy_headers::ProxyHeaderFailure;
use crate::policy::forwarded::Hop;
use crate::policy::proxy_protocol::{Expectation, Malformed, Progress, Start, parse};
use crate::shard::Shard;

/// Why a connection is closed before its first request.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("its PROXY protocol header is malformed: {0}")]
    Malformed(#[from] Malformed),
    #[error("it does not begin with a PROXY protocol header, which the policy requires")]
    Missing,
    #[error("the policy does not trust this peer's PROXY protocol header")]
    Untrusted,
    #[error("timeout while reading its PROXY protocol header")]
    Late,
    #[error("it was closed within its PROXY protocol header")]
    Ended,
    #[error("I/O error: {0}")]
    Broken(#[from] io::Error),
}

impl Refused {
    fn cause(&self) -> ProxyHeaderFailure {
        match self {
            Self::Malformed(_) => ProxyHeaderFailure::Malformed,
            Self::Missing => ProxyHeaderFailure::Missing,
            Self::Untrusted => ProxyHeaderFailure::Untrusted,
            Self::Late => ProxyHeaderFailure::Timeout,
            Self::Ended | Self::Broken(_) => ProxyHeaderFailure::Broken,
        }
    }
}

/// Reads the header that is expected of the client, if any, and takes over what it says. Bytes
/// behind it stay in `buffer`. `false` where the connection is to be closed.
pub(super) async fn read(shard: &Shard, client: &mut Client, buffer: &mut Buffer) -> bool {
    let read = match client.expects {
        Expectation::Refused => Err(Refused::Untrusted),
        Expectation::Forbidden if client.opening == Opening::Tls => {
            client.limit_handshake(shard);
            no_header(client, buffer).await
        }
        // Without TLS, whoever reads the first bytes judges them: here they would be waited for.
        Expectation::Nothing | Expectation::Forbidden => return true,
        Expectation::Optional | Expectation::Required => header(shard, client, buffer).await,
    };
    if let Err(why) = &read {
        refuse(shard, client, why);
    }
    read.is_ok()
}

/// What the first bytes of a client start, where no header of it would be believed.
pub(super) fn forbidden_start(client: &Client, bytes: &[u8]) -> Start {
    match client.expects {
        Expectation::Forbidden => Start::of(bytes),
        _ => Start::Data,
    }
}

/// Notes that a connection ends for a header of a peer that is not believed.
pub(super) fn refuse_untrusted(shard: &Shard, client: &Client) {
    refuse(shard, client, &Refused::Untrusted);
}

fn refuse(shard: &Shard, client: &Client, why: &Refused) {
    shard.counters.proxy_headers.count(why.cause());
    tracing::debug!(client = %client.hop.address(), %why, "closed a connection");
}

/// Reads until it is clear that no header comes. Where nothing comes any more, that is for whoever
/// reads on.
async fn no_header(client: &Client, buffer: &mut Buffer) -> Result<(), Refused> {
    loop {
        match Start::of(buffer.filled()) {
            Start::Data => return Ok(()),
            Start::Header(_) => return Err(Refused::Untrusted),
            Start::Undecided => {}
        }
        if !matches!(client.stream.read(buffer).await, Ok(1..)) {
            return Ok(());
        }
    }
}

async fn header(shard: &Shard, client: &mut Client, buffer: &mut Buffer) -> Result<(), Refused> {
    client.limit_handshake(shard);
    loop {
        match parse(buffer.filled())? {
            Progress::Complete { len, endpoints } => {
                buffer.consume(len);
                if let Some(endpoints) = endpoints {
                    client.hop = Hop::new(endpoints.source.ip(), Scheme::Http);
                    client.ends = Some(Rc::new(endpoints));
                }
                return Ok(());
            }
            Progress::NotProxy if client.expects == Expectation::Optional => return Ok(()),
            Progress::NotProxy => return Err(Refused::Missing),
            Progress::Partial => {}
        }
        let read = client.stream.read(buffer).await;
        if client.deadline.expired() {
            return Err(Refused::Late);
        }
        if read? == 0 {
            return Err(Refused::Ended);
        }
    }
}
