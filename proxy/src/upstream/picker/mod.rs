//! Endpoint pickers of inference pools: the endpoint picker protocol of the Gateway API Inference
//! Extension, over `ext_proc`.
//!
//! [`crate::request`] sends a picker the request's head and, as it arrives, its body. The picker
//! names the pods to try in order, may change head and body, or responds itself (`verdict`, pure).
//! The request is forwarded only after that, so its body is buffered, up to a limit. When a pod has
//! responded, the picker learns which one, and may change the response: its head, its body as it
//! arrives, and its trailers (`passage`, pure, and `response`). All this is one call
//! ([`super::call`]) of this shard. The pool's failure mode decides on requests and responses whose
//! picker fails.

mod messages;
mod passage;
mod response;
mod response_message;
mod verdict;

use std::rc::Rc;

use http::StatusCode;
use xds::model::PickerFailureMode;

use super::call::{Call, CallError, CallMessages};
use crate::config::{Cluster, Endpoint};
use crate::http::head::Framing;
use crate::memory::{Buffer, BufferPool};
use crate::policy::mutation::{self, Mutation, TooManyEdits};

use self::messages::ImmediateResponse;
pub(crate) use self::messages::{PROCESS, ProcessingRequest, ProcessingResponse};
use self::passage::Interest;
pub(crate) use self::passage::{BodySource, Step};
pub(crate) use self::response::Review;
pub(crate) use self::response_message::{PickerHead, request_body, request_head};
pub(crate) use self::verdict::{DESTINATION, TooLarge, Verdict};

/// The result of a picker call.
#[expect(
    clippy::large_enum_variant,
    reason = "one for each request, and at once taken apart: a box would cost an allocation"
)]
pub(crate) enum PickOutcome<'a> {
    /// The request continues to one of these endpoints.
    Picked(Pick<'a>),
    /// The picker responds to the client itself.
    Immediate(Immediate),
}

/// A response from the picker to the client.
pub(crate) struct Immediate {
    pub(crate) status: StatusCode,
    /// Its header fields.
    pub(crate) mutation: Mutation,
    pub(crate) body: Vec<u8>,
}

/// The endpoints and changes that a picker chose for a request.
pub(crate) struct Pick<'a> {
    /// Endpoints to try, in order; empty if load balancing chooses.
    endpoints: Vec<&'a Endpoint>,
    /// Index of the next endpoint to try.
    next: usize,
    /// The buffered request body, until it is taken.
    body: Option<Buffer>,
    /// Framing of a body that replaces the client's.
    framing: Option<Framing>,
    /// Changes to the request's head.
    mutation: Mutation,
    /// The call, which stays open for the response.
    call: Option<(Call<'a>, CallMessages)>,
    /// The parts of the response that the picker wants.
    interest: Interest,
    failure_mode: PickerFailureMode,
    /// What the picker responds instead of the endpoint.
    immediate_response: Option<Immediate>,
}

/// Why a picker's response cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PickError {
    #[error(transparent)]
    Call(#[from] CallError),
    /// The picker closed the stream before its response was complete.
    #[error("it closed the stream before its response was complete")]
    Ended,
    /// The picker replaced the body by one that exceeds the limit.
    #[error("its body is too large")]
    BodyTooLarge,
    /// The picker edited too much of the head.
    #[error(transparent)]
    Edits(#[from] TooManyEdits),
    /// The picker named no endpoint.
    #[error("it named no endpoint")]
    Nothing,
    /// None of the named endpoints is in the pool.
    #[error("it named endpoints that the pool does not have")]
    Unknown,
    /// The picker's message does not fit what it was sent.
    #[error("its message does not fit what it was sent")]
    Unordered,
}

impl PickError {
    /// A short text for counters and logs.
    pub(crate) fn detail(self) -> &'static str {
        match self {
            Self::Call(CallError::Unreached(_)) => "picker unreachable",
            Self::Call(CallError::Status(_)) => "picker failed",
            Self::Call(CallError::TooLate) => "picker timed out",
            Self::Call(CallError::Unprocessed | CallError::Broken) | Self::Ended => {
                "picker disconnected"
            }
            Self::Call(CallError::NoGrpc(_) | CallError::Message(_)) | Self::Unordered => {
                "picker's response malformed"
            }
            Self::BodyTooLarge => "picker's body too large",
            Self::Edits(TooManyEdits) => "picker edited too many header fields",
            Self::Nothing => "picker named no endpoint",
            Self::Unknown => "picker named unknown endpoints",
        }
    }
}

impl<'a> Pick<'a> {
    /// A pick of any endpoint, for a picker that failed.
    pub(crate) fn any(body: Option<Buffer>) -> Self {
        Self {
            endpoints: Vec::new(),
            next: 0,
            body,
            framing: None,
            mutation: Mutation::default(),
            call: None,
            interest: Interest::Nothing,
            failure_mode: PickerFailureMode::FailOpen,
            immediate_response: None,
        }
    }

    /// Keeps what the picker responds instead of the endpoint.
    pub(crate) fn set_immediate_response(&mut self, response: &ImmediateResponse) {
        self.immediate_response = Some(immediate(response));
    }

    /// What the picker responds instead of the endpoint.
    pub(crate) fn take_immediate_response(&mut self) -> Option<Immediate> {
        self.immediate_response.take()
    }

    /// The endpoint of the next attempt; `None` if load balancing chooses.
    pub(crate) fn next_endpoint(&mut self) -> Option<&'a Endpoint> {
        let endpoint = self.endpoints.get(self.next).copied()?;
        self.next += 1;
        Some(endpoint)
    }

    /// Maximum number of attempts; `None` if load balancing chooses.
    pub(crate) fn tries(&self) -> Option<usize> {
        Some(self.endpoints.len()).filter(|count| *count > 0)
    }

    pub(crate) fn take_body(&mut self) -> Option<Buffer> {
        self.body.take()
    }

    /// Framing of a body that replaces the client's.
    pub(crate) fn framing(&self) -> Option<Framing> {
        self.framing
    }

    /// The named endpoints, for traces.
    pub(crate) fn endpoints(&self) -> &[&'a Endpoint] {
        &self.endpoints
    }

    /// Takes back edits of the request's head, of fields whose name `is_revoked`.
    pub(crate) fn revoke(&mut self, is_revoked: impl Fn(&[u8]) -> bool) {
        self.mutation.revoke(is_revoked);
    }

    /// Edits the field lines that are added to the request.
    pub(crate) fn edit(&self, lines: &mut Vec<u8>) {
        self.mutation.edit(lines);
    }

    /// Whether a field of the client's request is removed.
    pub(crate) fn drops(&self, name: &[u8]) -> bool {
        self.mutation.drops(name)
    }
}

/// The endpoint with this address.
fn find<'a>(cluster: &'a Cluster, address: &str) -> Option<&'a Endpoint> {
    let mut endpoints = cluster.endpoints.iter();
    endpoints.find(|endpoint| &*endpoint.name == address)
}

/// Applies a picker's verdict to a request for this pool.
pub(crate) fn conclude<'a>(
    (pool, failure_mode): (&'a Cluster, PickerFailureMode),
    verdict: Verdict,
    call: (Call<'a>, CallMessages),
    (buffers, body): (&Rc<BufferPool>, Option<&[u8]>),
) -> Result<PickOutcome<'a>, PickError> {
    if let Some(response) = &verdict.immediate {
        return Ok(PickOutcome::Immediate(immediate(response)));
    }
    let named = verdict.endpoints();
    if named.is_empty() {
        return Err(PickError::Nothing);
    }
    let endpoints: Vec<_> = named.iter().filter_map(|name| find(pool, name)).collect();
    if endpoints.is_empty() {
        return Err(PickError::Unknown);
    }
    let (bytes, framing) = match &verdict.body {
        verdict::Body::Replaced { bytes, .. } => {
            (Some(&bytes[..]), Some(Framing::Length(bytes.len() as u64)))
        }
        verdict::Body::Undecided | verdict::Body::Unchanged => (body, None),
    };
    Ok(PickOutcome::Picked(Pick {
        endpoints,
        next: 0,
        body: bytes.map(|bytes| buffers.holding(bytes)),
        framing,
        interest: verdict.interest,
        mutation: verdict.mutation,
        call: Some(call),
        failure_mode,
        immediate_response: None,
    }))
}

fn immediate(response: &ImmediateResponse) -> Immediate {
    let mut mutation = Mutation::default();
    if let Some(headers) = &response.headers {
        // The edits up to the limit are enough for an error response.
        let _ = mutation.take(headers, |_| false);
    }
    // The gateway adds its own, of which there may be one (RFC 9110 section 6.6.1).
    mutation.forget(b"date");
    let code = response
        .status
        .and_then(|status| u16::try_from(status.code).ok());
    let status = code.filter(|code| (200..600).contains(code));
    let status = status.and_then(|code| StatusCode::from_u16(code).ok());
    Immediate {
        status: status.unwrap_or(StatusCode::SERVICE_UNAVAILABLE),
        mutation,
        body: response.body.clone(),
    }
}
