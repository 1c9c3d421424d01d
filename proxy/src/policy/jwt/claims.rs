//! The claims of a token (RFC 7519 section 4): checks, and values for backends.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::{Map, Value};
use xds::model::{JwtExpiry, JwtProvider};

use super::Refusal;
use crate::limits::JWT_SKEW;
use crate::policy::authorization::ClaimValues;

/// The claims of a token, without duplicates.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Claims(Map<String, Value>);

impl<'de> Deserialize<'de> for Claims {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ClaimsVisitor)
    }
}

/// Rejects duplicates: two readers may each trust another one of them.
struct ClaimsVisitor;

impl<'de> Visitor<'de> for ClaimsVisitor {
    type Value = Claims;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of claims")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut claims: A) -> Result<Claims, A::Error> {
        let mut map = Map::new();
        while let Some((name, value)) = claims.next_entry::<String, Value>()? {
            if map.insert(name, value).is_some() {
                return Err(A::Error::custom("a claim occurs twice"));
            }
        }
        Ok(Claims(map))
    }
}

/// What a provider's tokens have to say about time.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimeRules {
    /// How far the issuer's clock may differ, in seconds.
    skew: i64,
    expiry: JwtExpiry,
}

impl TimeRules {
    /// Claims count whole seconds, so that a fraction of a second of skew is rounded up.
    pub(super) fn of(provider: &JwtProvider) -> Self {
        let skew = provider.clock_skew.unwrap_or(JWT_SKEW);
        Self {
            skew: i64::try_from(skew.as_millis().div_ceil(1000)).unwrap_or(i64::MAX),
            expiry: provider.expiry,
        }
    }
}

impl Claims {
    /// The `iss` claim, which every token needs.
    pub(super) fn issuer(&self) -> Result<&str, Refusal> {
        self.text("iss")?.ok_or(Refusal::Issuer)
    }

    /// The `sub` claim, if the token has one.
    pub(super) fn subject(&self) -> Result<Option<&str>, Refusal> {
        self.text("sub")
    }

    /// Checks the token's validity period; returns its expiry in seconds of Unix time, if it has one.
    pub(super) fn check_time(&self, rules: TimeRules, now: i64) -> Result<Option<i64>, Refusal> {
        let expires = self.time("exp")?;
        let valid = match expires {
            Some(expires) => now < expires.saturating_add(rules.skew),
            None => rules.expiry == JwtExpiry::Optional,
        };
        if !valid {
            return Err(Refusal::Expired);
        }
        for begin in ["nbf", "iat"] {
            let begin = self.time(begin)?;
            if begin.is_some_and(|begin| begin > now.saturating_add(rules.skew)) {
                return Err(Refusal::NotYetValid);
            }
        }
        Ok(expires)
    }

    /// Rejects a token for none of `audiences`; if empty, any audience is accepted.
    pub(super) fn check_audience(&self, audiences: &[String]) -> Result<(), Refusal> {
        let named = match self.0.get("aud") {
            None => Vec::new(),
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(several)) => several
                .iter()
                .map(|one| match one {
                    Value::String(one) => Ok(one),
                    _ => Err(Refusal::ClaimType),
                })
                .collect::<Result<_, _>>()?,
            Some(_) => return Err(Refusal::ClaimType),
        };
        let meant = audiences.is_empty() || named.iter().any(|one| audiences.contains(one));
        meant.then_some(()).ok_or(Refusal::Audience)
    }

    /// A claim as the value of a header field. `None` if it is absent, or not representable
    /// unchanged: a changed name could be another user's.
    pub(super) fn header_value(&self, name: &str) -> Option<String> {
        let claim = self.find(name)?;
        let text = match claim {
            Value::Null => return None,
            Value::String(text) => text.clone(),
            Value::Array(list) => joined(list).unwrap_or_else(|| claim.to_string()),
            other => other.to_string(),
        };
        let carried =
            !text.chars().any(char::is_control) && !text.starts_with(' ') && !text.ends_with(' ');
        carried.then_some(text)
    }

    /// All claims, for authorization rules, with how the sender was authenticated, which is not for issuers to say.
    pub(super) fn values(&self) -> ClaimValues {
        let mut claims = self.0.clone();
        claims.insert("auth".to_owned(), Value::from("jwt"));
        ClaimValues::new(&claims)
    }

    /// The claim at a path. Dots separate members of objects, unless a name contains them.
    fn find(&self, name: &str) -> Option<&Value> {
        let inside = || {
            let mut names = name.split('.');
            let outermost = self.0.get(names.next()?)?;
            names.try_fold(outermost, |value, name| value.get(name))
        };
        self.0.get(name).or_else(inside)
    }

    fn text(&self, name: &str) -> Result<Option<&str>, Refusal> {
        match self.0.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(Refusal::ClaimType),
        }
    }

    /// A `NumericDate`, rounded down to seconds.
    fn time(&self, name: &str) -> Result<Option<i64>, Refusal> {
        match self.0.get(name) {
            None => Ok(None),
            Some(Value::Number(number)) => {
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "it saturates, and no clock comes near the ends"
                )]
                let cut = || number.as_f64().map(|seconds| seconds.floor() as i64);
                number
                    .as_i64()
                    .or_else(cut)
                    .map(Some)
                    .ok_or(Refusal::ClaimType)
            }
            Some(_) => Err(Refusal::ClaimType),
        }
    }
}

/// Texts and numbers as a comma-separated list; `None` if that would be ambiguous.
fn joined(list: &[Value]) -> Option<String> {
    let members = list.iter().map(|member| match member {
        Value::String(text) if !text.contains(',') => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(member.to_string()),
        _ => None,
    });
    let members: Option<Vec<String>> = members.collect();
    members.map(|members| members.join(","))
}

#[cfg(test)]
mod tests;
