//! Our own kinds, validated mostly by their CRDs.

use serde_json::{Map, Value};
use xds::model::ObjectName;

use super::presumed::{presumed_metadata, presumed_targets};
use super::{Admissible, guarded};
use crate::admit::check::Check;
use crate::admit::crd;
use crate::admit::schema::Schema;
use crate::admit::suggest;
use crate::api::{
    AuthorizationRuleSpec, AuthorizationSpec, Backend, JwtProviderSpec, JwtSpec, TrafficPolicy,
    TrafficPolicySpec,
};
use crate::expression::Expression;
use crate::jwks;
use crate::lower::header_edit;

impl Admissible for Backend {
    fn schema() -> Option<&'static Schema> {
        Some(&crd::BACKEND)
    }

    fn may_restrict_access(field: &[&str]) -> bool {
        guarded(&["spec.tls"], field)
    }

    fn check(&self, _: &mut Check) {}
}

impl Admissible for TrafficPolicy {
    fn schema() -> Option<&'static Schema> {
        Some(&crd::TRAFFIC_POLICY)
    }

    /// While an access-restricting policy is invalid, it rejects all requests. Its targets are read
    /// as far as possible; an unidentifiable one has no name, and means the whole namespace.
    fn fail_closed(name: &ObjectName, written: &Value) -> Option<Self> {
        let spec = written.get("spec").and_then(Value::as_object);
        let jwt = spec.is_none_or(|spec| may_have(spec, JWT, true));
        let authorization = spec.is_some_and(|spec| may_have(spec, AUTHORIZATION, false));
        if !jwt && !authorization {
            return None;
        }
        Some(Self {
            metadata: presumed_metadata(name, written),
            spec: TrafficPolicySpec {
                target_refs: spec.map(presumed_targets).unwrap_or_default(),
                jwt: jwt.then(JwtSpec::default),
                // Without rules it rejects everything.
                authorization: authorization.then(AuthorizationSpec::default),
                ..TrafficPolicySpec::default()
            },
        })
    }

    fn duplicate_replacement(&self) -> Option<Self> {
        let (jwt, authorization) = (&self.spec.jwt, &self.spec.authorization);
        if jwt.is_none() && authorization.is_none() {
            return None;
        }
        Some(Self {
            metadata: self.metadata.clone(),
            spec: TrafficPolicySpec {
                target_refs: self.spec.target_refs.clone(),
                jwt: jwt.as_ref().map(|_| JwtSpec::default()),
                authorization: authorization.as_ref().map(|_| AuthorizationSpec::default()),
                ..TrafficPolicySpec::default()
            },
        })
    }

    /// Including a field of a policy that may be a newer way to authenticate.
    fn may_restrict_access(field: &[&str]) -> bool {
        match field {
            ["spec", name] => may_mean(name, JWT, true) || may_mean(name, AUTHORIZATION, false),
            _ => guarded(&["spec.jwt", "spec.authorization"], field),
        }
    }

    /// Rules that the CRD cannot express.
    fn check(&self, check: &mut Check) {
        check.field("spec", |check| {
            if let Some(jwt) = &self.spec.jwt {
                check.field(JWT, |check| {
                    check.each("providers", &jwt.providers, provider);
                });
            }
            if let Some(authorization) = &self.spec.authorization {
                check.field(AUTHORIZATION, |check| {
                    check.each("deny", &authorization.deny, rule);
                    check.each("allow", &authorization.allow, rule);
                });
            }
        });
    }
}

/// Whether a spec has a field, or a probable typo of it; or, if `or_unknown`, a field unlike any
/// known one, which may be a newer way to authenticate.
fn may_have(spec: &Map<String, Value>, field: &str, or_unknown: bool) -> bool {
    spec.keys().any(|name| may_mean(name, field, or_unknown))
}

/// Whether this is the field, or closer to it than to any other; or close to none.
fn may_mean(name: &str, field: &str, or_unknown: bool) -> bool {
    let known = serde_json::to_value(TrafficPolicySpec::default()).unwrap_or_default();
    let known: Vec<&str> = known
        .as_object()
        .into_iter()
        .flat_map(|fields| fields.keys().map(String::as_str))
        .collect();
    suggest::nearest(name, known).map_or(or_unknown, |meant| meant == field)
}

const JWT: &str = "jwt";
const AUTHORIZATION: &str = "authorization";

fn rule(check: &mut Check, rule: &AuthorizationRuleSpec) {
    check.fits_field("when", Some(&rule.when), |text| {
        Expression::parse(text)
            .map(drop)
            .map_err(|why| why.to_string())
    });
}

fn provider(check: &mut Check, provider: &JwtProviderSpec) {
    check.field("jwks", |check| {
        check.fits_field("inline", provider.jwks.inline.as_deref(), jwks::check);
    });
    check.each(
        "claimsToHeaders",
        &provider.claims_to_headers,
        |check, claim| {
            check.fits_field("header", Some(&claim.header), |text| {
                let name = header_edit::name(text);
                name.map(drop).map_err(|problem| problem.message)
            });
        },
    );
}
