//! Limits of HTTP/2 connections.

use std::time::Duration;

use super::KIB;

/// Streams of a client tracked for resets: 256, more than it may open; further ones are refused
/// before any work is done for them.
pub const H2_WATCHED_STREAMS: usize = 256;
/// Bytes of a client's stream window: 64 KiB, a pooled buffer. It bounds what is buffered for a
/// blocked receiver, but a large upload waits for an update every 64 KiB.
pub const H2_STREAM_WINDOW_BYTES: u32 = 64 * 1024;
/// Bytes of the largest window in HTTP/2 (RFC 9113 section 6.9.1): 2 GiB less one.
pub const MAX_H2_WINDOW_BYTES: u32 = (1 << 31) - 1;
/// Bytes of the window of a connection to an endpoint: the maximum. Clients share it: with 1 MiB, 16
/// responses that one client did not read blocked all others.
pub const H2_UPSTREAM_CONNECTION_WINDOW_BYTES: u32 = MAX_H2_WINDOW_BYTES;
/// Most streams of a connection to an endpoint: 32 767, whose windows fit into the connection's.
pub const H2_UPSTREAM_STREAMS: u32 = H2_UPSTREAM_CONNECTION_WINDOW_BYTES / H2_STREAM_WINDOW_BYTES;
/// Bytes of one stream queued for the socket, and of one send: 64 KiB.
pub const H2_SEND_BYTES: usize = 64 * KIB;
/// Largest frame accepted, in bytes: 16 KiB, the protocol's minimum.
pub const H2_FRAME_BYTES: u32 = 16 * 1024;
/// Consecutive reads without waiting, before a yield: 4 (256 KiB).
pub const H2_READS_PER_POLL: u32 = 4;
/// Heads of one connection decoded in an iteration of its shard: 16, as many as are started in a
/// poll, some 50 µs. A flood sends hundreds in one read.
pub const H2_HEADS_PER_TURN: usize = 16;
/// `RST_STREAM` frames per second from a client: 100, more than any legitimate use.
pub const H2_RESETS_PER_SECOND: u32 = 100;
/// Streams over which a peer is judged, since a connection carries any number of them: of 500, half may be
/// reset by a client, and half by the gateway for its errors.
pub const H2_SAMPLE: u32 = 500;
/// Resets by the gateway for errors of the peer, of streams that may be older than the sample, until the
/// sample ends: 500 (CVE-2025-8671).
pub const H2_LOCAL_RESETS: u32 = 500;
/// PING frames per second, besides one after each DATA frame sent: 100.
pub const H2_PINGS_PER_SECOND: u32 = 100;
/// SETTINGS frames per second: 50.
pub const H2_SETTINGS_PER_SECOND: u32 = 50;
/// CONTINUATION frames per head besides its last one: 5; the largest head fits into four in all
/// (CVE-2024-27316).
pub const H2_CONTINUATIONS: u32 = 5;
/// Unprompted `WINDOW_UPDATE`, PRIORITY and empty DATA frames without `END_STREAM`, each: 100.
pub const H2_FREE_FRAMES: u64 = 100;
/// Further ones for each stream, and `WINDOW_UPDATE` for each DATA frame sent: 10; peers that
/// update every 4 KiB need 8.
pub const H2_FREE_FRAMES_PER_STREAM: u64 = 10;
/// Silence after which a peer that owes bytes receives a PING: 30 s.
pub const H2_PING_AFTER: Duration = Duration::from_secs(30);
/// Silence after which an endpoint that has answered its last PING, and sent nothing since, receives another
/// one: 305 s. Servers of gRPC allow one in 300 s between their messages, and end the connection otherwise.
pub const H2_PING_AGAIN_AFTER: Duration = Duration::from_secs(305);
/// Timeout for the response to that PING: 15 s.
pub const H2_PING_TIMEOUT: Duration = Duration::from_secs(15);
/// Timeout for an endpoint's HTTP/2 preface, the rest of a head, and writes: 10 s.
pub const H2_UPSTREAM_TIMEOUT: Duration = Duration::from_secs(10);

/// Settings in one SETTINGS frame: 32; the protocol defines seven (CVE-2020-11080).
pub const H2_SETTINGS_PER_FRAME: usize = 32;
/// Bytes of a field block as received: 64 KiB, the largest head that a policy can allow, which is hardly
/// ever longer in its encoding.
pub const H2_BLOCK_BYTES: usize = 64 * KIB;
/// Decoded bytes of a field block relative to the largest head: 4 times; above, the connection ends.
/// Up to that, the rest of a head that is too large is decoded into nothing and answered with 431.
pub const H2_BLOCK_FACTOR: usize = 4;
/// Bytes of acknowledgements, resets and updates queued for a peer that does not read: 16 KiB; then
/// nothing more is read from it (CVE-2019-9512, CVE-2019-9515).
pub const H2_CONTROL_BYTES: usize = 16 * KIB;
/// Bytes of a stream's window while received bytes exceed their memory's soft limit: 16 KiB, a frame.
pub const H2_PRESSED_WINDOW_BYTES: u32 = 16 * 1024;
/// Bytes of a connection's window meanwhile: 64 KiB, so that its streams share what one of them could hold
/// otherwise. Without any, uploads would wait for memory that others keep.
pub const H2_PRESSED_CONNECTION_WINDOW_BYTES: u32 = 64 * 1024;
/// Streams of a client remembered after we reset them: 256, more than it may open. Their frames may still
/// be on the way, and are ignored.
pub const H2_RESET_MEMORY: usize = 256;
