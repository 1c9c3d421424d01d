//! The PROXY protocol header of a connection: read once, before the first request, where the bind's
//! policy says that one may come.

use std::io;
use std::rc::Rc;

use xds::model::Scheme;

use crate::net::Buffer;
use crate::observe::proxy_headers::ProxyHeaderFailure;
use crate::policy::forwarded::Hop;
use crate::policy::proxy_protocol::{Expectation, Malformed, Progress, parse};
use crate::shard::Shard;

use super::connection::Client;

/// Why a connection is closed before its first request.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("its PROXY protocol header is malformed: {0}")]
    Malformed(#[from] Malformed),
    #[error("it does not begin with a PROXY protocol header, which the policy requires")]
    Missing,
    #[error("the policy requires a PROXY protocol header, and does not trust this peer's")]
    Untrusted,
    #[error("it did not come to the end of a PROXY protocol header in time")]
    Late,
    #[error("it ended within its PROXY protocol header")]
    Ended,
    #[error("it broke off: {0}")]
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
    let read = match std::mem::replace(&mut client.expects, Expectation::Nothing) {
        Expectation::Nothing => return true,
        Expectation::Refused => Err(Refused::Untrusted),
        expected => header(shard, client, buffer, expected).await,
    };
    if let Err(why) = &read {
        shard.counters.proxy_headers.count(why.cause());
        tracing::debug!(client = %client.hop.address(), %why, "closed a connection");
    }
    read.is_ok()
}

async fn header(
    shard: &Shard,
    client: &mut Client,
    buffer: &mut Buffer,
    expected: Expectation,
) -> Result<(), Refused> {
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
            Progress::NotProxy if expected == Expectation::Optional => return Ok(()),
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
