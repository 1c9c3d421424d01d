//! Our own kinds: their definitions say everything.

use serde_json::{Map, Value};
use xds::model::ObjectName;

use super::presumed::{presumed_metadata, presumed_targets};
use super::{Admissible, guarded};
use crate::admit::check::Check;
use crate::admit::crd;
use crate::admit::schema::Schema;
use crate::admit::suggest;
use crate::api::{Backend, JwtProviderSpec, JwtSpec, TrafficPolicy, TrafficPolicySpec};
use crate::jwks;
use crate::lower::header_edit;

impl Admissible for Backend {
    fn schema() -> Option<&'static Schema> {
        Some(&crd::BACKEND)
    }

    fn guards(field: &[&str]) -> bool {
        guarded(&["spec.tls"], field)
    }

    fn check(&self, _: &mut Check) {}
}

impl Admissible for TrafficPolicy {
    fn schema() -> Option<&'static Schema> {
        Some(&crd::TRAFFIC_POLICY)
    }

    /// A policy that may be about tokens refuses every request until it is admitted. Its targets are
    /// read as far as they go; one that cannot be told is left without a name, and stands for the
    /// whole namespace.
    fn stand_in(name: &ObjectName, written: &Value) -> Option<Self> {
        let spec = written.get("spec").and_then(Value::as_object);
        if spec.is_some_and(|spec| !may_ask_for_tokens(spec)) {
            return None;
        }
        Some(Self {
            metadata: presumed_metadata(name, written),
            spec: TrafficPolicySpec {
                target_refs: spec.map(presumed_targets).unwrap_or_default(),
                jwt: Some(JwtSpec::default()),
                ..TrafficPolicySpec::default()
            },
        })
    }

    fn shadow(&self) -> Option<Self> {
        self.spec.jwt.as_ref()?;
        Some(Self {
            metadata: self.metadata.clone(),
            spec: TrafficPolicySpec {
                target_refs: self.spec.target_refs.clone(),
                jwt: Some(JwtSpec::default()),
                ..TrafficPolicySpec::default()
            },
        })
    }

    /// Also a field of a policy that may be a newer way to authenticate.
    fn guards(field: &[&str]) -> bool {
        match field {
            ["spec", name] => may_mean_tokens(name),
            _ => guarded(&["spec.jwt"], field),
        }
    }

    /// What a definition has no words for.
    fn check(&self, check: &mut Check) {
        let Some(jwt) = &self.spec.jwt else { return };
        check.field("spec", |check| {
            check.field("jwt", |check| {
                check.each("providers", &jwt.providers, provider);
            });
        });
    }
}

/// Whether a spec has `jwt`, or a field that may be a slip of it or a newer way to authenticate.
fn may_ask_for_tokens(spec: &Map<String, Value>) -> bool {
    spec.keys().any(|name| may_mean_tokens(name))
}

/// Whether this is `jwt`, or nearer to it than to any other field, or near to none.
fn may_mean_tokens(name: &str) -> bool {
    let known = serde_json::to_value(TrafficPolicySpec::default()).unwrap_or_default();
    let known: Vec<&str> = known
        .as_object()
        .into_iter()
        .flat_map(|fields| fields.keys().map(String::as_str))
        .collect();
    suggest::nearest(name, known).is_none_or(|meant| meant == JWT)
}

const JWT: &str = "jwt";

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
