//! Parses a service account token (JWT, RFC 7519), without verifying it.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use xds::model::ObjectName;

#[derive(Debug)]
pub(super) struct Token<'a> {
    pub(super) header: Header,
    pub(super) claims: Claims,
    pub(super) signed: &'a str,
    pub(super) signature: Vec<u8>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Header {
    pub(super) alg: String,
    pub(super) kid: Option<String>,
    /// Critical extensions (RFC 7515 section 4.1.11): none is supported.
    pub(super) crit: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Claims {
    pub(super) iss: String,
    aud: Audience,
    /// Seconds since 1970, as all times here.
    pub(super) exp: u64,
    pub(super) nbf: Option<u64>,
    #[serde(rename = "kubernetes.io")]
    kubernetes: BoundObjects,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Several(Vec<String>),
}

/// The objects that the token is bound to.
#[derive(Debug, Deserialize)]
struct BoundObjects {
    namespace: String,
    serviceaccount: BoundObject,
    pod: Option<BoundObject>,
    node: Option<BoundObject>,
}

#[derive(Debug, Deserialize)]
struct BoundObject {
    name: String,
}

/// The owner of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bearer {
    pub(super) account: ObjectName,
    /// The pod that it is bound to, if any.
    pub(super) pod: Option<Arc<str>>,
    /// The node on which that runs, if the cluster says so.
    pub(super) node: Option<Arc<str>>,
}

impl<'a> Token<'a> {
    /// Parses a token; `None` if it is not a service account token.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let (signed, signature) = text.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        Some(Self {
            header: part(header)?,
            claims: part(claims)?,
            signed,
            signature: URL_SAFE_NO_PAD.decode(signature).ok()?,
        })
    }
}

fn part<T: DeserializeOwned>(text: &str) -> Option<T> {
    let json = URL_SAFE_NO_PAD.decode(text).ok()?;
    serde_json::from_slice(&json).ok()
}

impl Claims {
    /// Whether it is for this audience.
    pub(super) fn is_for(&self, audience: &str) -> bool {
        match &self.aud {
            Audience::One(it) => it == audience,
            Audience::Several(all) => all.iter().any(|it| it == audience),
        }
    }

    pub(super) fn bearer(&self) -> Option<Bearer> {
        let BoundObjects {
            namespace,
            serviceaccount,
            pod,
            node,
        } = &self.kubernetes;
        Some(Bearer {
            account: ObjectName::parse(namespace, &serviceaccount.name).ok()?,
            pod: pod.as_ref().map(|pod| pod.name.as_str().into()),
            node: node.as_ref().map(|node| node.name.as_str().into()),
        })
    }
}
