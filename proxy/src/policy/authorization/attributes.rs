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

use super::Authorization;
use crate::policy::effective_fields::EffectiveFields;
use crate::policy::networks::Networks;

/// The claims of a token, as values of rules.
#[derive(Debug)]
pub struct ClaimValues(CelMap<'static>);

impl ClaimValues {
    pub(in crate::policy) fn new(claims: &Map<String, Value>) -> Self {
        Self(object(claims))
    }
}

/// The variables for one request.
pub struct Attributes<'a> {
    claims: &'a CelMap<'static>,
    request: CelMap<'a>,
    client: CelMap<'a>,
    address: IpAddr,
    /// Searched as far as expressions are evaluated.
    networks: &'a [(String, Networks)],
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
    /// Collects the variables that the rules of a policy read.
    #[must_use]
    pub fn of(subject: Subject<'a>, policy: &'a Authorization) -> Self {
        let mut request = HashMap::new();
        let text = |text: &'a str| -> Box<dyn Val + 'a> { Box::new(CelString::from(text)) };
        for (name, value) in [
            ("method", str::from_utf8(subject.method).unwrap_or_default()),
            ("host", subject.host),
            ("path", subject.path),
        ] {
            request.insert(key(name), text(value));
        }
        if policy.reads_headers() {
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
            networks: &policy.networks,
        }
    }
}

impl VariableResolver for Attributes<'_> {
    fn resolve<'b>(&'b self, variable: &str) -> Option<CowVal<'b, 'b>> {
        let value: &'b (dyn Val + 'b) = match variable {
            "claims" => self.claims,
            "request" => &self.request,
            "client" => &self.client,
            _ => return self.network(variable),
        };
        Some(CowVal::Borrowed(value))
    }
}

impl Attributes<'_> {
    /// Whether the client's address is in the network of this variable.
    fn network<'b>(&self, variable: &str) -> Option<CowVal<'b, 'b>> {
        let found = self
            .networks
            .binary_search_by(|(name, _)| name.as_str().cmp(variable));
        let (_, network) = self.networks.get(found.ok()?)?;
        Some(CowVal::owned(CelBool::from(network.contains(self.address))))
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
