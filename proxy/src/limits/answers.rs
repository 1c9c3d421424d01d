//! Limits of the answers that policies have the gateway send.

use std::time::Duration;

/// Placeholders of a body that the gateway fills: 64. Each may become a host of 255 bytes, escaped six times as
/// long, so that a body grows by 96 KiB at most; further ones stay as they are.
pub const PLACEHOLDERS: usize = 64;
/// Bytes of a body of the gateway that are written at once: 16 KiB, the size of an HTTP/2 frame. A client has to
/// take as much within its write timeout, and connections keep no more memory for it.
pub const ANSWER_PIECE_BYTES: usize = 16 << 10;
/// Ranges of `Accept` by which the body of a page is chosen: the first 64. Browsers send fewer than ten; with several
/// bodies, each of some thousand ranges would be compared with each of them.
pub const ACCEPT_RANGES: usize = 64;
/// Time for the page of a server: 1 s, or what is left of the request's timeout. The client waits for its error
/// meanwhile.
pub const PAGE_TIMEOUT: Duration = Duration::from_secs(1);
/// Longest page of a server: 256 KiB, that of a body in a ConfigMap.
pub const PAGE_BYTES: usize = 256 << 10;
/// Requests for pages in flight: at most 64 of a shard. Servers share them fairly, so that one that hangs gets half of
/// them and leaves the others for those of other tenants; errors beyond wait for nothing. Their pages count with the
/// buffers in use until they are sent, and are dropped for a text while these take more than half of what they may.
pub const PAGE_REQUESTS: usize = 64;
/// Old content of a backend that is read in order to use its connection again: up to 64 KiB, as of clients.
pub const PAGE_DRAIN_BYTES: u64 = 64 << 10;
/// Time for it: 200 ms, two ticks. What is on its way arrives by then, and the client's next request waits as long.
pub const PAGE_DRAIN_TIMEOUT: Duration = Duration::from_millis(200);
