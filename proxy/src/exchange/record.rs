//! What is known of a request at its end, for counters and the access log.

use std::time::{Duration, Instant};

use admin_types::trace::Finished;

use crate::config::{Cluster, Endpoint, Listener, Rule};
use crate::failure::Failure;
use crate::observe::counters::GaugeGuard;
use crate::policy::request_id::RequestId;
use crate::trace::Tracer;

use super::scratch::Received;

/// What is known of a request.
pub(crate) struct Record<'a> {
    /// When its head was complete.
    pub(crate) started: Instant,
    /// Its id, where it was needed.
    pub(crate) id: Option<RequestId>,
    pub(crate) listener: Option<&'a Listener>,
    pub(crate) rule: Option<&'a Rule>,
    pub(crate) cluster: Option<&'a Cluster>,
    /// The endpoint that answered, or was tried last.
    pub(crate) endpoint: Option<&'a Endpoint>,
    /// Status that the client got; 0 where it got none.
    pub(crate) status: u16,
    /// Payload bytes from the client.
    pub(crate) bytes_in: u64,
    /// Payload bytes to the client.
    pub(crate) bytes_out: u64,
    /// From the last try's beginning to the response's head.
    pub(crate) upstream_time: Option<Duration>,
    /// Tries after the first.
    pub(crate) retries: u32,
    /// Tells those who watch the request.
    pub(crate) trace: Option<Box<Tracer>>,
    /// Counts it with its listener and its rule.
    pub(crate) active: [Option<GaugeGuard<'a>>; 2],
    /// Whether it is a call of gRPC.
    pub(crate) is_grpc: bool,
    /// Status of gRPC that the client got.
    pub(crate) grpc_status: Option<u32>,
    /// Whether the client has the response's head, so that no other answer can be given.
    pub(crate) answered: bool,
}

impl Record<'_> {
    /// A request that begins now.
    pub(crate) fn begin(received: &Received) -> Self {
        Self {
            is_grpc: received.is_grpc(),
            grpc_status: None,
            started: Instant::now(),
            id: None,
            listener: None,
            rule: None,
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

    /// What watchers of the request are told at its end.
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
