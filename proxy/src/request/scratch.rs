//! Working memory of one request, kept from request to request so that none of them allocates.

use std::time::Duration;

use crate::config::Bind;
use crate::failure::Failure;
use crate::http::authority::MAX_HOST_BYTES;
use crate::http::grpc;
use crate::http::h1::Asked;
use crate::http::h1::body::BodyDecoder;
use crate::http::head::{Outline, RequestHead, ResponseHead, Span};
use crate::http::known::Known;
use crate::policy::normalise::{HostBuffer, Target, normalise_host, normalise_target};
use crate::shard::interned::Interned;
use crate::shelf::Shelf;

/// Working memory of one request.
#[derive(Default)]
pub(crate) struct Scratch {
    /// The request as it came.
    pub(crate) received: Received,
    /// Host and target in their normal form, where they came in another.
    pub(crate) normal: Normal,
    /// What is made of it.
    pub(crate) work: Work,
}

/// A request's head; it does not change while the request is served.
#[derive(Default)]
pub(crate) struct Received {
    /// Its bytes, which `head` points into.
    pub(crate) bytes: Vec<u8>,
    /// What they say.
    pub(crate) head: RequestHead,
}

impl Received {
    /// Keeps the bytes of the head just parsed: the room that they took is written over.
    pub(crate) fn keep(&mut self, bytes: &[u8]) {
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
    }

    /// Keeps what can be told of a head that is refused.
    pub(crate) fn keep_outline(&mut self, outline: &Outline<'_>) {
        self.bytes.clear();
        let mut fields = std::mem::take(&mut self.head.fields);
        fields.clear();
        self.head = RequestHead {
            method: self.write(outline.method),
            target: self.write(outline.target),
            authority: self.write(outline.host),
            version: outline.version,
            fields,
            ..RequestHead::default()
        };
    }

    /// Writes some text down; none where it lies beyond what a span can say.
    fn write(&mut self, text: &[u8]) -> Span {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(text);
        Span::new(start, self.bytes.len()).unwrap_or_default()
    }

    /// The method.
    pub(crate) fn method(&self) -> &[u8] {
        self.head.method.of(&self.bytes)
    }

    /// Host and port as they came.
    pub(crate) fn authority(&self) -> &[u8] {
        self.head.authority.of(&self.bytes)
    }

    /// What a response's meaning depends on.
    pub(crate) fn asked(&self) -> Asked {
        match (self.method(), self.head.upgrade) {
            (b"HEAD", _) => Asked::Head,
            (_, Some(_)) => Asked::Upgrade,
            _ => Asked::Other,
        }
    }

    /// Whether it is a call of gRPC.
    pub(crate) fn is_grpc(&self) -> bool {
        let content_type = self.head.fields.value(Known::ContentType, &self.bytes);
        content_type.is_some_and(grpc::is_grpc)
    }

    /// For how long its caller waits, where it says so.
    pub(crate) fn grpc_timeout(&self) -> Option<Duration> {
        let timeout = self.head.fields.value(Known::GrpcTimeout, &self.bytes)?;
        grpc::parse_timeout(timeout)
    }

    /// The value of a field that the proxy has no name of its own for.
    pub(crate) fn value(&self, name: &[u8]) -> Option<&[u8]> {
        let mut fields = self.head.fields.iter();
        let found = fields.find(|field| field.name.of(&self.bytes).eq_ignore_ascii_case(name));
        found.map(|field| field.value.of(&self.bytes))
    }

    /// Whether carrying it out twice does what carrying it out once does (RFC 9110 section 9.2.2).
    pub(crate) fn is_idempotent(&self) -> bool {
        matches!(
            self.method(),
            b"GET" | b"HEAD" | b"OPTIONS" | b"PUT" | b"DELETE"
        )
    }
}

/// Host and target in their normal form, where they came in another.
pub(crate) struct Normal {
    target: Vec<u8>,
    host: HostBuffer,
}

impl Default for Normal {
    fn default() -> Self {
        Self {
            target: Vec::new(),
            host: [0; MAX_HOST_BYTES],
        }
    }
}

impl Normal {
    /// Brings host, path and query into the one form that is matched and sent on.
    pub(crate) fn take_in<'a>(
        &'a mut self,
        received: &'a Received,
        bind: &Bind,
    ) -> Result<(&'a str, Target<'a>), Failure> {
        let target = received.head.target.of(&received.bytes);
        let target = normalise_target(target, bind.path_options, &mut self.target)?;
        Ok((normalise_host(received.authority(), &mut self.host), target))
    }
}

/// What is made of a request.
#[derive(Default)]
pub(crate) struct Work {
    /// The request's body.
    pub(crate) request_body: BodyDecoder,
    /// Field lines added to the request.
    pub(crate) request_lines: Vec<u8>,
    /// The target as the backend gets it.
    pub(crate) target: Vec<u8>,
    /// Bytes on their way to the backend that stand in no buffer.
    pub(crate) to_upstream: Vec<u8>,
    /// The response's head.
    pub(crate) response: ResponseHead,
    /// Field lines added to the response.
    pub(crate) response_lines: Vec<u8>,
    /// The response's body.
    pub(crate) response_body: BodyDecoder,
    /// Bytes on their way to the client that stand in no buffer.
    pub(crate) to_client: Vec<u8>,
    /// Endpoints that were tried.
    pub(crate) tried: Vec<Interned>,
}

/// Working memory that no connection uses at the moment.
#[derive(Default)]
pub(crate) struct ScratchPool(Shelf<Box<Scratch>>);

impl ScratchPool {
    /// Some working memory; what is in it belongs to an earlier request.
    pub(crate) fn take(&self) -> Box<Scratch> {
        self.0.take().unwrap_or_default()
    }

    /// Gives it back.
    pub(crate) fn put(&self, scratch: Box<Scratch>) {
        self.0.put(scratch);
    }

    /// Frees what nobody has needed since the last time. How many there were.
    pub(crate) fn trim(&self) -> usize {
        self.0.trim(drop)
    }
}
