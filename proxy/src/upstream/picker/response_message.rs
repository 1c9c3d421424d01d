//! Builds the messages to a picker.

use std::collections::HashMap;

use super::messages::{
    BodySendMode, HeaderMap, HttpBody, HttpHeaders, HttpTrailers, Metadata, ProcessingRequest,
    ProtocolConfiguration, RequestMessage, Struct, Value, ValueKind,
};
use super::verdict::NAMESPACE;
use crate::config::Endpoint;
use crate::http::engine::{Scheme, SectionWriter};
use crate::http::head::ResponseHead;
use crate::http::known::KnownHeader;
use crate::http::lines::pairs;
use crate::policy::mutation::HeaderValue;

/// The head of the request, as a pod would receive it.
#[derive(Default)]
pub(crate) struct PickerHead(Vec<HeaderValue>);

impl SectionWriter for PickerHead {
    fn status(&mut self, status: u16) {
        let mut digits = itoa::Buffer::new();
        self.0
            .push(header(":status", digits.format(status).as_bytes()));
    }

    fn method(&mut self, method: &[u8]) {
        self.0.push(header(":method", method));
    }

    fn scheme(&mut self, scheme: Scheme) {
        let scheme: &[u8] = match scheme {
            Scheme::Http => b"http",
            Scheme::Https => b"https",
        };
        self.0.push(header(":scheme", scheme));
    }

    fn path(&mut self, path: &[u8]) {
        self.0.push(header(":path", path));
    }

    fn authority(&mut self, authority: &[u8]) {
        self.0.push(header(":authority", authority));
    }

    fn protocol(&mut self, protocol: &[u8]) {
        self.0.push(header(":protocol", protocol));
    }

    fn field(&mut self, _: KnownHeader, name: &[u8], value: &[u8]) {
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        self.0.push(header(&name, value));
    }
}

/// The message with the head of the request.
pub(crate) fn request_head(head: PickerHead, has_body: bool) -> ProcessingRequest {
    let headers = head.0;
    ProcessingRequest {
        request: Some(RequestMessage::RequestHeaders(HttpHeaders {
            headers: Some(HeaderMap { headers }),
            end_of_stream: !has_body,
        })),
        metadata_context: None,
        protocol_config: Some(ProtocolConfiguration {
            request_body_mode: BodySendMode::FullDuplexStreamed.into(),
            response_body_mode: BodySendMode::FullDuplexStreamed.into(),
        }),
    }
}

/// A part of the request's body.
pub(crate) fn request_body(piece: &[u8], end_of_stream: bool) -> ProcessingRequest {
    ProcessingRequest {
        request: Some(RequestMessage::RequestBody(HttpBody {
            body: piece.to_vec(),
            end_of_stream,
        })),
        ..ProcessingRequest::default()
    }
}

/// The head of the response, and the endpoint that served it.
pub(super) fn response_head(
    head: &ResponseHead,
    bytes: &[u8],
    served: &Endpoint,
    end_of_stream: bool,
) -> ProcessingRequest {
    let status = itoa::Buffer::new().format(head.status).to_owned();
    let mut headers = vec![header(":status", status.as_bytes())];
    headers.extend(head.fields.iter().map(|field| {
        let name = String::from_utf8_lossy(field.name.of(bytes)).to_ascii_lowercase();
        header(&name, field.value.of(bytes))
    }));
    let served = Value {
        kind: Some(ValueKind::String(served.name.to_string())),
    };
    let metadata = Struct {
        fields: HashMap::from([(SERVED.to_owned(), served)]),
    };
    ProcessingRequest {
        request: Some(RequestMessage::ResponseHeaders(HttpHeaders {
            headers: Some(HeaderMap { headers }),
            end_of_stream,
        })),
        metadata_context: Some(Metadata {
            filter_metadata: HashMap::from([(NAMESPACE.to_owned(), metadata)]),
        }),
        protocol_config: None,
    }
}

/// A part of the response's body.
pub(super) fn response_body(piece: &[u8], end_of_stream: bool) -> ProcessingRequest {
    ProcessingRequest {
        request: Some(RequestMessage::ResponseBody(HttpBody {
            body: piece.to_vec(),
            end_of_stream,
        })),
        ..ProcessingRequest::default()
    }
}

/// The trailers of the response, which end it: lines, each terminated by CRLF.
pub(super) fn response_trailers(lines: &[u8]) -> ProcessingRequest {
    let trailers = pairs(lines).map(|(name, value)| {
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        header(&name, value)
    });
    let trailers = HeaderMap {
        headers: trailers.collect(),
    };
    ProcessingRequest {
        request: Some(RequestMessage::ResponseTrailers(HttpTrailers {
            trailers: Some(trailers),
        })),
        ..ProcessingRequest::default()
    }
}

fn header(key: &str, value: &[u8]) -> HeaderValue {
    HeaderValue {
        key: key.to_owned(),
        value: String::new(),
        raw_value: value.to_vec(),
    }
}

/// Metadata field for the endpoint that served the request.
const SERVED: &str = "x-gateway-destination-endpoint-served";
