//! The limits that a policy can change, resolved for one route or listener.

use std::num::NonZeroU32;
use std::time::Duration;

use xds::limits_table;
use xds::model;
use xds::model::limits::{self as kinds, LimitKind};

use super::MAX_H2_WINDOW_BYTES;

macro_rules! effective {
    ($($(#[$doc:meta])* $field:ident $name:literal:
        $kind:ident, $scope:ident, $default:literal, $least:literal..=$most:literal;)*) => {
        /// The limits that a policy can change, as they are in effect. A timeout of `None` never fires.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct Limits {
            $($(#[$doc])* pub $field: <kinds::$kind as LimitKind>::Effective,)*
        }

        impl Default for Limits {
            fn default() -> Self {
                Self {
                    $($field: <kinds::$kind as LimitKind>::default($default),)*
                }
            }
        }

        impl Limits {
            /// These limits, overridden by those of a nearer target. Apply Gateway, listener, route and
            /// rule in this order: the nearest that sets a field wins.
            #[must_use]
            pub fn with(self, nearer: &model::Limits) -> Self {
                Self {
                    $($field: {
                        let nearest = <kinds::$kind as LimitKind>::nearest;
                        nearest(nearer.$field, self.$field, $most)
                    },)*
                }
            }
        }
    };
}

limits_table!(effective);

macro_rules! bounded {
    ($($(#[$doc:meta])* $field:ident $name:literal:
        $kind:ident, $scope:ident, $default:literal, $least:literal..=$most:literal;)*) => {
        impl Limits {
            /// These limits, of which none is wider than those of an overriding policy.
            #[must_use]
            pub fn bounded_by(self, bounds: &model::Limits) -> Self {
                let all = self.with(bounds);
                Self {
                    $($field: match bounds.$field {
                        Some(_) => <kinds::$kind as LimitKind>::tighter(self.$field, all.$field),
                        None => self.$field,
                    },)*
                }
            }
        }
    };
}

limits_table!(bounded);

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

    use super::{Limits, per_shard};
    use crate::limits::{
        H2_STREAM_WINDOW_BYTES, H2_UPSTREAM_CONNECTION_WINDOW_BYTES, H2_UPSTREAM_STREAMS,
        H2_WATCHED_STREAMS, MAX_HEAD_BYTES, MAX_HEADER_FIELDS,
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
            header_fields: u32s(u32::MAX),
            response_header_fields: u32s(u32::MAX),
            ..model::Limits::default()
        };
        let limits = Limits::default().with(&huge);
        assert_eq!(limits.head_bytes, MAX_HEAD_BYTES);
        assert_eq!(limits.request_line_bytes, 61_440);
        assert_eq!(limits.response_head_bytes, MAX_HEAD_BYTES);
        assert_eq!(limits.header_fields, MAX_HEADER_FIELDS);
        assert_eq!(limits.response_header_fields, MAX_HEADER_FIELDS);
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
        assert_eq!(limits.http2_stream_window_bytes, H2_STREAM_WINDOW_BYTES);
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
