//! What a policy may set is in effect: the maximum of each limit in the resource definition is also
//! the largest value that the proxy uses. That sizes and counts are reached is in
//! `wire/largest_limits.rs`.

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use proxy::limits::Limits;
use xds::model::{self, Timeout};

const DEFINITION: &str = include_str!("../../k8s/crds/gateway-system.io_trafficpolicies.yaml");

/// The largest duration that Gateway API's format can express.
const LONGEST: Duration = Duration::from_hours(4 * 99_999);

/// A limit in the resource definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    /// A number up to this one.
    Number(u64),
    Duration,
}

/// The limits of the resource definition, by name.
fn fields() -> BTreeMap<&'static str, Field> {
    let lines = DEFINITION
        .lines()
        .skip_while(|line| *line != "                limits:")
        .skip(1)
        .take_while(|line| line.starts_with("                  "));
    let (mut fields, mut name) = (BTreeMap::new(), "");
    for line in lines {
        let text = line.trim_start();
        match (line.len() - text.len(), text.split_once(':')) {
            (20, Some((key, ""))) => name = key,
            (22, Some(("maximum", most))) => {
                let most = most.trim().parse().expect("a number");
                fields.insert(name, Field::Number(most));
            }
            (22, Some(("pattern", _))) => {
                fields.insert(name, Field::Duration);
            }
            _ => {}
        }
    }
    fields
}

/// How to set a number in the model, and what the proxy makes of it.
type Number = (
    &'static str,
    fn(&mut model::Limits, u64),
    fn(&Limits) -> u64,
);

/// The same for a timeout.
type Time = (
    &'static str,
    fn(&mut model::Limits, Timeout),
    fn(&Limits) -> Option<Duration>,
);

fn small(value: u64) -> Option<NonZeroU32> {
    NonZeroU32::new(value.try_into().expect("32 bits"))
}

macro_rules! small_numbers {
    ($($name:literal $field:ident),*) => {
        [$((
            $name,
            |limits, value| limits.$field = small(value),
            |limits| limits.$field.into(),
        )),*]
    };
}

const SMALL: [Number; 7] = small_numbers!(
    "requestLineBytes" request_line_bytes, "headBytes" head_bytes, "headerFields" header_fields,
    "responseHeadBytes" response_head_bytes, "responseHeaderFields" response_header_fields,
    "http2Streams" http2_streams, "http2StreamWindowBytes" http2_stream_window_bytes
);

const OTHERS: [Number; 9] = [
    (
        "requestBodyBytes",
        |limits, value| limits.request_body_bytes = NonZeroU64::new(value),
        |limits| limits.request_body_bytes.map_or(0, NonZeroU64::get),
    ),
    (
        "bodyMinRate",
        |limits, value| limits.body_min_rate = Some(value.try_into().expect("32 bits")),
        |limits| limits.body_min_rate.into(),
    ),
    (
        "requestsPerConnection",
        |limits, value| limits.requests_per_connection = Some(value),
        |limits| limits.requests_per_connection.map_or(0, NonZeroU64::get),
    ),
    (
        "http2ConnectionWindowBytes",
        |limits, value| limits.http2_connection_window_bytes = small(value),
        |limits| limits.http2_connection_window().into(),
    ),
    (
        "upstreamConnections",
        |limits, value| limits.upstream_connections = small(value),
        |limits| limits.upstream_connections.get().into(),
    ),
    (
        "upstreamPending",
        |limits, value| limits.upstream_pending = small(value),
        |limits| limits.upstream_pending.get().into(),
    ),
    (
        "clientConnections",
        |limits, value| limits.client_connections = small(value),
        |limits| limits.client_connections.unwrap_or(0).into(),
    ),
    (
        "endpointConnections",
        |limits, value| limits.endpoint_connections = small(value),
        |limits| limits.endpoint_connections.unwrap_or(0).into(),
    ),
    (
        "endpointPending",
        |limits, value| limits.endpoint_pending = small(value),
        |limits| limits.endpoint_pending.get().into(),
    ),
];

macro_rules! timeouts {
    ($($name:literal $field:ident),*) => {
        [$((
            $name,
            |limits, time| limits.$field = Some(time),
            |limits| limits.$field,
        )),*]
    };
}

const TIMES: [Time; 11] = timeouts!(
    "headTimeout" head_timeout, "bodyIdleTimeout" body_idle_timeout,
    "streamIdleTimeout" stream_idle_timeout, "writeIdleTimeout" write_idle_timeout,
    "keepAliveTimeout" keep_alive_timeout, "halfCloseTimeout" half_close_timeout,
    "connectionAge" connection_age, "connectTimeout" connect_timeout,
    "responseHeadTimeout" response_head_timeout, "handshakeTimeout" handshake_timeout,
    "datagramIdleTimeout" datagram_idle_timeout
);

#[test]
fn every_limit_of_the_definition_is_in_effect_up_to_its_maximum() {
    let mut fields = fields();
    for (name, set, effective) in SMALL.into_iter().chain(OTHERS) {
        let Some(Field::Number(most)) = fields.remove(name) else {
            panic!("{name} is no number of the definition");
        };
        let mut policy = model::Limits::default();
        set(&mut policy, most);
        assert_eq!(effective(&Limits::default().with(&policy)), most, "{name}");
    }
    for (name, set, effective) in TIMES {
        assert_eq!(fields.remove(name), Some(Field::Duration), "{name}");
        let mut policy = model::Limits::default();
        set(&mut policy, Timeout::After(LONGEST));
        let limits = Limits::default().with(&policy);
        assert_eq!(effective(&limits), Some(LONGEST), "{name}");
    }
    assert_eq!(fields, BTreeMap::new(), "limits without a check");
}
