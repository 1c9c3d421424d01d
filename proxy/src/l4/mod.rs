//! The life of a connection that is carried as it is, whatever it says: a rule, a backend, an
//! endpoint, then bytes both ways.
//!
//! No phase waits for the client: where the server speaks first, it is heard. A connection keeps
//! its rule and not the snapshot that it came from: connections live for days, and snapshots are
//! large. What the client has said already (its ClientHello) is in the buffer.

mod reach;
mod record;
pub mod sessions;
pub(crate) mod udp;

use std::rc::Rc;
use std::sync::Arc;

use crate::config::L4Rule;
use crate::downstream::connection::{Client, Next};
use crate::downstream::proxy_protocol;
use crate::failure::{Failure, FailureKind};
use crate::net::Buffer;
use crate::policy::proxy_protocol::Expectation;
use crate::shard::{Held, Shard};
use crate::tunnel::{Carries, End, Ended, Tunnel};

use self::reach::{Reached, reach};
pub(crate) use self::record::{Protocol, Record};

/// A rule, with the configuration that its positions are of.
pub(crate) struct Found {
    pub(crate) snapshot: Held,
    pub(crate) rule: Arc<L4Rule>,
}

/// Carries a connection to its end by the rule that was found for it, or ends it without one.
pub(crate) async fn serve(
    shard: &Rc<Shard>,
    client: &Client,
    buffer: &mut Buffer,
    found: Result<Found, Failure>,
    mut record: Record<'_>,
) -> Next {
    let outcome = match found {
        Ok(found) => {
            record.takes(shard, &found.rule);
            carry(shard, client, buffer, found, &mut record).await
        }
        Err(failure) => Err(failure),
    };
    record.finish(shard, client.hop.address(), outcome.err());
    match outcome {
        // Whoever finds no rule sees an orderly end: there is no alert to be misread.
        Ok(()) => Next::Close,
        Err(failure) => match failure.kind {
            FailureKind::NoListener | FailureKind::NoRoute => Next::Close,
            _ => Next::Reset,
        },
    }
}

async fn carry(
    shard: &Rc<Shard>,
    client: &Client,
    buffer: &mut Buffer,
    Found { snapshot, rule }: Found,
    record: &mut Record<'_>,
) -> Result<(), Failure> {
    let Reached {
        connection,
        booking,
    } = Box::pin(reach(shard, client, &snapshot, &rule, record)).await?;
    drop(snapshot);
    let mut from_backend = shard.buffers.take();
    let tunnel = Tunnel {
        shard,
        client: End {
            stream: &client.stream,
            deadline: &client.deadline,
        },
        backend: End {
            stream: &connection.stream,
            deadline: &connection.deadline,
        },
        idle: rule.limits.stream_idle_timeout,
        carries: match client.expects {
            Expectation::Forbidden => Carries::Unproxied,
            _ => Carries::Anything,
        },
    };
    let carried = tunnel.run(buffer, &mut from_backend).await;
    shard.buffers.put(from_backend);
    drop(booking);
    record.bytes_in = carried.up;
    record.bytes_out = carried.down;
    match carried.ended {
        Ended::Whole => Ok(()),
        Ended::Idle => Err(FailureKind::StreamIdle.into()),
        Ended::Drained => Err(FailureKind::Drained.into()),
        Ended::ClientBroke => Err(FailureKind::ClientGone.into()),
        Ended::Untrusted => {
            proxy_protocol::refuse_untrusted(shard, client);
            Err(FailureKind::UntrustedHeader.into())
        }
        Ended::BackendBroke => Err(FailureKind::UpstreamReset.into()),
    }
}
