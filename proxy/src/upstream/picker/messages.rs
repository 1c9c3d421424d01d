//! Messages of `envoy.service.ext_proc.v3`, as far as the endpoint picker protocol of the Inference
//! Extension uses them. Unlisted fields are skipped when decoding.

use std::collections::HashMap;

use prost::{Message, Oneof};

use super::mutation::{HeaderMutation, HeaderValue, HttpStatus};

/// The gRPC method of endpoint pickers.
pub(crate) const PROCESS: &str = "/envoy.service.ext_proc.v3.ExternalProcessor/Process";

/// A message to a picker: `envoy.service.ext_proc.v3.ProcessingRequest`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ProcessingRequest {
    #[prost(oneof = "RequestMessage", tags = "2, 3, 4, 5, 7")]
    pub(crate) request: Option<RequestMessage>,
    #[prost(message, optional, tag = "8")]
    pub(crate) metadata_context: Option<Metadata>,
    #[prost(message, optional, tag = "11")]
    pub(crate) protocol_config: Option<ProtocolConfiguration>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum RequestMessage {
    #[prost(message, tag = "2")]
    RequestHeaders(HttpHeaders),
    #[prost(message, tag = "3")]
    ResponseHeaders(HttpHeaders),
    #[prost(message, tag = "4")]
    RequestBody(HttpBody),
    #[prost(message, tag = "5")]
    ResponseBody(HttpBody),
    #[prost(message, tag = "7")]
    ResponseTrailers(HttpTrailers),
}

/// How bodies will be sent; in the first message.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(crate) struct ProtocolConfiguration {
    #[prost(enumeration = "BodySendMode", tag = "1")]
    pub(crate) request_body_mode: i32,
    #[prost(enumeration = "BodySendMode", tag = "2")]
    pub(crate) response_body_mode: i32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum BodySendMode {
    None = 0,
    FullDuplexStreamed = 4,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct HttpHeaders {
    #[prost(message, optional, tag = "1")]
    pub(crate) headers: Option<HeaderMap>,
    #[prost(bool, tag = "3")]
    pub(crate) end_of_stream: bool,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct HttpBody {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) body: Vec<u8>,
    #[prost(bool, tag = "2")]
    pub(crate) end_of_stream: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct HeaderMap {
    #[prost(message, repeated, tag = "1")]
    pub(crate) headers: Vec<HeaderValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct HttpTrailers {
    #[prost(message, optional, tag = "1")]
    pub(crate) trailers: Option<HeaderMap>,
}

/// Metadata by namespace: the name of the filter that it is for.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Metadata {
    #[prost(map = "string, message", tag = "1")]
    pub(crate) filter_metadata: HashMap<String, Struct>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Struct {
    #[prost(map = "string, message", tag = "1")]
    pub(crate) fields: HashMap<String, Value>,
}

/// `google.protobuf.Value`, without numbers and lists.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Value {
    #[prost(oneof = "ValueKind", tags = "3, 5")]
    pub(crate) kind: Option<ValueKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum ValueKind {
    #[prost(string, tag = "3")]
    String(String),
    #[prost(message, tag = "5")]
    Struct(Struct),
}

/// A message from a picker: `envoy.service.ext_proc.v3.ProcessingResponse`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ProcessingResponse {
    #[prost(oneof = "ResponseMessage", tags = "1, 2, 3, 4, 6, 7")]
    pub(crate) response: Option<ResponseMessage>,
    #[prost(message, optional, tag = "8")]
    pub(crate) dynamic_metadata: Option<Struct>,
    #[prost(message, optional, tag = "9")]
    pub(crate) mode_override: Option<ProcessingMode>,
}

/// What a picker wants to receive from now on, instead of everything:
/// `envoy.extensions.filters.http.ext_proc.v3.ProcessingMode`.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(crate) struct ProcessingMode {
    #[prost(enumeration = "HeaderSendMode", tag = "2")]
    pub(crate) response_header_mode: i32,
    #[prost(enumeration = "BodySendMode", tag = "4")]
    pub(crate) response_body_mode: i32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum HeaderSendMode {
    Default = 0,
    Skip = 2,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum ResponseMessage {
    #[prost(message, tag = "1")]
    RequestHeaders(PhaseResponse),
    #[prost(message, tag = "2")]
    ResponseHeaders(PhaseResponse),
    #[prost(message, tag = "3")]
    RequestBody(PhaseResponse),
    #[prost(message, tag = "4")]
    ResponseBody(PhaseResponse),
    #[prost(message, tag = "6")]
    ResponseTrailers(TrailersResponse),
    #[prost(message, tag = "7")]
    ImmediateResponse(ImmediateResponse),
}

/// `HeadersResponse` and `BodyResponse`, which have the same form.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct PhaseResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) response: Option<CommonResponse>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TrailersResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header_mutation: Option<HeaderMutation>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CommonResponse {
    #[prost(enumeration = "ResponseStatus", tag = "1")]
    pub(crate) status: i32,
    #[prost(message, optional, tag = "2")]
    pub(crate) header_mutation: Option<HeaderMutation>,
    #[prost(message, optional, tag = "3")]
    pub(crate) body_mutation: Option<BodyMutation>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum ResponseStatus {
    Continue = 0,
    /// The answer to a head replaces the whole message.
    ContinueAndReplace = 1,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct BodyMutation {
    #[prost(oneof = "MutatedBody", tags = "1, 2, 3")]
    pub(crate) mutation: Option<MutatedBody>,
}

#[derive(Clone, PartialEq, Eq, Oneof)]
pub(crate) enum MutatedBody {
    #[prost(bytes, tag = "1")]
    Whole(Vec<u8>),
    #[prost(bool, tag = "2")]
    Clear(bool),
    #[prost(message, tag = "3")]
    Streamed(HttpBody),
}

/// A response to the client that replaces the endpoint's.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ImmediateResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) status: Option<HttpStatus>,
    #[prost(message, optional, tag = "2")]
    pub(crate) headers: Option<HeaderMutation>,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) body: Vec<u8>,
}
