//! The variables of authorization rules: claims of a verified token, and attributes of the request.

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::LazyLock;

use cel::common::types::{
    CelBool, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString,
};
use cel::common::value::{CowVal, Val};
use cel::context::VariableResolver;
use serde_json::{Map, Value};

use super::ConditionNetworks;
use crate::policy::effective_fields::EffectiveFields;

/// The claims of a token, as values of rules.
#[derive(Debug)]
pub struct ClaimValues(CelMap<'static>);

impl ClaimValues {
    /// The claims of a verified token.
    #[must_use]
    pub fn new(claims: &Map<String, Value>) -> Self {
        Self(object(claims))
    }
}

impl ClaimValues {
    /// Calls a function with the text of a claim: of a text, a number or a truth value. Not for others, nor
    /// for one that is missing.
    pub(in crate::policy) fn with_text(&self, path: &ClaimPath, text: impl FnOnce(&[u8])) {
        let inside = || {
            let mut names = path.names.iter();
            let outermost = self.0.inner().get(names.next()?)?;
            names.try_fold(outermost, |value, name| {
                value.downcast_ref::<CelMap<'static>>()?.inner().get(name)
            })
        };
        let Some(value) = self.0.inner().get(&path.whole).or_else(inside) else {
            return;
        };
        if let Some(value) = value.downcast_ref::<CelString<'static>>() {
            text(value.inner().as_bytes());
        } else if let Some(number) = value.downcast_ref::<CelInt>() {
            text(itoa::Buffer::new().format(*number.inner()).as_bytes());
        } else if let Some(number) = value.downcast_ref::<CelDouble>() {
            text(number.inner().to_string().as_bytes());
        } else if let Some(value) = value.downcast_ref::<CelBool>() {
            text(value.inner().to_string().as_bytes());
        }
    }
}

/// The name of a claim. Dots separate members of objects, unless a name contains them.
#[derive(Debug, PartialEq, Eq)]
pub struct ClaimPath {
    whole: CelMapKey<'static>,
    names: Box<[CelMapKey<'static>]>,
}

impl ClaimPath {
    /// The claim of this name.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let key = |name: &str| CelMapKey::String(CelString::from(name.to_owned()));
        Self {
            whole: key(name),
            names: name.split('.').map(key).collect(),
        }
    }
}

/// The variables for one request.
pub struct Attributes<'a> {
    claims: &'a CelMap<'static>,
    request: CelMap<'a>,
    client: CelMap<'a>,
    address: IpAddr,
}

/// The variables of a condition: those of the request, and whether the client is in the networks that the
/// condition names, which are searched only when the condition gets to them.
pub(super) struct Variables<'a> {
    pub(super) attributes: &'a Attributes<'a>,
    pub(super) networks: &'a ConditionNetworks,
}

/// The request to authorize.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The method, `request.method` in rules.
    pub method: &'a [u8],
    /// Normalised host, without port.
    pub host: &'a str,
    /// The normalised path, `request.path` in rules.
    pub path: &'a str,
    /// The header fields, `request.headers` in rules.
    pub fields: EffectiveFields<'a>,
    /// `client.address`: behind trusted hops.
    pub client: IpAddr,
    /// Claims of the verified token, if any.
    pub claims: Option<&'a ClaimValues>,
}

impl<'a> Attributes<'a> {
    /// Collects the variables that conditions read: without headers, if they do not read these.
    #[must_use]
    pub fn of(subject: Subject<'a>, reads_headers: bool) -> Self {
        let mut request = HashMap::new();
        let text = |text: &'a str| -> Box<dyn Val + 'a> { Box::new(CelString::from(text)) };
        for (name, value) in [
            ("method", str::from_utf8(subject.method).unwrap_or_default()),
            ("host", subject.host),
            ("path", subject.path),
        ] {
            request.insert(key(name), text(value));
        }
        if reads_headers {
            let headers = headers(subject.fields);
            request.insert(key("headers"), Box::new(headers));
        }
        let address: Box<dyn Val> = Box::new(CelString::from(subject.client.to_string()));
        let client = HashMap::from([(key("address"), address)]);
        Self {
            claims: subject.claims.map_or(&NONE, |claims| &claims.0),
            request: request.into(),
            client: client.into(),
            address: subject.client,
        }
    }
}

impl VariableResolver for Variables<'_> {
    fn resolve<'b>(&'b self, variable: &str) -> Option<CowVal<'b, 'b>> {
        let attributes = self.attributes;
        let value: &'b (dyn Val + 'b) = match variable {
            "claims" => attributes.claims,
            "request" => &attributes.request,
            "client" => &attributes.client,
            _ => {
                let is_inside = self.networks.contains(variable, attributes.address)?;
                return Some(CowVal::owned(CelBool::from(is_inside)));
            }
        };
        Some(CowVal::Borrowed(value))
    }
}

static NONE: LazyLock<CelMap<'static>> = LazyLock::new(CelMap::default);

fn key(name: &'static str) -> CelMapKey<'static> {
    CelMapKey::String(CelString::from(name))
}

/// Headers by lower-case name; several lines are joined by commas (RFC 9110 section 5.3).
fn headers(fields: EffectiveFields<'_>) -> CelMap<'_> {
    let mut lines: HashMap<String, Cow<'_, str>> = HashMap::new();
    for (name, value) in fields.lines(|_| true) {
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        let value = String::from_utf8_lossy(value);
        lines
            .entry(name)
            .and_modify(|known| {
                let known = known.to_mut();
                known.push_str(", ");
                known.push_str(&value);
            })
            .or_insert(value);
    }
    let lines = lines.into_iter().map(|(name, value)| {
        let value: Box<dyn Val + '_> = Box::new(CelString::from(value));
        (CelMapKey::String(CelString::from(name)), value)
    });
    lines.collect::<HashMap<_, _>>().into()
}

fn object(fields: &Map<String, Value>) -> CelMap<'static> {
    let fields = fields.iter().map(|(name, inner)| {
        let name = CelMapKey::String(CelString::from(name.clone()));
        (name, value(inner))
    });
    fields.collect::<HashMap<_, _>>().into()
}

/// Integers become `int`, the type of integer literals in rules.
fn value(value: &Value) -> Box<dyn Val> {
    match value {
        Value::Null => Box::new(CelNull),
        Value::Bool(value) => Box::new(CelBool::from(*value)),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => Box::new(CelInt::from(whole)),
            None => Box::new(CelDouble::from(number.as_f64().unwrap_or(f64::NAN))),
        },
        Value::String(text) => Box::new(CelString::from(text.clone())),
        Value::Array(items) => {
            let items: Vec<Box<dyn Val>> = items.iter().map(self::value).collect();
            Box::new(CelList::from(items))
        }
        Value::Object(fields) => Box::new(object(fields)),
    }
}
