//! The messages of `envoy.service.auth.v3`, as far as we have something to say in them or understand
//! them. Fields that are not listed are skipped when they come.

use std::collections::BTreeMap;

use prost::Message;

use super::mutation::{HeaderValue, HeaderValueOption, HttpStatus};

/// What is asked.
#[derive(Clone, PartialEq, Message)]
pub struct CheckRequest {
    /// Of the request.
    #[prost(message, optional, tag = "1")]
    pub attributes: Option<AttributeContext>,
}

/// What there is to know of a request.
#[derive(Clone, PartialEq, Message)]
pub struct AttributeContext {
    /// Who sent it.
    #[prost(message, optional, tag = "1")]
    pub source: Option<Peer>,
    /// The request itself.
    #[prost(message, optional, tag = "4")]
    pub request: Option<Request>,
}

/// An end of a connection.
#[derive(Clone, PartialEq, Message)]
pub struct Peer {
    /// Where it is.
    #[prost(message, optional, tag = "1")]
    pub address: Option<Address>,
}

/// An address.
#[derive(Clone, PartialEq, Message)]
pub struct Address {
    /// Of IP.
    #[prost(message, optional, tag = "1")]
    pub socket_address: Option<SocketAddress>,
}

/// An address of TCP.
#[derive(Clone, PartialEq, Message)]
pub struct SocketAddress {
    /// The IP address.
    #[prost(string, tag = "2")]
    pub address: String,
}

/// A request.
#[derive(Clone, PartialEq, Message)]
pub struct Request {
    /// Of HTTP.
    #[prost(message, optional, tag = "2")]
    pub http: Option<HttpRequest>,
}

/// A request of HTTP.
#[derive(Clone, PartialEq, Message)]
pub struct HttpRequest {
    /// Its method.
    #[prost(string, tag = "2")]
    pub method: String,
    /// Its header fields; several of a name are one, with commas.
    #[prost(btree_map = "string, string", tag = "3")]
    pub headers: BTreeMap<String, String>,
    /// Path and query.
    #[prost(string, tag = "4")]
    pub path: String,
    /// Its host.
    #[prost(string, tag = "5")]
    pub host: String,
    /// `http` or `https`.
    #[prost(string, tag = "6")]
    pub scheme: String,
    /// Bytes of the body; -1 where that is not known.
    #[prost(int64, tag = "9")]
    pub size: i64,
    /// Such as `HTTP/1.1`.
    #[prost(string, tag = "10")]
    pub protocol: String,
    /// The body.
    #[prost(bytes = "vec", tag = "12")]
    pub raw_body: Vec<u8>,
}

/// What is answered.
#[derive(Clone, PartialEq, Message)]
pub struct CheckResponse {
    /// Whether the request may pass; it may where this is 0.
    #[prost(message, optional, tag = "1")]
    pub status: Option<Status>,
    /// How it is turned away.
    #[prost(message, optional, tag = "2")]
    pub denied_response: Option<DeniedResponse>,
    /// What it gets.
    #[prost(message, optional, tag = "3")]
    pub ok_response: Option<OkResponse>,
}

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
pub struct Status {
    /// A status of gRPC.
    #[prost(int32, tag = "1")]
    pub code: i32,
}

/// How a request is turned away.
#[derive(Clone, PartialEq, Message)]
pub struct DeniedResponse {
    /// Status of the response.
    #[prost(message, optional, tag = "1")]
    pub status: Option<HttpStatus>,
    /// Its header fields.
    #[prost(message, repeated, tag = "2")]
    pub headers: Vec<HeaderValueOption>,
    /// Its body.
    #[prost(string, tag = "3")]
    pub body: String,
}

/// What a request gets that may pass.
#[derive(Clone, PartialEq, Message)]
pub struct OkResponse {
    /// Header fields.
    #[prost(message, repeated, tag = "2")]
    pub headers: Vec<HeaderValueOption>,
    /// Header fields that it loses.
    #[prost(string, repeated, tag = "5")]
    pub headers_to_remove: Vec<String>,
    /// Header fields of the response to the client.
    #[prost(message, repeated, tag = "6")]
    pub response_headers_to_add: Vec<HeaderValueOption>,
    /// Parameters of its query that it gets.
    #[prost(message, repeated, tag = "7")]
    pub query_parameters_to_set: Vec<HeaderValue>,
    /// Parameters of its query that it loses.
    #[prost(string, repeated, tag = "8")]
    pub query_parameters_to_remove: Vec<String>,
}
