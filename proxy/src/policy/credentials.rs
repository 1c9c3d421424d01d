//! The parts of requests that carry credentials, by name, which traces hide.
//!
//! A trace begins before the rule of its request is known, so the names of all policies count.

use std::collections::BTreeMap;

use xds::model::{JwtSource, PolicySpec};

use crate::route::query;

/// Names of header fields and query parameters that policies read tokens from, and of those that rejected
/// versions of policies would. Cookies are hidden anyway.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    /// With the number of policies that name it.
    headers: BTreeMap<Box<str>, usize>,
    parameters: BTreeMap<Box<str>, usize>,
}

impl Credentials {
    /// Whether a policy says where tokens are.
    #[must_use]
    pub fn concerns(spec: &PolicySpec) -> bool {
        sources(spec).next().is_some()
    }

    /// Adds the names of a policy.
    pub fn add(&mut self, spec: &PolicySpec) {
        for source in sources(spec) {
            if let Some((names, name)) = self.names(source) {
                let count = names.entry(name.into()).or_default();
                *count = count.saturating_add(1);
            }
        }
    }

    /// Removes the names of a policy that was added.
    pub fn remove(&mut self, spec: &PolicySpec) {
        for source in sources(spec) {
            let Some((names, name)) = self.names(source) else {
                continue;
            };
            if let Some(count) = names.get_mut(name) {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    names.remove(name);
                }
            }
        }
    }

    fn names<'a>(
        &mut self,
        source: &'a JwtSource,
    ) -> Option<(&mut BTreeMap<Box<str>, usize>, &'a str)> {
        match source {
            JwtSource::Header { name, .. } => Some((&mut self.headers, name.as_str())),
            JwtSource::Query(name) => Some((&mut self.parameters, name)),
            JwtSource::Cookie(_) => None,
        }
    }

    /// Whether a header field of this name may carry a token.
    #[must_use]
    pub fn has_header(&self, name: &str) -> bool {
        let mut names = self.headers.keys();
        names.any(|known| **known == *JwtSource::ANY_NAME || known.eq_ignore_ascii_case(name))
    }

    /// Whether a query parameter of this name, in any form that a backend may decode, may carry a token.
    #[must_use]
    pub fn has_parameter(&self, name: &str) -> bool {
        let mut names = self.parameters.keys();
        names.any(|known| {
            **known == *JwtSource::ANY_NAME || query::equals(name.as_bytes(), known.as_bytes())
        })
    }
}

/// Where tokens are, according to a policy and to a rejected version of it.
fn sources(spec: &PolicySpec) -> impl Iterator<Item = &JwtSource> {
    spec.credential_sources().chain(&spec.hidden)
}

#[cfg(test)]
mod tests {
    use xds::model::{JwtSource, PolicySpec};

    use super::Credentials;

    #[test]
    fn names_of_credentials_count_until_the_last_policy_is_removed() {
        let spec = PolicySpec {
            hidden: vec![
                JwtSource::Query("who".into()),
                JwtSource::Header {
                    name: http::HeaderName::from_static("x-who"),
                    prefix: String::new(),
                },
                JwtSource::Cookie("who".into()),
            ],
            ..PolicySpec::default()
        };
        let mut credentials = Credentials::default();
        assert!(Credentials::concerns(&spec) && !Credentials::concerns(&PolicySpec::default()));
        credentials.add(&spec);
        credentials.add(&spec);
        credentials.remove(&spec);
        assert!(credentials.has_parameter("who") && credentials.has_parameter("%77ho"));
        assert!(!credentials.has_parameter("x-who") && !credentials.has_parameter("whom"));
        assert!(credentials.has_header("X-Who") && !credentials.has_header("who"));
        credentials.remove(&spec);
        assert_eq!(credentials, Credentials::default());
    }

    /// A policy that closes its target does not carry a long list of names.
    #[test]
    fn a_policy_that_names_too_many_places_hides_all_of_them() {
        let long = |number| JwtSource::Query(format!("{number}{}", "n".repeat(200)));
        let spec = PolicySpec {
            hidden: (0..2).map(long).collect(),
            ..PolicySpec::default()
        };
        let mut credentials = Credentials::default();
        credentials.add(&spec.refusing_all());
        assert!(credentials.has_parameter("anything") && credentials.has_header("anything"));
    }
}
