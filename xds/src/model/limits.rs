//! The limits that a policy can change: one table, from which the model, the wire form, the fields of a
//! `TrafficPolicy`, their targets, and the limits in effect in a proxy derive.
//!
//! Besides the table, a limit is in `proto/policy.proto`, which numbers its field on the wire, and in the
//! resource definition of `TrafficPolicy`, which describes it to users. Tests compare them.

use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use super::Timeout;

/// Passes the table of limits to the macro `$then`.
///
/// A row has the field's name in Rust and in JSON, its kind (`LimitKind`), the targets that
/// it applies to (`Socket`, `Request`, `Upstream` or `Any`), the default (0 means none), and the least and
/// the largest number that a policy may set. Timeouts are in seconds: their largest is the longest
/// duration in Gateway API's format, and 0 disables them.
#[macro_export]
macro_rules! limits_table {
    ($then:ident) => {
        $then! {
            /// Bytes of a request line, above which 414: 8 KiB, what browsers and caches stay below.
            /// At most 60 KiB, so that the rest of the head has 4 KiB at least.
            request_line_bytes "requestLineBytes": Size, Socket, 8_192, 128..=61_440;
            /// Bytes of a request's head, above which 431: 32 KiB, half a buffer, so that a head and the
            /// first body bytes always fit into one. At most 64 KiB less one: spans of a head have 16 bits.
            head_bytes "headBytes": Size, Socket, 32_768, 512..=65_535;
            /// Fields of a request's head, cookie crumbs counted one by one: 100, as Apache and Envoy.
            /// At most 1000, as nginx: they are parsed into an array on the stack.
            header_fields "headerFields": Size, Socket, 100, 8..=1_000;
            /// Bytes of a response's head, above which 502: 32 KiB, as of a request.
            response_head_bytes "responseHeadBytes": Size, Any, 32_768, 512..=65_535;
            /// Fields of a response's head, above which 502: 100, as of a request.
            response_header_fields "responseHeaderFields": Size, Any, 100, 8..=1_000;
            /// Bytes of a request's body, above which 413. By default any amount is streamed, since
            /// nothing of it is kept.
            request_body_bytes "requestBodyBytes": Amount, Request, 0, 1..=9_007_199_254_740_991;
            /// Timeout from the first byte of a head to its last: 10 s, then 408. Bytes that trickle in
            /// do not extend it.
            head_timeout "headTimeout": Time, Socket, 10, 0..=1_439_985_600;
            /// Between two reads of a request's body: 30 s, then 408.
            body_idle_timeout "bodyIdleTimeout": Time, Request, 30, 0..=1_439_985_600;
            /// Minimum average rate of a request's body in bytes per second: 256, below any modem and
            /// above any attack worth its sockets; slower ones get 408. Not for gRPC and upgraded
            /// connections. 0 disables it.
            body_min_rate "bodyMinRate": Rate, Request, 256, 0..=1_048_576;
            /// Between two bytes of a response, a gRPC stream or a tunnel: 1 h, so that server-sent
            /// events and watches live on.
            stream_idle_timeout "streamIdleTimeout": Time, Request, 3_600, 0..=1_439_985_600;
            /// For how long a client may take no byte of a response, or fewer than the least rate of
            /// receivers: 30 s.
            write_idle_timeout "writeIdleTimeout": Time, Request, 30, 0..=1_439_985_600;
            /// Between two requests of a client's connection: 60 s, as in browsers.
            keep_alive_timeout "keepAliveTimeout": Time, Socket, 60, 0..=1_439_985_600;
            /// For how long a client without TLS that has closed its sending side waits for a byte of
            /// its response: 60 s. It may still read, as after `shutdown(SHUT_WR)`, or be gone: both
            /// look the same until something is sent.
            half_close_timeout "halfCloseTimeout": Time, Socket, 60, 0..=1_439_985_600;
            /// Requests of one client connection: any number. A count sends busy clients away all the
            /// time, and idle ones never; `connection_age` spreads load.
            requests_per_connection "requestsPerConnection":
                Requests, Socket, 0, 0..=9_007_199_254_740_991;
            /// Age of a client's connection, with jitter: 1 h, so that load spreads again now and then.
            connection_age "connectionAge": Time, Socket, 3_600, 0..=1_439_985_600;
            /// Open connections of a client's address (IPv6: /64) at a port, over all shards; more are closed.
            /// Not limited by default: behind a network translator, thousands may share an address. Clients
            /// in the trusted sources are not limited.
            client_connections "clientConnections": OptionalSize, Socket, 0, 1..=1_000_000;
            /// To connect to an endpoint, TLS included: 2 s, one lost SYN and its repetition.
            connect_timeout "connectTimeout": Time, Any, 2, 0..=1_439_985_600;
            /// From the last request byte sent to the response's head: 15 s. Not for gRPC, which brings
            /// its own deadline, nor for upgrades.
            response_head_timeout "responseHeadTimeout": Time, Any, 15, 0..=1_439_985_600;
            /// For a client's TLS handshake, and for a PROXY protocol header before it: 5 s, several lost
            /// packets on the slowest of links.
            handshake_timeout "handshakeTimeout": Time, Socket, 5, 0..=1_439_985_600;
            /// Idle timeout of a UDP session: 60 s, or `stream_idle_timeout` if that is shorter; NATs
            /// forget as soon.
            datagram_idle_timeout "datagramIdleTimeout": Time, Request, 60, 0..=1_439_985_600;
            /// Streams that an HTTP/2 client may have open: 100, as HAProxy. At most 250, fewer than are
            /// tracked.
            http2_streams "http2Streams": Size, Socket, 100, 1..=250;
            /// Flow-control window of an HTTP/2 stream in bytes: it limits the throughput of an upload
            /// per round trip, and what is buffered of it. 64 KiB, a pooled buffer; at most 16 MiB,
            /// 1 Gbit/s at a round trip of 130 ms.
            http2_stream_window_bytes "http2StreamWindowBytes":
                Size, Socket, 65_536, 16_384..=16_777_216;
            /// Flow-control window of an HTTP/2 connection. By default it fits the windows of all its
            /// streams, so that uploads to stalled backends do not block others. A policy that lowers it
            /// limits the memory of one client, and accepts such blocking. At most 64 MiB, which one
            /// client can then make the proxy buffer.
            http2_connection_window_bytes "http2ConnectionWindowBytes":
                OptionalSize, Socket, 0, 65_536..=67_108_864;
            /// Connections to one service, over all shards: 1024, as Envoy.
            upstream_connections "upstreamConnections": Share, Upstream, 1_024, 1..=1_048_576;
            /// Requests that wait for a connection to one service, over all shards: 1024, as Envoy.
            upstream_pending "upstreamPending": Share, Upstream, 1_024, 1..=1_048_576;
            /// Connections to one endpoint of a service, over all shards: not limited by default, since
            /// `upstream_connections` bounds the sum. For endpoints that can serve only few at a time.
            endpoint_connections "endpointConnections": OptionalSize, Upstream, 0, 1..=1_000_000;
            /// Requests that wait for a connection to one endpoint while it has as many as it may have, over
            /// all shards: 1024, as of a service.
            endpoint_pending "endpointPending": Share, Upstream, 1_024, 1..=1_048_576;
        }
    };
}

/// A kind of limit: the types of its values.
pub trait LimitKind {
    /// The value in a policy object.
    type Written;
    /// The value in the model, if a policy sets it.
    type Given;
    /// The value that is in effect in a proxy.
    type Effective;

    /// The default of the table.
    fn default(number: u64) -> Self::Effective;

    /// Whether a value leaves the limit of the wider target in effect.
    #[must_use]
    fn is_inherited(_: &Self::Given) -> bool {
        false
    }

    /// The value in effect for a nearer target, which `given` overrides: never more than `most`, the
    /// largest number of the table, if the proxy could not work with more.
    fn nearest(given: Option<Self::Given>, wider: Self::Effective, most: u64) -> Self::Effective;

    /// The tighter one of two values in effect: the smaller number or shorter time, but the larger rate. No
    /// limit is the widest of all.
    fn tighter(one: Self::Effective, other: Self::Effective) -> Self::Effective;
}

/// A size or count, which the proxy has room for up to the largest number.
#[derive(Debug)]
pub enum Size {}

impl LimitKind for Size {
    type Written = NonZeroU32;
    type Given = NonZeroU32;
    type Effective = u32;

    fn default(number: u64) -> u32 {
        saturated(number)
    }

    fn nearest(given: Option<NonZeroU32>, wider: u32, most: u64) -> u32 {
        given.map_or(wider, NonZeroU32::get).min(saturated(most))
    }

    fn tighter(one: u32, other: u32) -> u32 {
        one.min(other)
    }
}

/// A [`Size`] that is not limited, or depends on other limits, by default.
#[derive(Debug)]
pub enum OptionalSize {}

impl LimitKind for OptionalSize {
    type Written = NonZeroU32;
    type Given = NonZeroU32;
    type Effective = Option<u32>;

    fn default(number: u64) -> Option<u32> {
        NonZeroU32::new(saturated(number)).map(NonZeroU32::get)
    }

    fn nearest(given: Option<NonZeroU32>, wider: Option<u32>, most: u64) -> Option<u32> {
        given
            .map(|given| given.get().min(saturated(most)))
            .or(wider)
    }

    fn tighter(one: Option<u32>, other: Option<u32>) -> Option<u32> {
        smaller(one, other)
    }
}

/// An amount that is not kept, so that there need not be a limit.
#[derive(Debug)]
pub enum Amount {}

impl LimitKind for Amount {
    type Written = NonZeroU64;
    type Given = NonZeroU64;
    type Effective = Option<NonZeroU64>;

    fn default(number: u64) -> Option<NonZeroU64> {
        NonZeroU64::new(number)
    }

    fn nearest(given: Option<NonZeroU64>, wider: Option<NonZeroU64>, _: u64) -> Option<NonZeroU64> {
        given.or(wider)
    }

    fn tighter(one: Option<NonZeroU64>, other: Option<NonZeroU64>) -> Option<NonZeroU64> {
        smaller(one, other)
    }
}

/// A least rate; 0 disables the check.
#[derive(Debug)]
pub enum Rate {}

impl LimitKind for Rate {
    type Written = u32;
    type Given = u32;
    type Effective = u32;

    fn default(number: u64) -> u32 {
        saturated(number)
    }

    fn nearest(given: Option<u32>, wider: u32, _: u64) -> u32 {
        given.unwrap_or(wider)
    }

    fn tighter(one: u32, other: u32) -> u32 {
        one.max(other)
    }
}

/// A number of requests; 0 means any.
#[derive(Debug)]
pub enum Requests {}

impl LimitKind for Requests {
    type Written = u64;
    type Given = u64;
    type Effective = Option<NonZeroU64>;

    fn default(number: u64) -> Option<NonZeroU64> {
        NonZeroU64::new(number)
    }

    fn nearest(given: Option<u64>, wider: Option<NonZeroU64>, _: u64) -> Option<NonZeroU64> {
        match given {
            Some(requests) => NonZeroU64::new(requests),
            None => wider,
        }
    }

    fn tighter(one: Option<NonZeroU64>, other: Option<NonZeroU64>) -> Option<NonZeroU64> {
        smaller(one, other)
    }
}

/// A number of which each shard gets its share.
#[derive(Debug)]
pub enum Share {}

impl LimitKind for Share {
    type Written = NonZeroU32;
    type Given = NonZeroU32;
    type Effective = NonZeroU32;

    fn default(number: u64) -> NonZeroU32 {
        NonZeroU32::new(saturated(number)).unwrap_or(NonZeroU32::MAX)
    }

    fn nearest(given: Option<NonZeroU32>, wider: NonZeroU32, _: u64) -> NonZeroU32 {
        given.unwrap_or(wider)
    }

    fn tighter(one: NonZeroU32, other: NonZeroU32) -> NonZeroU32 {
        one.min(other)
    }
}

/// A timeout; `0s` disables it.
#[derive(Debug)]
pub enum Time {}

impl LimitKind for Time {
    type Written = String;
    type Given = Timeout;
    type Effective = Option<Duration>;

    fn default(number: u64) -> Option<Duration> {
        Some(Duration::from_secs(number)).filter(|time| !time.is_zero())
    }

    fn nearest(given: Option<Timeout>, wider: Option<Duration>, _: u64) -> Option<Duration> {
        given.unwrap_or_default().or(wider)
    }

    fn tighter(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
        smaller(one, other)
    }

    fn is_inherited(given: &Timeout) -> bool {
        *given == Timeout::Default
    }
}

/// The smaller one of two limits, of which `None` is none.
fn smaller<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

fn saturated(number: u64) -> u32 {
    number.try_into().unwrap_or(u32::MAX)
}

/// A row of the table, for documents and tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitRow {
    /// The name in JSON.
    pub name: &'static str,
    /// Whether it is a timeout, whose numbers are seconds.
    pub is_timeout: bool,
    /// The default; 0 means none.
    pub default: u64,
    /// The least number that a policy may set.
    pub least: u64,
    /// The largest number that a policy may set.
    pub most: u64,
}

macro_rules! model {
    ($($(#[$doc:meta])* $field:ident $name:literal:
        $kind:ident, $scope:ident, $default:literal, $least:literal..=$most:literal;)*) => {
        /// Overrides of limits; `None` inherits the limit of the next wider target.
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        pub struct Limits {
            $($(#[$doc])* pub $field: Option<<$kind as LimitKind>::Given>,)*
        }

        impl Limits {
            /// The rows of the table.
            pub const TABLE: &[LimitRow] = &[$(LimitRow {
                name: $name,
                is_timeout: matches!(stringify!($kind).as_bytes(), b"Time"),
                default: $default,
                least: $least,
                most: $most,
            },)*];

            /// Whether all limits of the wider target stay in effect.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                true $(&& self.$field.as_ref().is_none_or($kind::is_inherited))*
            }

            /// The row of a limit, by its name in JSON.
            #[must_use]
            pub fn row(name: &str) -> Option<&'static LimitRow> {
                Self::TABLE.iter().find(|row| row.name == name)
            }
        }

        impl Serialize for Limits {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(None)?;
                $(if let Some(given) = &self.$field
                    && !$kind::is_inherited(given)
                {
                    map.serialize_entry($name, given)?;
                })*
                map.end()
            }
        }
    };
}

limits_table!(model);
