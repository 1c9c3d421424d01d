//! What rules and their backends do to requests and responses.

use http::{HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use xds::model;

use super::Target;
use crate::secret;
use crate::text::of_duration;

/// The filters of a rule or of one backend.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Filters {
    /// Edits of the request's headers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_headers: Option<HeaderEdit>,
    /// Edits of the response's headers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_headers: Option<HeaderEdit>,
    /// Answers with a redirect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redirect: Option<Redirect>,
    /// Rewrites host and path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rewrite: Option<Rewrite>,
    /// Copies that are sent elsewhere.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mirrors: Vec<Mirror>,
    /// Cross-origin resource sharing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cors: Option<Cors>,
}

impl Filters {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl From<&model::Filters> for Filters {
    fn from(filters: &model::Filters) -> Self {
        Self {
            request_headers: filters.request_headers.as_ref().map(Into::into),
            response_headers: filters.response_headers.as_ref().map(Into::into),
            redirect: filters.redirect.as_ref().map(Into::into),
            rewrite: filters.rewrite.as_ref().map(Into::into),
            mirrors: filters.mirrors.iter().map(Into::into).collect(),
            cors: filters.cors.as_ref().map(Into::into),
        }
    }
}

/// Changes to headers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeaderEdit {
    /// Replaced.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<HeaderLine>,
    /// Added.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub add: Vec<HeaderLine>,
    /// Removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<String>,
}

impl From<&model::HeaderEdit> for HeaderEdit {
    fn from(edit: &model::HeaderEdit) -> Self {
        Self {
            set: edit.set.iter().map(header_line).collect(),
            add: edit.add.iter().map(header_line).collect(),
            remove: edit.remove.iter().map(ToString::to_string).collect(),
        }
    }
}

/// A header and its value; secret ones are masked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeaderLine {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

fn header_line((name, value): &(HeaderName, HeaderValue)) -> HeaderLine {
    let value = String::from_utf8_lossy(value.as_bytes());
    HeaderLine {
        name: name.to_string(),
        value: secret::header_value(name.as_str(), &value).into_owned(),
    }
}

/// A new path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "value")]
pub enum PathEdit {
    /// In place of the whole path.
    ReplaceFullPath(String),
    /// In place of the matched prefix.
    ReplacePrefixMatch(String),
}

impl From<&model::PathEdit> for PathEdit {
    fn from(edit: &model::PathEdit) -> Self {
        match edit {
            model::PathEdit::Full(path) => Self::ReplaceFullPath(path.clone()),
            model::PathEdit::PrefixMatch(path) => Self::ReplacePrefixMatch(path.clone()),
        }
    }
}

/// An answer that sends the client elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redirect {
    /// `http` or `https`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
    /// Host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// Path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathEdit>,
    /// Port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Status.
    pub status: u16,
}

impl From<&model::Redirect> for Redirect {
    fn from(redirect: &model::Redirect) -> Self {
        let scheme = redirect.scheme.map(|scheme| match scheme {
            model::Scheme::Http => "http".to_owned(),
            model::Scheme::Https => "https".to_owned(),
        });
        Self {
            scheme,
            hostname: redirect.hostname.as_ref().map(ToString::to_string),
            path: redirect.path.as_ref().map(Into::into),
            port: redirect.port,
            status: redirect.status.as_u16(),
        }
    }
}

/// What of a request's target is written anew.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rewrite {
    /// Host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// Path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathEdit>,
}

impl From<&model::Rewrite> for Rewrite {
    fn from(rewrite: &model::Rewrite) -> Self {
        Self {
            hostname: rewrite.hostname.as_ref().map(ToString::to_string),
            path: rewrite.path.as_ref().map(Into::into),
        }
    }
}

/// A copy that is sent elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mirror {
    /// Where to.
    pub target: Target,
    /// Of how many requests; of all where it says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fraction: Option<Fraction>,
}

impl From<&model::Mirror> for Mirror {
    fn from(mirror: &model::Mirror) -> Self {
        Self {
            target: (&mirror.target).into(),
            fraction: mirror.fraction.map(|fraction| Fraction {
                numerator: fraction.numerator,
                denominator: fraction.denominator.get(),
            }),
        }
    }
}

/// `numerator` of every `denominator`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fraction {
    /// How many.
    pub numerator: u32,
    /// Out of how many.
    pub denominator: u32,
}

/// Cross-origin resource sharing; `*` in a list means every one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cors {
    /// Who may ask.
    pub allow_origins: Vec<String>,
    /// Whether credentials may be sent.
    pub allow_credentials: bool,
    /// Methods.
    pub allow_methods: Vec<String>,
    /// Request headers.
    pub allow_headers: Vec<String>,
    /// Response headers that scripts may read.
    pub expose_headers: Vec<String>,
    /// How long a preflight answer may be kept.
    pub max_age: String,
}

impl From<&model::Cors> for Cors {
    fn from(cors: &model::Cors) -> Self {
        Self {
            allow_origins: cors.allow_origins.iter().map(ToString::to_string).collect(),
            allow_credentials: cors.allow_credentials,
            allow_methods: allowed(&cors.allow_methods),
            allow_headers: allowed(&cors.allow_headers),
            expose_headers: allowed(&cors.expose_headers),
            max_age: of_duration(cors.max_age),
        }
    }
}

fn allowed<T: ToString>(allow: &model::Allow<T>) -> Vec<String> {
    match allow {
        model::Allow::Any => vec!["*".to_owned()],
        model::Allow::Listed(list) => list.iter().map(ToString::to_string).collect(),
    }
}
