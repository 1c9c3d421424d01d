//! `respond` and `errorPages` of a policy: what the gateway answers itself.

use serde::{Deserialize, Serialize};

use crate::backend::api::BackendObjectReference;
use crate::route::api::Header;

/// The answer to every request of the target, in the place of its backends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RespondSpec {
    /// Its status.
    pub status: u32,
    /// The type of its body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Its body; excludes `bodyFrom`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// Where its body is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_from: Option<ConfigEntryRef>,
    /// Its further header fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<Vec<Header>>,
    /// When clients may ask again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<String>,
    /// An expression in CEL: which requests go on to their backends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub except: Option<String>,
}

impl RespondSpec {
    /// All references to ConfigMaps.
    pub fn entries(&self) -> impl Iterator<Item = &ConfigEntryRef> {
        self.body_from.iter()
    }
}

/// A page in the place of the content of errors.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ErrorPageSpec {
    /// Statuses such as `404`, and ranges such as `502-504`.
    #[serde(default)]
    pub statuses: Vec<String>,
    /// Whose errors it is for.
    #[serde(default)]
    pub source: ErrorSourceSpec,
    /// Its content, in several types; excludes `backendRef`.
    #[serde(default)]
    pub bodies: Vec<PageBodySpec>,
    /// The page server that has its content.
    #[serde(default)]
    pub backend_ref: Option<BackendObjectReference>,
}

/// Whose errors a page is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub enum ErrorSourceSpec {
    /// Those that the gateway generates.
    #[default]
    Gateway,
    /// Those of backends.
    Backend,
    /// Both.
    Any,
}

/// The content of a page in a type.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PageBodySpec {
    /// The type.
    pub content_type: String,
    /// The body; excludes `bodyFrom`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// Where the body is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_from: Option<ConfigEntryRef>,
}

impl ErrorPageSpec {
    /// All references to ConfigMaps.
    pub fn entries(&self) -> impl Iterator<Item = &ConfigEntryRef> {
        self.bodies.iter().filter_map(|it| it.body_from.as_ref())
    }

    /// Whether it refers to other objects.
    #[must_use]
    pub fn refers_to_others(&self) -> bool {
        self.backend_ref.is_some() || self.entries().next().is_some()
    }
}

/// An entry of a ConfigMap in the namespace of the policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub struct ConfigEntryRef {
    /// Name of the ConfigMap.
    pub name: String,
    /// Name of its entry.
    pub key: String,
}
