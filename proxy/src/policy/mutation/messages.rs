//! Messages of `envoy.config.core.v3` in which authorization servers and endpoint pickers change
//! the header fields of requests.

use prost::Message;

/// Fields to set, and names to remove.
#[derive(Clone, PartialEq, Message)]
pub struct HeaderMutation {
    /// Fields to set, in order, after names were removed.
    #[prost(message, repeated, tag = "1")]
    pub set_headers: Vec<HeaderValueOption>,
    /// Names of fields to remove.
    #[prost(string, repeated, tag = "2")]
    pub remove_headers: Vec<String>,
}

/// A field to set, and how existing ones are treated.
#[derive(Clone, PartialEq, Message)]
pub struct HeaderValueOption {
    #[prost(message, optional, tag = "1")]
    pub header: Option<HeaderValue>,
    /// Whether existing fields are kept; takes precedence over the action.
    #[prost(message, optional, tag = "2")]
    pub append: Option<bool>,
    /// An action by its number.
    #[prost(int32, tag = "3")]
    pub append_action: i32,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct HeaderValue {
    #[prost(string, tag = "1")]
    pub key: String,
    /// Its value as text.
    #[prost(string, tag = "2")]
    pub value: String,
    /// Its value as bytes.
    #[prost(bytes = "vec", tag = "3")]
    pub raw_value: Vec<u8>,
}

impl HeaderValue {
    /// The value, in whichever of the two protobuf fields it was sent.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        if self.raw_value.is_empty() {
            self.value.as_bytes()
        } else {
            &self.raw_value
        }
    }
}

/// A status of HTTP.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct HttpStatus {
    /// Status code of the response.
    #[prost(int32, tag = "1")]
    pub code: i32,
}
