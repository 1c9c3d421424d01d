//! The limits that a policy can change, resolved for one route or listener.

use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use xds::model;

use super::{
    H2_STREAM_WINDOW_BYTES, HOUR, MAX_H2_CONNECTION_WINDOW_BYTES, MAX_H2_STREAM_WINDOW_BYTES,
    MAX_H2_STREAMS, MAX_H2_WINDOW_BYTES, MAX_HEAD_BYTES, MAX_HEADER_FIELDS, MAX_REQUEST_LINE_BYTES,
    MINUTE,
};

/// The limits that a policy can change. A timeout of `None` never fires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a request line, above which 414: 8 KiB, what browsers and caches stay below. Never
    /// more than `MAX_REQUEST_LINE_BYTES`.
    pub request_line_bytes: u32,
    /// Bytes of a request's head, above which 431: 32 KiB, half a buffer, so that a head and the first
    /// body bytes always fit into one. Never more than `MAX_HEAD_BYTES`.
    pub head_bytes: u32,
    /// Fields of a request's head, cookie crumbs counted one by one: 100, as Apache and Envoy. Never
    /// more than `MAX_HEADER_FIELDS`.
    pub header_fields: u32,
    /// Bytes of a response's head, above which 502: 32 KiB, as of a request. Never more than
    /// `MAX_HEAD_BYTES`.
    pub response_head_bytes: u32,
    /// Fields of a response's head, above which 502: 100, as of a request. Never more than
    /// `MAX_HEADER_FIELDS`.
    pub response_header_fields: u32,
    /// Bytes of a request's body, above which 413; `None` (the default) streams any amount, since
    /// nothing of it is kept.
    pub request_body_bytes: Option<NonZeroU64>,
    /// Timeout from the first byte of a head to its last: 10 s, then 408. Bytes that trickle in do
    /// not extend it.
    pub head_timeout: Option<Duration>,
    /// For a client's TLS handshake, and for a PROXY protocol header before it: 5 s, several lost
    /// packets on the slowest of links.
    pub handshake_timeout: Option<Duration>,
    /// Between two reads of a request's body: 30 s, then 408.
    pub body_idle_timeout: Option<Duration>,
    /// Minimum average rate of a request's body in bytes per second: 256, below any modem and above
    /// any attack worth its sockets; slower ones get 408. Not for gRPC and upgraded connections. 0
    /// disables it.
    pub body_min_rate: u32,
    /// Between two bytes of a response, a gRPC stream or a tunnel: 1 h, so that server-sent events
    /// and watches live on.
    pub stream_idle_timeout: Option<Duration>,
    /// Idle timeout of a UDP session: 60 s, or `stream_idle_timeout` if that is shorter; NATs
    /// forget as soon.
    pub datagram_idle_timeout: Option<Duration>,
    /// For how long a client may take no byte of a response, or fewer than `RECEIVER_MIN_RATE`: 30 s.
    pub write_idle_timeout: Option<Duration>,
    /// Between two requests of a client's connection: 60 s, as in browsers.
    pub keep_alive_timeout: Option<Duration>,
    /// For how long a client without TLS that has closed its sending side waits for a byte of its
    /// response: 60 s. It may still read, as after `shutdown(SHUT_WR)`, or be gone: both look the same
    /// until something is sent.
    pub half_close_timeout: Option<Duration>,
    /// Requests of one client connection: any number. A count sends busy clients away all the time,
    /// and idle ones never; `connection_age` spreads load.
    pub requests_per_connection: Option<NonZeroU64>,
    /// Age of a client's connection, with jitter: 1 h, so that load spreads again now and then.
    pub connection_age: Option<Duration>,
    /// Streams that an HTTP/2 client may have open: 100, as HAProxy. Never more than `MAX_H2_STREAMS`.
    pub http2_streams: u32,
    /// Flow-control window of an HTTP/2 stream in bytes: it limits the throughput of an upload per
    /// round trip, and what is buffered of it. By default `H2_STREAM_WINDOW_BYTES`, never more than
    /// `MAX_H2_STREAM_WINDOW_BYTES`.
    pub http2_stream_window_bytes: u32,
    /// Flow-control window of an HTTP/2 connection; `None` (the default) fits the windows of all
    /// its streams, so that uploads to stalled backends do not block others. A policy that lowers
    /// it limits the memory of one client, and accepts such blocking. Never more than
    /// `MAX_H2_CONNECTION_WINDOW_BYTES`.
    pub http2_connection_window_bytes: Option<u32>,
    /// To connect to an endpoint, TLS included: 2 s, one lost SYN and its repetition.
    pub connect_timeout: Option<Duration>,
    /// From the last request byte sent to the response's head: 15 s. Not for gRPC, which brings its
    /// own deadline, nor for upgrades.
    pub response_head_timeout: Option<Duration>,
    /// Connections to one service, over all shards: 1024, as Envoy.
    pub upstream_connections: NonZeroU32,
    /// Requests that wait for a connection to one service, over all shards: 1024, as Envoy.
    pub upstream_pending: NonZeroU32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            request_line_bytes: 8 * 1024,
            head_bytes: 32 * 1024,
            header_fields: 100,
            response_head_bytes: 32 * 1024,
            response_header_fields: 100,
            request_body_bytes: None,
            head_timeout: Some(Duration::from_secs(10)),
            handshake_timeout: Some(Duration::from_secs(5)),
            body_idle_timeout: Some(Duration::from_secs(30)),
            body_min_rate: 256,
            stream_idle_timeout: Some(HOUR),
            datagram_idle_timeout: Some(MINUTE),
            write_idle_timeout: Some(Duration::from_secs(30)),
            keep_alive_timeout: Some(MINUTE),
            half_close_timeout: Some(MINUTE),
            requests_per_connection: None,
            connection_age: Some(HOUR),
            http2_streams: 100,
            http2_stream_window_bytes: H2_STREAM_WINDOW_BYTES,
            http2_connection_window_bytes: None,
            connect_timeout: Some(Duration::from_secs(2)),
            response_head_timeout: Some(Duration::from_secs(15)),
            upstream_connections: NonZeroU32::MIN.saturating_add(1_023),
            upstream_pending: NonZeroU32::MIN.saturating_add(1_023),
        }
    }
}

impl Limits {
    /// These limits, overridden by those of a nearer target. Apply Gateway, listener, route and
    /// rule in this order: the nearest that sets a field wins.
    #[must_use]
    pub fn with(self, nearer: &model::Limits) -> Self {
        let size = |given: Option<NonZeroU32>, wider: u32| given.map_or(wider, NonZeroU32::get);
        Self {
            request_line_bytes: size(nearer.request_line_bytes, self.request_line_bytes)
                .min(MAX_REQUEST_LINE_BYTES),
            head_bytes: size(nearer.head_bytes, self.head_bytes).min(MAX_HEAD_BYTES),
            header_fields: size(nearer.header_fields, self.header_fields).min(MAX_HEADER_FIELDS),
            response_head_bytes: size(nearer.response_head_bytes, self.response_head_bytes)
                .min(MAX_HEAD_BYTES),
            response_header_fields: size(
                nearer.response_header_fields,
                self.response_header_fields,
            )
            .min(MAX_HEADER_FIELDS),
            request_body_bytes: nearer.request_body_bytes.or(self.request_body_bytes),
            head_timeout: resolve(nearer.head_timeout, self.head_timeout),
            handshake_timeout: resolve(nearer.handshake_timeout, self.handshake_timeout),
            body_idle_timeout: resolve(nearer.body_idle_timeout, self.body_idle_timeout),
            body_min_rate: nearer.body_min_rate.unwrap_or(self.body_min_rate),
            stream_idle_timeout: resolve(nearer.stream_idle_timeout, self.stream_idle_timeout),
            datagram_idle_timeout: resolve(
                nearer.datagram_idle_timeout,
                self.datagram_idle_timeout,
            ),
            write_idle_timeout: resolve(nearer.write_idle_timeout, self.write_idle_timeout),
            keep_alive_timeout: resolve(nearer.keep_alive_timeout, self.keep_alive_timeout),
            half_close_timeout: resolve(nearer.half_close_timeout, self.half_close_timeout),
            requests_per_connection: match nearer.requests_per_connection {
                Some(requests) => NonZeroU64::new(requests),
                None => self.requests_per_connection,
            },
            connection_age: resolve(nearer.connection_age, self.connection_age),
            http2_streams: size(nearer.http2_streams, self.http2_streams).min(MAX_H2_STREAMS),
            http2_stream_window_bytes: size(
                nearer.http2_stream_window_bytes,
                self.http2_stream_window_bytes,
            )
            .min(MAX_H2_STREAM_WINDOW_BYTES),
            http2_connection_window_bytes: nearer
                .http2_connection_window_bytes
                .map(|given| given.get().min(MAX_H2_CONNECTION_WINDOW_BYTES))
                .or(self.http2_connection_window_bytes),
            connect_timeout: resolve(nearer.connect_timeout, self.connect_timeout),
            response_head_timeout: resolve(
                nearer.response_head_timeout,
                self.response_head_timeout,
            ),
            upstream_connections: nearer
                .upstream_connections
                .unwrap_or(self.upstream_connections),
            upstream_pending: nearer.upstream_pending.unwrap_or(self.upstream_pending),
        }
    }
}

impl Limits {
    /// Whether a connection that has carried this many requests may carry another one.
    #[must_use]
    pub fn allows_request_after(&self, requests: u64) -> bool {
        self.requests_per_connection
            .is_none_or(|most| requests < most.get())
    }

    /// For how long a UDP session may be quiet.
    #[must_use]
    pub fn session_idle(&self) -> Option<Duration> {
        let timeouts = [self.datagram_idle_timeout, self.stream_idle_timeout];
        timeouts.into_iter().flatten().min()
    }

    /// Bytes of a request's header list in HTTP/2, where each field counts 32 more (RFC 9113 section
    /// 6.5.2). A head within it can still exceed `head_bytes`, which counts it as HTTP/1 would.
    #[must_use]
    pub fn http2_header_list_bytes(&self) -> u32 {
        let overhead = self.header_fields.saturating_mul(32);
        self.head_bytes.saturating_add(overhead)
    }

    /// Bytes that an HTTP/2 client may send on a connection before they were sent on.
    #[must_use]
    pub fn http2_connection_window(&self) -> u32 {
        let all = self
            .http2_streams
            .saturating_mul(self.http2_stream_window_bytes)
            .min(MAX_H2_WINDOW_BYTES);
        self.http2_connection_window_bytes.unwrap_or(all)
    }
}

/// The effective timeout: `given` if it is set, otherwise `wider`.
#[must_use]
pub fn resolve(given: Option<model::Timeout>, wider: Option<Duration>) -> Option<Duration> {
    match given {
        None | Some(model::Timeout::Default) => wider,
        Some(model::Timeout::Never) => None,
        Some(model::Timeout::After(time)) => Some(time),
    }
}

/// One shard's share of a limit for all of them, rounded up so that none is left with nothing.
#[must_use]
pub fn per_shard(limit: NonZeroU32, shards: NonZeroU32) -> NonZeroU32 {
    NonZeroU32::new(limit.get().div_ceil(shards.get())).unwrap_or(NonZeroU32::MIN)
}

#[cfg(test)]
mod tests {
    use std::num::{NonZeroU32, NonZeroU64};
    use std::time::Duration;

    use xds::model::{self, Timeout};

    use super::{Limits, MAX_HEAD_BYTES, MAX_REQUEST_LINE_BYTES, per_shard};
    use crate::limits::{
        H2_STREAM_WINDOW_BYTES, H2_UPSTREAM_CONNECTION_WINDOW_BYTES, H2_UPSTREAM_STREAMS,
        H2_WATCHED_STREAMS,
    };

    fn u32s(n: u32) -> Option<NonZeroU32> {
        NonZeroU32::new(n)
    }

    #[test]
    fn an_empty_policy_changes_no_limit() {
        let limits = Limits::default();
        assert_eq!(limits.with(&model::Limits::default()), limits);
    }

    #[test]
    fn the_nearest_target_wins_for_each_field_separately() {
        let gateway = model::Limits {
            head_bytes: u32s(1_000),
            header_fields: u32s(10),
            connect_timeout: Some(Timeout::After(Duration::from_secs(9))),
            ..model::Limits::default()
        };
        let route = model::Limits {
            header_fields: u32s(20),
            request_body_bytes: NonZeroU64::new(7),
            connect_timeout: Some(Timeout::Default),
            ..model::Limits::default()
        };
        let limits = Limits::default().with(&gateway).with(&route);
        assert_eq!(limits.head_bytes, 1_000);
        assert_eq!(limits.header_fields, 20);
        assert_eq!(limits.request_body_bytes, NonZeroU64::new(7));
        assert_eq!(limits.connect_timeout, Some(Duration::from_secs(9)));
        assert_eq!(limits.head_timeout, Limits::default().head_timeout);
    }

    #[test]
    fn connections_carry_any_number_of_requests_unless_a_policy_counts_them() {
        let counted = |requests| model::Limits {
            requests_per_connection: Some(requests),
            ..model::Limits::default()
        };
        let limits = Limits::default();
        assert!(limits.allows_request_after(u64::MAX));
        let two = limits.with(&counted(2));
        assert!(two.allows_request_after(1) && !two.allows_request_after(2));
        assert!(two.with(&counted(0)).allows_request_after(u64::MAX));
    }

    #[test]
    fn a_timeout_of_never_disables_the_default() {
        let rule = model::Limits {
            response_head_timeout: Some(Timeout::Never),
            ..model::Limits::default()
        };
        assert_eq!(Limits::default().with(&rule).response_head_timeout, None);
    }

    #[test]
    fn the_datagram_session_idle_timeout_falls_back_to_the_stream_idle_timeout() {
        let after = |seconds| Some(Timeout::After(Duration::from_secs(seconds)));
        for (datagram, stream, expected) in [
            (None, None, Some(60)),
            (after(600), None, Some(600)),
            (None, after(2), Some(2)),
            (Some(Timeout::Never), None, Some(3_600)),
            (Some(Timeout::Never), Some(Timeout::Never), None),
        ] {
            let policy_limits = model::Limits {
                datagram_idle_timeout: datagram,
                stream_idle_timeout: stream,
                ..model::Limits::default()
            };
            let idle = Limits::default().with(&policy_limits).session_idle();
            assert_eq!(idle, expected.map(Duration::from_secs));
        }
    }

    #[test]
    fn head_limits_of_policies_are_capped_at_the_largest_span() {
        let huge = model::Limits {
            head_bytes: u32s(u32::MAX),
            request_line_bytes: u32s(u32::MAX),
            response_head_bytes: u32s(u32::MAX),
            ..model::Limits::default()
        };
        let limits = Limits::default().with(&huge);
        assert_eq!(limits.head_bytes, MAX_HEAD_BYTES);
        assert_eq!(limits.request_line_bytes, MAX_REQUEST_LINE_BYTES);
        assert_eq!(limits.response_head_bytes, MAX_HEAD_BYTES);
    }

    #[test]
    fn no_policy_exceeds_the_limits_of_http_2() {
        let huge = model::Limits {
            http2_streams: u32s(u32::MAX),
            http2_stream_window_bytes: u32s(u32::MAX),
            http2_connection_window_bytes: u32s(u32::MAX),
            ..model::Limits::default()
        };
        let limits = Limits::default().with(&huge);
        assert!((limits.http2_streams as usize) < H2_WATCHED_STREAMS);
        // RFC 9113 section 6.9.1.
        assert!(limits.http2_stream_window_bytes < 1 << 31);
        assert!(limits.http2_connection_window() < 1 << 31);
        let unnamed = Limits::default().with(&model::Limits {
            http2_connection_window_bytes: None,
            ..huge
        });
        assert!(unnamed.http2_connection_window() < 1 << 31);
    }

    #[test]
    fn the_connection_window_covers_the_windows_of_its_streams() {
        let limits = Limits::default();
        let all = limits.http2_streams * limits.http2_stream_window_bytes;
        assert_eq!(limits.http2_connection_window(), all);
        let all = u64::from(H2_UPSTREAM_STREAMS) * u64::from(H2_STREAM_WINDOW_BYTES);
        assert!(all <= H2_UPSTREAM_CONNECTION_WINDOW_BYTES.into());
    }

    #[test]
    fn a_shard_gets_its_share_rounded_up() {
        let n = |n: u32| NonZeroU32::new(n).expect("not zero");
        for (limit, shards, share) in [(1024, 8, 128), (10, 4, 3), (1, 64, 1)] {
            assert_eq!(per_shard(n(limit), n(shards)), n(share));
        }
    }
}
