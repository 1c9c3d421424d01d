//! Our `Backend`: an upstream that is not a Service.

use std::num::{NonZeroU16, NonZeroU32};

use serde::{Deserialize, Serialize};

use crate::objects::api::ObjectMeta;
use crate::policy::api::BackendTlsValidation;

#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct Backend {
    #[serde(default)]
    pub metadata: ObjectMeta,
    pub spec: BackendSpec,
}

/// Where a backend is: exactly one of `addresses`, `dns` and `unix`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendSpec {
    #[serde(default)]
    pub addresses: Vec<BackendHost>,
    /// Every address of a DNS name.
    #[serde(default)]
    pub dns: Option<BackendDns>,
    /// A unix stream socket.
    #[serde(default)]
    pub unix: Option<BackendUnix>,
    #[serde(default)]
    pub protocol: BackendProtocol,
    #[serde(default)]
    pub tls: Option<BackendTlsValidation>,
    /// Version of the PROXY protocol header that is sent to it.
    #[serde(default)]
    pub proxy_protocol: Option<ProxyProtocolVersion>,
}

/// A version of the PROXY protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
pub enum ProxyProtocolVersion {
    /// A line of text.
    V1,
    V2,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct BackendHost {
    /// Address or DNS name.
    pub host: String,
    pub port: NonZeroU16,
    /// Share relative to the other hosts.
    #[serde(default = "one")]
    pub weight: NonZeroU32,
    /// Where it is, compared with the zone of a proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct BackendDns {
    pub name: String,
    pub port: NonZeroU16,
    /// Longest interval between lookups.
    #[serde(default)]
    pub refresh: Option<String>,
}

/// A unix stream socket.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct BackendUnix {
    pub path: String,
}

/// The application protocol of a backend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum BackendProtocol {
    /// HTTP/1.1 in plain text.
    #[default]
    Http,
    /// HTTP/2 in plain text, with prior knowledge.
    H2c,
    /// HTTP/1.1 over TLS.
    Https,
    Tcp,
}
