//! Endpoint pickers of inference pools: the endpoint picker protocol of the Gateway API Inference
//! Extension, over `ext_proc`.
//!
//! A picker is told of a request's head and, as it comes, of its body ([`crate::request`] does that).
//! It names the pods to try in their order, may change head and body, or answers itself (`verdict`,
//! pure). Only then the request is sent on, so its body is kept meanwhile, up to a limit. When a pod
//! has answered, the picker learns which one did, and may change the response's head (`response`).
//! All of that is one call ([`super::call`]) of this shard; what becomes of requests whose picker
//! fails, their pool says.

mod messages;
mod response;
mod telling;
mod verdict;

use std::rc::Rc;

use http::StatusCode;

use super::call::{Call, CallError, CallMessages};
use crate::config::{Cluster, Endpoint};
use crate::http::head::Framing;
use crate::memory::{Buffer, BufferPool};
use crate::policy::mutation::{self, Mutation};

use self::messages::ImmediateResponse;
pub(crate) use self::messages::{PROCESS, ProcessingRequest, ProcessingResponse};
pub(crate) use self::telling::{request_body, request_head};
pub(crate) use self::verdict::{TooLarge, Verdict};

/// What came of a question to a picker.
#[expect(
    clippy::large_enum_variant,
    reason = "one for each request, and at once taken apart: a box would cost an allocation"
)]
pub(crate) enum PickOutcome<'a> {
    /// The request goes on like this.
    Picked(Pick<'a>),
    /// The picker has answered it.
    Immediate(Immediate),
}

/// A picker's own answer to a request.
pub(crate) struct Immediate {
    pub(crate) status: StatusCode,
    /// Field lines, each ended by CRLF.
    pub(crate) lines: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

/// What was picked for a request.
pub(crate) struct Pick<'a> {
    /// The endpoints to try, in this order; none where load balancing chooses.
    endpoints: Vec<&'a Endpoint>,
    /// Which of them is next.
    next: usize,
    /// The request's body, until it is taken.
    body: Option<Buffer>,
    /// The framing of a body that came in the place of the client's.
    framing: Option<Framing>,
    /// What changes in the request's head.
    mutation: Mutation,
    /// The call, in which the picker is told of the response.
    call: Option<(Call<'a>, CallMessages)>,
}

/// Why nothing was picked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PickError {
    #[error(transparent)]
    Call(#[from] CallError),
    /// The picker has said less than all.
    #[error("it closed the stream before its response was complete")]
    Ended,
    /// It replaced the body by a larger one than is kept.
    #[error("its body is too large")]
    BodyTooLarge,
    /// It named no endpoint.
    #[error("it named no endpoint")]
    Nothing,
    /// It named none that the pool has.
    #[error("it named endpoints that the pool does not have")]
    Unknown,
}

impl PickError {
    /// A word for counters and logs.
    pub(crate) fn detail(self) -> &'static str {
        match self {
            Self::Call(CallError::Unreached(_)) => "picker unreachable",
            Self::Call(CallError::Status(_)) => "picker failed",
            Self::Call(CallError::TooLate) => "picker timed out",
            Self::Call(CallError::Broken) | Self::Ended => "picker disconnected",
            Self::Call(CallError::NoGrpc(_) | CallError::Message(_)) => {
                "picker's response malformed"
            }
            Self::BodyTooLarge => "picker's body too large",
            Self::Nothing => "picker named no endpoint",
            Self::Unknown => "picker named unknown endpoints",
        }
    }
}

impl<'a> Pick<'a> {
    /// Any endpoint, since the picker failed.
    pub(crate) fn any(body: Option<Buffer>) -> Self {
        Self {
            endpoints: Vec::new(),
            next: 0,
            body,
            framing: None,
            mutation: Mutation::default(),
            call: None,
        }
    }

    /// The endpoint of the next try; `None` where load balancing chooses.
    pub(crate) fn next_endpoint(&mut self) -> Option<&'a Endpoint> {
        let endpoint = self.endpoints.get(self.next).copied()?;
        self.next += 1;
        Some(endpoint)
    }

    /// How many tries there are at most; `None` where load balancing chooses.
    pub(crate) fn tries(&self) -> Option<usize> {
        Some(self.endpoints.len()).filter(|count| *count > 0)
    }

    /// Takes the request's body, if it has one.
    pub(crate) fn take_body(&mut self) -> Option<Buffer> {
        self.body.take()
    }

    /// The framing of a body that came in the place of the client's.
    pub(crate) fn framing(&self) -> Option<Framing> {
        self.framing
    }

    /// The endpoints that were named, for who watches the request.
    pub(crate) fn endpoints(&self) -> &[&'a Endpoint] {
        &self.endpoints
    }

    /// Edits the lines that are added to the request.
    pub(crate) fn edit(&self, lines: &mut Vec<u8>) {
        self.mutation.edit(lines);
    }

    /// Whether a field that the client sent is left out.
    pub(crate) fn drops(&self, name: &[u8]) -> bool {
        self.mutation.drops(name)
    }
}

/// The endpoint of this address.
fn find<'a>(cluster: &'a Cluster, address: &str) -> Option<&'a Endpoint> {
    let mut endpoints = cluster.endpoints.iter();
    endpoints.find(|endpoint| &*endpoint.name == address)
}

/// What a verdict comes to for a request to this pool.
pub(crate) fn conclude<'a>(
    pool: &'a Cluster,
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
        verdict::Body::Unsaid | verdict::Body::Kept => (body, None),
    };
    Ok(PickOutcome::Picked(Pick {
        endpoints,
        next: 0,
        body: bytes.map(|bytes| buffers.holding(bytes)),
        framing,
        mutation: verdict.mutation,
        call: Some(call),
    }))
}

fn immediate(response: &ImmediateResponse) -> Immediate {
    let mut mutation = Mutation::default();
    if let Some(headers) = &response.headers {
        mutation.take(headers, |_| false);
    }
    let code = response
        .status
        .and_then(|status| u16::try_from(status.code).ok());
    let status = code.filter(|code| (200..600).contains(code));
    let status = status.and_then(|code| StatusCode::from_u16(code).ok());
    Immediate {
        status: status.unwrap_or(StatusCode::SERVICE_UNAVAILABLE),
        lines: mutation.lines().to_vec(),
        body: response.body.clone(),
    }
}
