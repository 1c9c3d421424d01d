//! Byte-proxied connections: a rule, a backend, an endpoint, then bytes in both directions.
//!
//! No phase waits for the client: protocols in which the server speaks first work too. A connection
//! keeps its rule and, until it is connected, the rule's clusters, but not its snapshot: connections may
//! last for days, and snapshots are large. The client's bytes received so far (its ClientHello) are in
//! the buffer.

mod admit;
mod reach;
mod record;
pub mod sessions;
pub(crate) mod udp;

use std::rc::Rc;
use std::sync::Arc;

use crate::channel::tunnel::{End, Tunnel, TunnelContent, TunnelEnd};
use crate::config::L4Rule;
use crate::exchange::{Client, Proxy};
use crate::failure::{Failure, FailureKind};
use crate::memory::Buffer;
use crate::policy::proxy_protocol::Expectation;
use crate::shard::RuleHandle;

use self::admit::admit;
use self::reach::{ActiveConnection, reach};
pub(crate) use self::record::{ConnectionRecord, Protocol};

/// Proxies a connection by its rule until it ends, or ends it without one.
///
/// # Errors
///
/// There is no rule, or the connection failed.
pub(crate) async fn serve(
    proxy: &Rc<Proxy>,
    client: &Client,
    buffer: &mut Buffer,
    found: Result<RuleHandle<L4Rule>, Failure>,
    mut record: ConnectionRecord<'_>,
) -> Result<(), Failure> {
    let outcome = match found {
        Ok(found) => {
            record.takes(&proxy.shard, &found.rule);
            let trace = record.trace.as_deref();
            match admit(&proxy.shard, &found.rule, client.hop.address(), trace) {
                Ok(()) => carry(proxy, client, buffer, found, &mut record).await,
                Err(failure) => Err(failure),
            }
        }
        Err(failure) => Err(failure),
    };
    record.finish(&proxy.shard, client.hop.address(), outcome.err());
    outcome
}

async fn carry(
    proxy: &Rc<Proxy>,
    client: &Client,
    buffer: &mut Buffer,
    held: RuleHandle<L4Rule>,
    record: &mut ConnectionRecord<'_>,
) -> Result<(), Failure> {
    let shard = &proxy.shard;
    let ActiveConnection {
        connection,
        endpoint_use,
    } = Box::pin(reach(proxy, client, &held, record)).await?;
    let rule = Arc::clone(&held.rule);
    drop(held);
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
        content: match client.expects {
            Expectation::Forbidden => TunnelContent::Unproxied,
            _ => TunnelContent::Anything,
        },
    };
    let carried = tunnel.run(buffer, &mut from_backend).await;
    shard.buffers.put(from_backend);
    drop(endpoint_use);
    record.bytes_in = carried.up;
    record.bytes_out = carried.down;
    match carried.ended {
        TunnelEnd::Whole => Ok(()),
        TunnelEnd::Idle => Err(FailureKind::StreamIdle.into()),
        TunnelEnd::Drained => Err(FailureKind::Drained.into()),
        TunnelEnd::ClientFailed => Err(FailureKind::ClientGone.into()),
        TunnelEnd::Untrusted => Err(FailureKind::UntrustedHeader.into()),
        TunnelEnd::BackendFailed => Err(FailureKind::UpstreamReset.into()),
    }
}
