//! Secret, `ConfigMap` and Namespace.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{Labels, ObjectMeta};

#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Secret {
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// Its type, such as `kubernetes.io/tls`.
    #[serde(rename = "type", default)]
    pub kind: Option<String>,
    #[serde(default, deserialize_with = "super::null_as_default")]
    pub data: BTreeMap<String, Base64>,
    /// Entries as text; they win, as on an API server.
    #[serde(default, deserialize_with = "super::null_as_default")]
    pub string_data: BTreeMap<String, SecretText>,
}

impl Secret {
    /// The bytes of an entry.
    #[must_use]
    pub fn entry(&self, key: &str) -> Option<&[u8]> {
        let text = self.string_data.get(key).map(|text| text.0.as_bytes());
        text.or_else(|| self.data.get(key).map(|bytes| bytes.0.as_slice()))
    }

    /// All entries, by name.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let names: BTreeSet<&str> = { self.data.keys() }
            .chain(self.string_data.keys())
            .map(String::as_str)
            .collect();
        names
            .into_iter()
            .filter_map(|name| Some((name, self.entry(name)?)))
    }

    /// Forgets its labels. Which of its entries are read depends on policies too: those of others are dropped
    /// where objects are read from an API server, and files have few.
    pub(crate) fn keep_read_parts(&mut self) {
        self.metadata.labels = Labels::default();
    }
}

/// The entries of Secrets and ConfigMaps that are read, whatever the type of a Secret: certificates with
/// their keys, and CA certificates. Others are read if a policy refers to them.
pub const READ_ENTRIES: [&str; 3] = ["tls.crt", "tls.key", AUTHORITIES];

/// The entry with CA certificates. Gateway API specifies it.
pub(crate) const AUTHORITIES: &str = "ca.crt";

/// Bytes that are written in base64. Debug output shows only their number.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Base64(pub Vec<u8>);

impl fmt::Debug for Base64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut text = String::deserialize(deserializer)?;
        // Go's decoder, which API servers use, ignores line breaks.
        text.retain(|c| c != '\n' && c != '\r');
        let bytes = BASE64_STANDARD.decode(text).map_err(de::Error::custom)?;
        Ok(Self(bytes))
    }
}

impl Serialize for Base64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64_STANDARD.encode(&self.0))
    }
}

/// Secret text. Debug output shows only its length.
#[derive(Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct SecretText(pub String);

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMap {
    #[serde(default)]
    pub metadata: ObjectMeta,
    #[serde(default, deserialize_with = "super::null_as_default")]
    pub data: BTreeMap<String, String>,
    /// Entries that are not text.
    #[serde(default, deserialize_with = "super::null_as_default")]
    pub binary_data: BTreeMap<String, Base64>,
}

impl ConfigMap {
    /// The bytes of an entry.
    #[must_use]
    pub fn entry(&self, key: &str) -> Option<&[u8]> {
        let text = self.data.get(key).map(String::as_bytes);
        text.or_else(|| self.binary_data.get(key).map(|bytes| bytes.0.as_slice()))
    }

    /// Forgets its labels. Which of its entries are read depends on policies: those of others are dropped
    /// where objects are read from an API server, and files have few.
    pub(crate) fn keep_read_parts(&mut self) {
        self.metadata.labels = Labels::default();
    }
}

/// A Namespace, of which only the labels are used.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
pub struct Namespace {
    #[serde(default)]
    pub metadata: ObjectMeta,
}

impl Namespace {
    /// The labels of a namespace, with the one that Kubernetes gives to each.
    pub(crate) fn labels<'a>(known: Option<&'a Self>, name: &str) -> Cow<'a, Labels> {
        let mut labels = known.map_or_else(Cow::default, |it| Cow::Borrowed(&it.metadata.labels));
        if labels.get(NAME_LABEL).map(|it| &**it) != Some(name) {
            let labels = labels.to_mut();
            labels.insert(NAME_LABEL.into(), name.into());
        }
        labels
    }
}

/// Set by the API server on every namespace (KEP-2161).
const NAME_LABEL: &str = "kubernetes.io/metadata.name";
