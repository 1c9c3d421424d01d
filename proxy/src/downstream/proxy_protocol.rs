//! The PROXY protocol header of a connection: read once, before the first request, if the bind's
//! policy expects one; a header from an untrusted peer closes the connection.

use std::io;
use std::rc::Rc;

use xds::model::Scheme;

use crate::config::BindProtocol;
use crate::exchange::Client;
use crate::memory::Buffer;
use crate::observe::proxy_headers::ProxyHeaderFailure;
use crate::policy::forwarded::Hop;
use crate::policy::proxy_protocol::{Expectation, Malformed, Progress, Start, parse};
use crate::shard::Shard;

/// Why a connection is closed before its first request.
#[derive(Debug, thiserror::Error)]
enum ProxyHeaderError {
    #[error("its PROXY protocol header is malformed: {0}")]
    Malformed(#[from] Malformed),
    #[error("the PROXY protocol header that the policy requires is missing")]
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

impl ProxyHeaderError {
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

/// Reads the expected header, if any, and applies its addresses. Bytes after it stay in `buffer`.
/// `false` if the connection must be closed.
pub(super) async fn read(shard: &Shard, client: &mut Client, buffer: &mut Buffer) -> bool {
    let read = match client.expects {
        Expectation::Refused => Err(ProxyHeaderError::Untrusted),
        Expectation::Forbidden if client.opening == BindProtocol::Tls => {
            client.limit_handshake(shard);
            no_header(client, buffer).await
        }
        // Without TLS, the reader of the first bytes checks them: waiting for them here would delay
        // requests.
        Expectation::Nothing | Expectation::Forbidden => return true,
        Expectation::Optional | Expectation::Required => header(shard, client, buffer).await,
    };
    if let Err(why) = &read {
        refuse(shard, client, why);
    }
    read.is_ok()
}

/// Checks a client's first bytes where no header would be trusted.
pub(super) fn forbidden_start(client: &Client, bytes: &[u8]) -> Start {
    match client.expects {
        Expectation::Forbidden => Start::of(bytes),
        _ => Start::Data,
    }
}

/// Counts a connection that ends because of an untrusted header.
pub(super) fn refuse_untrusted(shard: &Shard, client: &Client) {
    refuse(shard, client, &ProxyHeaderError::Untrusted);
}

fn refuse(shard: &Shard, client: &Client, why: &ProxyHeaderError) {
    shard.counters.proxy_headers.count(why.cause());
    tracing::debug!(client = %client.hop.address(), %why, "closed a connection");
}

/// Reads until it is clear that no header comes. An end or error is left to the next read.
async fn no_header(client: &Client, buffer: &mut Buffer) -> Result<(), ProxyHeaderError> {
    loop {
        match Start::of(buffer.filled()) {
            Start::Data => return Ok(()),
            Start::Header(_) => return Err(ProxyHeaderError::Untrusted),
            Start::Undecided => {}
        }
        if !matches!(client.stream.read(buffer).await, Ok(1..)) {
            return Ok(());
        }
    }
}

async fn header(
    shard: &Shard,
    client: &mut Client,
    buffer: &mut Buffer,
) -> Result<(), ProxyHeaderError> {
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
            Progress::NotProxy => return Err(ProxyHeaderError::Missing),
            Progress::Partial => {}
        }
        let read = client.stream.read(buffer).await;
        if client.deadline.expired() {
            return Err(ProxyHeaderError::Late);
        }
        if read? == 0 {
            return Err(ProxyHeaderError::Ended);
        }
    }
}
