//! The messages of `envoy.service.auth.v3`, with the fields that are sent or understood. Other fields
//! are skipped when decoding.

use std::collections::BTreeMap;

use prost::Message;

use super::mutation::{HeaderValue, HeaderValueOption, HttpStatus};

/// The request of a call: `envoy.service.auth.v3.CheckRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct CheckRequest {
    #[prost(message, optional, tag = "1")]
    pub attributes: Option<AttributeContext>,
}

/// The request to authorize: `envoy.service.auth.v3.AttributeContext`.
#[derive(Clone, PartialEq, Message)]
pub struct AttributeContext {
    /// The client, by its address.
    #[prost(message, optional, tag = "1")]
    pub source: Option<Peer>,
    #[prost(message, optional, tag = "4")]
    pub request: Option<Request>,
}

/// An end of a connection.
#[derive(Clone, PartialEq, Message)]
pub struct Peer {
    #[prost(message, optional, tag = "1")]
    pub address: Option<Address>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Address {
    #[prost(message, optional, tag = "1")]
    pub socket_address: Option<SocketAddress>,
}

/// An address of TCP.
#[derive(Clone, PartialEq, Message)]
pub struct SocketAddress {
    #[prost(string, tag = "2")]
    pub address: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Request {
    #[prost(message, optional, tag = "2")]
    pub http: Option<HttpRequest>,
}

/// A request of HTTP.
#[derive(Clone, PartialEq, Message)]
pub struct HttpRequest {
    #[prost(string, tag = "2")]
    pub method: String,
    /// Its header fields; several of a name are one, with commas.
    #[prost(btree_map = "string, string", tag = "3")]
    pub headers: BTreeMap<String, String>,
    /// Path with the query.
    #[prost(string, tag = "4")]
    pub path: String,
    #[prost(string, tag = "5")]
    pub host: String,
    /// Scheme: `http` or `https`.
    #[prost(string, tag = "6")]
    pub scheme: String,
    /// Bytes of the body; -1 if unknown.
    #[prost(int64, tag = "9")]
    pub size: i64,
    /// Protocol version, such as `HTTP/1.1`.
    #[prost(string, tag = "10")]
    pub protocol: String,
    #[prost(bytes = "vec", tag = "12")]
    pub raw_body: Vec<u8>,
}

/// The response to a call: `envoy.service.auth.v3.CheckResponse`.
#[derive(Clone, PartialEq, Message)]
pub struct CheckResponse {
    /// The decision: code 0 allows the request.
    #[prost(message, optional, tag = "1")]
    pub status: Option<Status>,
    /// The response for a denied request.
    #[prost(message, optional, tag = "2")]
    pub denied_response: Option<DeniedResponse>,
    #[prost(message, optional, tag = "3")]
    pub ok_response: Option<OkResponse>,
}

/// The decision: `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
pub struct Status {
    /// A status of gRPC.
    #[prost(int32, tag = "1")]
    pub code: i32,
}

/// The response for a denied request: `envoy.service.auth.v3.DeniedHttpResponse`.
#[derive(Clone, PartialEq, Message)]
pub struct DeniedResponse {
    /// Status of the response.
    #[prost(message, optional, tag = "1")]
    pub status: Option<HttpStatus>,
    /// Header fields of the response to the client.
    #[prost(message, repeated, tag = "2")]
    pub headers: Vec<HeaderValueOption>,
    /// Body of the response to the client.
    #[prost(string, tag = "3")]
    pub body: String,
}

/// The edits for a request that is allowed.
#[derive(Clone, PartialEq, Message)]
pub struct OkResponse {
    /// Header fields to set on the request.
    #[prost(message, repeated, tag = "2")]
    pub headers: Vec<HeaderValueOption>,
    /// Header fields to remove from the request.
    #[prost(string, repeated, tag = "5")]
    pub headers_to_remove: Vec<String>,
    /// Header fields of the response to the client.
    #[prost(message, repeated, tag = "6")]
    pub response_headers_to_add: Vec<HeaderValueOption>,
    /// Query parameters to set.
    #[prost(message, repeated, tag = "7")]
    pub query_parameters_to_set: Vec<HeaderValue>,
    /// Query parameters to remove.
    #[prost(string, repeated, tag = "8")]
    pub query_parameters_to_remove: Vec<String>,
}
