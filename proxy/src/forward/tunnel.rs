//! Connects client and endpoint after a switch of protocols.

use crate::channel::tunnel::{End, Tunnel, TunnelContent};
use crate::exchange::NextStep;
use crate::exchange::{ConnectionOutcome, Exchange};
use crate::failure::Failure;
use crate::memory::Buffer;
use crate::shard::tasks::TaskState;
use crate::upstream::pool::Connection;

/// Runs a tunnel until it ends. `buffer` holds what the endpoint has sent already.
pub(super) async fn run(
    exchange: &mut Exchange<'_>,
    connection: &Connection,
    buffer: &mut Buffer,
) -> Result<ConnectionOutcome, Failure> {
    let client = exchange.client;
    exchange.shard.set_task_state(TaskState::Tunnel);
    let received = exchange.received;
    let protocol = received
        .head
        .upgrade
        .map(|protocol| protocol.of(&received.bytes));
    let is_websocket = protocol.is_some_and(|name| name.eq_ignore_ascii_case(b"websocket"));
    let tunnel = Tunnel {
        shard: exchange.shard,
        client: End {
            stream: &client.stream,
            deadline: &client.deadline,
        },
        backend: End {
            stream: &connection.stream,
            deadline: &connection.deadline,
        },
        idle: exchange
            .record
            .rule
            .and_then(|rule| rule.limits.stream_idle_timeout),
        content: if is_websocket {
            TunnelContent::WebSocket
        } else {
            TunnelContent::Anything
        },
    };
    let carried = Box::pin(tunnel.run(exchange.buffer, buffer)).await;
    exchange.record.bytes_in += carried.up;
    exchange.record.bytes_out += carried.down;
    Ok(ConnectionOutcome::End(NextStep::Close))
}
