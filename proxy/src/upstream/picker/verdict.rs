//! The state of a picker's response to a request: pure, without I/O.

use std::rc::Rc;

use super::messages::{
    CommonResponse, ImmediateResponse, MutatedBody, ProcessingResponse, ResponseMessage, Struct,
    ValueKind,
};
use super::passage::Interest;
use crate::limits::PICKER_BODY_BYTES;
use crate::memory::{BufferPool, Kept};
use crate::policy::mutation::{Mutation, TooManyEdits};

/// The decision of a picker about a request, as far as it has been received.
pub(crate) struct Verdict {
    /// Counts a body that replaces the request's.
    pool: Rc<BufferPool>,
    pub(super) mutation: Mutation,
    pub(super) body: Body,
    pub(crate) immediate: Option<ImmediateResponse>,
    /// Endpoints named in the metadata.
    named: Option<String>,
    has_headers: bool,
    /// The parts of the response that the picker wants.
    pub(super) interest: Interest,
}

/// The decision of a picker about a request's body.
#[derive(Debug, Default)]
pub(super) enum Body {
    #[default]
    Undecided,
    /// The request's own body is forwarded.
    Unchanged,
    /// It is replaced by these bytes.
    Replaced { bytes: Kept, ended: bool },
}

/// The changes that a picker makes to a request are too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TooLarge {
    /// The body that replaces the request's.
    Body,
    /// The edits of the head.
    Head(TooManyEdits),
}

impl From<TooManyEdits> for TooLarge {
    fn from(error: TooManyEdits) -> Self {
        Self::Head(error)
    }
}

impl Verdict {
    /// None yet. A body in it counts with the buffers of this pool.
    pub(crate) fn new(pool: &Rc<BufferPool>) -> Self {
        Self {
            pool: Rc::clone(pool),
            mutation: Mutation::default(),
            body: Body::default(),
            immediate: None,
            named: None,
            has_headers: false,
            interest: Interest::default(),
        }
    }

    /// Processes a message; `has` tells whether the request has a field. Messages about the
    /// response are ignored.
    pub(crate) fn take(
        &mut self,
        message: ProcessingResponse,
        has: impl Fn(&[u8]) -> bool,
    ) -> Result<(), TooLarge> {
        if let Some(metadata) = &message.dynamic_metadata {
            self.named = destination(metadata).or(self.named.take());
        }
        match message.response {
            Some(ResponseMessage::RequestHeaders(phase)) => {
                self.has_headers = true;
                self.interest = self.interest.narrowed(message.mode_override);
                let common = phase.response.unwrap_or_default();
                let is_mutated = common.body_mutation.is_some();
                self.take_common(common, has)?;
                if !is_mutated && matches!(self.body, Body::Unchanged) {
                    // For earlier parts of the body: the verdict on the last part is still to come.
                    self.body = Body::Undecided;
                }
                Ok(())
            }
            Some(ResponseMessage::RequestBody(phase)) => {
                self.take_common(phase.response.unwrap_or_default(), has)?;
                if matches!(self.body, Body::Undecided) {
                    self.body = Body::Unchanged;
                }
                Ok(())
            }
            Some(ResponseMessage::ImmediateResponse(response)) => {
                self.immediate = Some(response);
                Ok(())
            }
            Some(
                ResponseMessage::ResponseHeaders(_)
                | ResponseMessage::ResponseBody(_)
                | ResponseMessage::ResponseTrailers(_),
            )
            | None => Ok(()),
        }
    }

    fn take_common(
        &mut self,
        common: CommonResponse,
        has: impl Fn(&[u8]) -> bool,
    ) -> Result<(), TooLarge> {
        if let Some(mutation) = &common.header_mutation {
            self.mutation.take(mutation, has)?;
        }
        let mutated = common.body_mutation.and_then(|it| it.mutation);
        let (piece, ended) = match mutated {
            Some(MutatedBody::Whole(bytes)) => (bytes, true),
            Some(MutatedBody::Clear(true)) => (Vec::new(), true),
            Some(MutatedBody::Streamed(piece)) => (piece.body, piece.end_of_stream),
            Some(MutatedBody::Clear(false)) | None => return Ok(()),
        };
        let mut all = match std::mem::take(&mut self.body) {
            Body::Replaced { bytes, .. } => bytes,
            Body::Undecided | Body::Unchanged => Kept::new(&self.pool),
        };
        if all.len() + piece.len() > PICKER_BODY_BYTES {
            return Err(TooLarge::Body);
        }
        all.append(&piece);
        self.body = Body::Replaced { bytes: all, ended };
        Ok(())
    }

    /// Whether the response is complete; `has_body` tells whether the request has a body.
    pub(crate) fn is_complete(&self, has_body: bool) -> bool {
        let body = match &self.body {
            Body::Undecided => !has_body,
            Body::Unchanged => true,
            Body::Replaced { ended, .. } => *ended,
        };
        self.immediate.is_some() || (self.has_headers && body)
    }

    /// The named endpoints, in order of preference.
    pub(super) fn endpoints(&self) -> Vec<&str> {
        let header = self.mutation.value(DESTINATION.as_bytes());
        let header = header.and_then(|value| std::str::from_utf8(value).ok());
        let named = self.named.as_deref().or(header).unwrap_or_default();
        let named = named.split(',').map(str::trim);
        named.filter(|it| !it.is_empty()).collect()
    }
}

fn destination(metadata: &Struct) -> Option<String> {
    let Some(ValueKind::Struct(inner)) = &metadata.fields.get(NAMESPACE)?.kind else {
        return None;
    };
    match &inner.fields.get(DESTINATION)?.kind {
        Some(ValueKind::String(text)) => Some(text.clone()),
        _ => None,
    }
}

/// Namespace of the endpoint picker protocol's metadata.
pub(super) const NAMESPACE: &str = "envoy.lb";
/// The header and the metadata field that name the endpoints.
pub(crate) const DESTINATION: &str = "x-gateway-destination-endpoint";

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::rc::Rc;

    use super::super::messages::{
        BodyMutation, CommonResponse, HttpBody, MutatedBody, PhaseResponse, ProcessingResponse,
        ResponseMessage, Struct, Value, ValueKind,
    };
    use super::{Body, Verdict};
    use crate::policy::mutation::{HeaderMutation, HeaderValue, HeaderValueOption};

    fn phase(response: CommonResponse) -> PhaseResponse {
        PhaseResponse {
            response: Some(response),
        }
    }

    fn headers(destination: &str) -> ProcessingResponse {
        let header = HeaderValue {
            key: "x-gateway-destination-endpoint".to_owned(),
            value: destination.to_owned(),
            raw_value: Vec::new(),
        };
        let option = HeaderValueOption {
            header: Some(header),
            append: None,
            append_action: 0,
        };
        let mutation = HeaderMutation {
            set_headers: vec![option],
            remove_headers: Vec::new(),
        };
        let common = CommonResponse {
            header_mutation: Some(mutation),
            ..CommonResponse::default()
        };
        ProcessingResponse {
            response: Some(ResponseMessage::RequestHeaders(phase(common))),
            ..ProcessingResponse::default()
        }
    }

    fn body(mutation: Option<MutatedBody>) -> ProcessingResponse {
        let common = CommonResponse {
            body_mutation: mutation.map(|it| BodyMutation { mutation: Some(it) }),
            ..CommonResponse::default()
        };
        ProcessingResponse {
            response: Some(ResponseMessage::RequestBody(phase(common))),
            ..ProcessingResponse::default()
        }
    }

    fn verdict(messages: Vec<ProcessingResponse>) -> Verdict {
        let mut verdict = Verdict::new(&Rc::default());
        for message in messages {
            verdict.take(message, |_| false).expect("small");
        }
        verdict
    }

    #[test]
    fn endpoints_are_read_from_headers_or_metadata() {
        let by_header = verdict(vec![headers("10.0.0.1:80, 10.0.0.2:80,")]);
        assert_eq!(by_header.endpoints(), ["10.0.0.1:80", "10.0.0.2:80"]);
        let value = |kind| Value { kind: Some(kind) };
        let text = value(ValueKind::String("10.0.0.3:80".to_owned()));
        let inner = HashMap::from([("x-gateway-destination-endpoint".to_owned(), text)]);
        let inner = value(ValueKind::Struct(Struct { fields: inner }));
        let metadata = Struct {
            fields: HashMap::from([("envoy.lb".to_owned(), inner)]),
        };
        let by_metadata = verdict(vec![ProcessingResponse {
            response: Some(ResponseMessage::RequestHeaders(phase(
                CommonResponse::default(),
            ))),
            dynamic_metadata: Some(metadata),
            ..ProcessingResponse::default()
        }]);
        assert_eq!(by_metadata.endpoints(), ["10.0.0.3:80"]);
        assert!(verdict(Vec::new()).endpoints().is_empty());
    }

    #[test]
    fn a_request_without_a_body_needs_only_the_response_to_its_head() {
        assert!(!verdict(Vec::new()).is_complete(false));
        assert!(verdict(vec![headers("a:1")]).is_complete(false));
    }

    #[test]
    fn an_unchanged_body_needs_a_response_to_its_head_and_last_piece() {
        let early = verdict(vec![body(None)]);
        assert!(!early.is_complete(true), "no response to the head yet");
        let deferred = verdict(vec![body(None), headers("a:1")]);
        assert!(!deferred.is_complete(true), "the last piece is missing");
        let complete = verdict(vec![body(None), headers("a:1"), body(None)]);
        assert!(complete.is_complete(true));
        assert!(matches!(complete.body, Body::Unchanged));
    }

    #[test]
    fn a_replaced_body_ends_with_the_pickers_end_of_stream() {
        let piece = |text: &str, end_of_stream| {
            Some(MutatedBody::Streamed(HttpBody {
                body: text.as_bytes().to_vec(),
                end_of_stream,
            }))
        };
        let mut verdict = verdict(vec![headers("a:1"), body(piece("one ", false))]);
        assert!(!verdict.is_complete(true));
        verdict
            .take(body(piece("two", true)), |_| false)
            .expect("small");
        assert!(verdict.is_complete(true));
        let Body::Replaced { bytes, .. } = &verdict.body else {
            panic!("it is replaced");
        };
        assert_eq!(&**bytes, b"one two");
        assert!(verdict.pool.lent() >= bytes.len(), "it counts as a buffer");
    }
}
