//! The end of a stream whose response came before the end of its request.

use crate::exchange::Client;
use crate::limits::{LINGER_TIMEOUT, REST_OF_REQUEST_IDLE_TIMEOUT, REST_OF_REQUEST_TIMEOUT};
use crate::shard::Shard;
use crate::shard::deadline::Expiry;

/// Receives and drops the rest of a request after its response, within the limits of HTTP/1. Beyond them, the
/// end of the stream resets it with `NO_ERROR` (RFC 9113 section 8.1). That alone would be enough, but there
/// are clients that do not read the response then: curl before 8 reports an error, and the client of Java 17
/// ignores the reset, and waits for windows until the connection ends.
pub(super) async fn drop_rest_of_request(shard: &Shard, client: &Client) {
    let Some(stream) = client.stream.as_h2().filter(|it| it.has_early_response()) else {
        return;
    };
    let mut until = shard.now().after(REST_OF_REQUEST_TIMEOUT);
    let mut is_short = false;
    loop {
        let now = shard.now();
        if !is_short && shard.needs_room() {
            is_short = true;
            until = until.min(now.after(LINGER_TIMEOUT));
        }
        let left = until.since(now).min(REST_OF_REQUEST_IDLE_TIMEOUT);
        client.deadline.arm(Some(left), Expiry::Disconnect);
        if !stream.drop_bytes().await {
            return;
        }
    }
}
