//! Working memory of one request, reused by later ones so that requests do not allocate.

use std::time::Duration;

use crate::config::BindSettings;
use crate::failure::Failure;
use crate::http::authority::MAX_HOST_BYTES;
use crate::http::grpc;
use crate::http::h1::RequestKind;
use crate::http::h1::body::BodyDecoder;
use crate::http::head::{Framing, Outline, RequestHead, ResponseHead, Span, Version};
use crate::http::known::KnownHeader;
use crate::limits::SPARE_BUFFERS;
use crate::memory::FreeList;
use crate::names::Interned;
use crate::policy::normalise::{HostBuffer, Target, normalise_host, normalise_target};

/// Working memory of one request.
#[derive(Default)]
pub(crate) struct Scratch {
    /// The request as received.
    pub(crate) received: Received,
    /// Host and target in normal form, if they differ.
    pub(crate) normal: NormalForm,
    /// Memory for building the bytes to send.
    pub(crate) work: RequestBuffers,
}

/// A request head; immutable while the request is served.
#[derive(Default)]
pub(crate) struct Received {
    /// The bytes that `head` points into.
    pub(crate) bytes: Vec<u8>,
    pub(crate) head: RequestHead,
}

impl Received {
    /// Keeps the bytes of the head just parsed: their space in the buffer is reused.
    pub(crate) fn keep(&mut self, bytes: &[u8]) {
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
    }

    /// Keeps the parts of a rejected head that are logged, without user information in URL or Host.
    pub(crate) fn keep_outline(&mut self, outline: &Outline<'_>) {
        self.bytes.clear();
        let mut fields = std::mem::take(&mut self.head.fields);
        fields.clear();
        self.head = RequestHead {
            method: self.write(outline.method),
            target: self.write(without_user(outline.target)),
            authority: self.write(without_user(outline.host)),
            version: outline.version,
            fields,
            ..RequestHead::default()
        };
    }

    /// Keeps, of a rejected head, only the parts that are logged.
    pub(crate) fn reduce_to_outline(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        self.keep_outline(&Outline {
            method: self.head.method.of(&bytes),
            target: self.head.target.of(&bytes),
            host: self.head.authority.of(&bytes),
            version: self.head.version,
        });
    }

    /// Stores text; an empty span if it is out of range.
    fn write(&mut self, text: &[u8]) -> Span {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(text);
        Span::new(start, self.bytes.len()).unwrap_or_default()
    }

    pub(crate) fn method(&self) -> &[u8] {
        self.head.method.of(&self.bytes)
    }

    /// Host and port as received.
    pub(crate) fn authority(&self) -> &[u8] {
        self.head.authority.of(&self.bytes)
    }

    /// The property of the request that the response's framing depends on.
    pub(crate) fn request_kind(&self) -> RequestKind {
        match (self.method(), self.head.upgrade) {
            (b"HEAD", _) => RequestKind::Head,
            (_, Some(_)) => RequestKind::Upgrade,
            _ => RequestKind::Other,
        }
    }

    /// Whether it is a gRPC call.
    pub(crate) fn is_grpc(&self) -> bool {
        let content_type = self
            .head
            .fields
            .value(KnownHeader::ContentType, &self.bytes);
        content_type.is_some_and(grpc::is_grpc)
    }

    /// Whether it is an extended CONNECT (RFC 8441).
    pub(crate) fn is_extended_connect(&self) -> bool {
        self.head.upgrade.is_some() && self.head.version == Version::Http2
    }

    /// The deadline that a gRPC caller set, if any.
    pub(crate) fn grpc_timeout(&self) -> Option<Duration> {
        let timeout = self
            .head
            .fields
            .value(KnownHeader::GrpcTimeout, &self.bytes)?;
        grpc::parse_timeout(timeout)
    }

    /// The value of a field by name.
    pub(crate) fn value(&self, name: &[u8]) -> Option<&[u8]> {
        let mut fields = self.head.fields.iter();
        let found = fields.find(|field| field.name.of(&self.bytes).eq_ignore_ascii_case(name));
        found.map(|field| field.value.of(&self.bytes))
    }

    /// The values of all lines of a field by name.
    pub(crate) fn values<'r>(&'r self, name: &'r [u8]) -> impl Iterator<Item = &'r [u8]> + Clone {
        let fields = self.head.fields.iter();
        let found =
            fields.filter(move |field| field.name.of(&self.bytes).eq_ignore_ascii_case(name));
        found.map(|field| field.value.of(&self.bytes))
    }

    /// Whether it has a body that its method does not define (RFC 9110 sections 9.3.1, 9.3.2 and
    /// 9.3.5). An origin that ignores the body may parse it as another request (request smuggling).
    pub(crate) fn has_undefined_content(&self) -> bool {
        !matches!(self.head.framing, Framing::Empty | Framing::Length(0))
            && matches!(self.method(), b"GET" | b"HEAD" | b"DELETE")
    }

    /// Whether its method is idempotent (RFC 9110 section 9.2.2).
    pub(crate) fn is_idempotent(&self) -> bool {
        matches!(
            self.method(),
            b"GET" | b"HEAD" | b"OPTIONS" | b"PUT" | b"DELETE"
        )
    }
}

/// The text after the user information of a URL or authority; all of it if there is none, or it is
/// a path.
fn without_user(text: &[u8]) -> &[u8] {
    let delimiter = |from: usize| {
        let mut rest = text.iter().skip(from);
        let found = rest.position(|byte| b"/?#".contains(byte));
        found.map_or(text.len(), |length| from + length)
    };
    let (scheme, rest) = text.split_at(delimiter(0));
    let is_url = scheme.ends_with(b":") && rest.starts_with(b"//");
    let start = if is_url { scheme.len() + 2 } else { 0 };
    let authority = text.get(start..delimiter(start)).unwrap_or_default();
    let user = authority.iter().rposition(|&byte| byte == b'@');
    user.and_then(|at| text.get(start + at + 1..))
        .unwrap_or(text)
}

/// Host and target in normal form, if they differ from the received one.
pub(crate) struct NormalForm {
    target: Vec<u8>,
    host: HostBuffer,
}

impl Default for NormalForm {
    fn default() -> Self {
        Self {
            target: Vec::new(),
            host: [0; MAX_HOST_BYTES],
        }
    }
}

impl NormalForm {
    /// Normalises host, path and query for matching and forwarding.
    pub(crate) fn normalise<'a>(
        &'a mut self,
        received: &'a Received,
        bind: &BindSettings,
    ) -> Result<(&'a str, Target<'a>), Failure> {
        let target = received.head.target.of(&received.bytes);
        let target = normalise_target(target, bind.path_options, &mut self.target)?;
        Ok((normalise_host(received.authority(), &mut self.host), target))
    }
}

/// Buffers for building the bytes to send.
pub(crate) struct RequestBuffers {
    pub(crate) request_body: BodyDecoder,
    /// Field lines to add to the request.
    pub(crate) request_lines: Vec<u8>,
    /// The target sent to the backend.
    pub(crate) target: Vec<u8>,
    /// Bytes to send to the backend, besides those in buffers.
    pub(crate) to_upstream: Vec<u8>,
    pub(crate) response: ResponseHead,
    /// Field lines to add to the response.
    pub(crate) response_lines: Vec<u8>,
    pub(crate) response_body: BodyDecoder,
    /// Bytes to send to the client, besides those in buffers.
    pub(crate) to_client: Vec<u8>,
    /// Endpoints tried so far.
    pub(crate) tried: Vec<Interned>,
}

impl Default for RequestBuffers {
    fn default() -> Self {
        Self {
            request_body: BodyDecoder::default(),
            request_lines: Vec::new(),
            target: Vec::new(),
            to_upstream: Vec::new(),
            response: ResponseHead::default(),
            response_lines: Vec::new(),
            response_body: BodyDecoder::of_response(Framing::Empty),
            to_client: Vec::new(),
            tried: Vec::new(),
        }
    }
}

/// Buffers of finished requests, for reuse without allocation.
#[derive(Default)]
pub(crate) struct ScratchPool(FreeList<Box<Scratch>>);

impl ScratchPool {
    /// Takes working memory; its content belongs to an earlier request.
    pub(crate) fn take(&self) -> Box<Scratch> {
        self.0.take().unwrap_or_default()
    }

    pub(crate) fn put(&self, scratch: Box<Scratch>) {
        self.0.put(scratch);
    }

    /// As [`Self::put`], for a connection that becomes idle: freed if others are free.
    pub(crate) fn put_idle(&self, scratch: Box<Scratch>) {
        drop(self.0.put_spare(scratch, SPARE_BUFFERS));
    }

    /// Frees memory not used since the last call. Returns how many were freed.
    pub(crate) fn trim(&self) -> usize {
        self.0.trim(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::without_user;

    #[test]
    fn urls_and_hosts_are_recorded_without_credentials() {
        for (text, kept) in [
            ("http://me:hush@a.test/x?y=@z", "a.test/x?y=@z"),
            ("http://a.test/x@y", "http://a.test/x@y"),
            ("me:hush@a.test:443", "a.test:443"),
            ("a@b@c", "c"),
            ("/a@b", "/a@b"),
            ("/a?to=http://me:hush@b", "/a?to=http://me:hush@b"),
            ("?a@b", "?a@b"),
            ("a.test", "a.test"),
            ("", ""),
        ] {
            assert_eq!(without_user(text.as_bytes()), kept.as_bytes(), "{text}");
        }
    }
}
