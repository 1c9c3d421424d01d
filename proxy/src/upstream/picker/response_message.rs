//! Builds the messages to a picker.

use std::collections::HashMap;

use http::Request;

use super::messages::{
    BodySendMode, HeaderMap, HttpBody, HttpHeaders, HttpTrailers, Metadata, ProcessingRequest,
    ProtocolConfiguration, RequestMessage, Struct, Value, ValueKind,
};
use super::verdict::NAMESPACE;
use crate::config::Endpoint;
use crate::http::h2::trailers::pairs;
use crate::http::head::ResponseHead;
use crate::policy::mutation::HeaderValue;

/// The head of the request, as a pod would receive it.
pub(crate) fn request_head(head: &Request<()>, has_body: bool) -> ProcessingRequest {
    let uri = head.uri();
    let path = uri.path_and_query().map_or("/", |it| it.as_str());
    let mut headers = vec![
        header(":method", head.method().as_str().as_bytes()),
        header(":scheme", uri.scheme_str().unwrap_or("http").as_bytes()),
        header(
            ":authority",
            uri.authority().map_or("", |it| it.as_str()).as_bytes(),
        ),
        header(":path", path.as_bytes()),
    ];
    let fields = head.headers().iter();
    headers.extend(fields.map(|(name, value)| header(name.as_str(), value.as_bytes())));
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
