//! The facts about a request for metrics and the access log.

use std::time::{Duration, Instant};

use admin_types::trace::Finished;

use crate::config::{Cluster, Endpoint, ListenerSettings, Rule};
use crate::failure::Failure;
use crate::names::Interned;
use crate::observe::counters::GaugeGuard;
use crate::policy::request_id::RequestId;
use crate::trace::Tracer;

use super::scratch::Received;

/// The facts about a request.
pub(crate) struct RequestRecord<'a> {
    /// When its head was complete.
    pub(crate) started: Instant,
    /// Its id, if one was needed.
    pub(crate) id: Option<RequestId>,
    pub(crate) listener: Option<&'a ListenerSettings>,
    pub(crate) rule: Option<&'a Rule>,
    /// The rule's id in the counters.
    pub(crate) rule_id: Option<Interned>,
    pub(crate) cluster: Option<&'a Cluster>,
    /// The endpoint of the response or of the last attempt.
    pub(crate) endpoint: Option<&'a Endpoint>,
    /// Status sent to the client; 0 if none.
    pub(crate) status: u16,
    /// Payload bytes from the client.
    pub(crate) bytes_in: u64,
    /// Payload bytes to the client.
    pub(crate) bytes_out: u64,
    /// Time from the start of the last attempt to the response head.
    pub(crate) upstream_time: Option<Duration>,
    pub(crate) retries: u32,
    /// Reports to active traces that match the request.
    pub(crate) trace: Option<Box<Tracer>>,
    /// Counts the request as in flight at its listener and rule.
    pub(crate) active: [Option<GaugeGuard<'a>>; 2],
    /// Whether it is a gRPC call.
    pub(crate) is_grpc: bool,
    /// gRPC status sent to the client.
    pub(crate) grpc_status: Option<u32>,
    /// Whether the response head was sent, so that no other response is possible.
    pub(crate) answered: bool,
}

impl RequestRecord<'_> {
    /// The record of a request that begins now.
    pub(crate) fn begin(received: &Received) -> Self {
        Self {
            is_grpc: received.is_grpc(),
            grpc_status: None,
            started: Instant::now(),
            id: None,
            listener: None,
            rule: None,
            rule_id: None,
            cluster: None,
            endpoint: None,
            status: 0,
            bytes_in: 0,
            bytes_out: 0,
            upstream_time: None,
            retries: 0,
            trace: None,
            active: [None, None],
            answered: false,
        }
    }

    /// The summary for traces.
    #[cold]
    pub(crate) fn finished(&self, failure: Option<Failure>) -> Finished {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        Finished {
            status: self.status,
            reason: failure.map(|failure| failure.to_string()),
            route: self.rule.map(|rule| rule.name.to_string()),
            backend: self.cluster.map(|cluster| cluster.name.to_string()),
            endpoint: self.endpoint.map(|endpoint| endpoint.name.to_string()),
            bytes_in: self.bytes_in,
            bytes_out: self.bytes_out,
            retries: self.retries,
            upstream_micros: self.upstream_time.map(micros),
            duration_micros: micros(self.started.elapsed()),
        }
    }
}
