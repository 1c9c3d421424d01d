//! Our own kinds: their definitions say everything.

use std::slice;

use serde_json::{Map, Value};
use xds::model::ObjectName;

use super::Admissible;
use crate::admit::check::Check;
use crate::admit::crd;
use crate::admit::schema::Schema;
use crate::admit::suggest;
use crate::api::{
    Backend, JwtProviderSpec, JwtSpec, ObjectMeta, PolicyTargetReference, TrafficPolicy,
    TrafficPolicySpec,
};
use crate::jwks;
use crate::lower::header_edit;

impl Admissible for Backend {
    fn schema() -> Option<&'static Schema> {
        Some(&crd::BACKEND)
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
        let metadata = written.get("metadata").cloned().unwrap_or_default();
        let metadata = serde_json::from_value(metadata).unwrap_or_else(|_| ObjectMeta {
            name: name.name.to_string(),
            namespace: name.namespace.to_string(),
            ..ObjectMeta::default()
        });
        Some(Self {
            metadata,
            spec: TrafficPolicySpec {
                target_refs: spec.map(presumed_targets).unwrap_or_default(),
                jwt: Some(JwtSpec::default()),
                ..TrafficPolicySpec::default()
            },
        })
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
    let known = serde_json::to_value(TrafficPolicySpec::default()).unwrap_or_default();
    let known: Vec<&str> = known
        .as_object()
        .into_iter()
        .flat_map(|fields| fields.keys().map(String::as_str))
        .collect();
    let meant = |name: &String| suggest::nearest(name, known.iter().copied());
    spec.keys()
        .any(|name| meant(name).is_none_or(|meant| meant == JWT))
}

/// The targets of a refused policy, from `targetRefs` or what is spelled nearly so.
fn presumed_targets(spec: &Map<String, Value>) -> Vec<PolicyTargetReference> {
    let lists = spec.iter();
    let lists = lists.filter(|(name, _)| suggest::nearest(name, [TARGETS]).is_some());
    let items = lists.flat_map(|(_, value)| match value {
        Value::Array(items) => items.as_slice(),
        one => slice::from_ref(one),
    });
    items.map(presumed_target).collect()
}

/// Text in the place of whatever scalars were written.
fn presumed_target(written: &Value) -> PolicyTargetReference {
    let text = |field| match written.get(field)? {
        Value::String(text) => Some(text.clone()),
        scalar @ (Value::Number(_) | Value::Bool(_)) => Some(scalar.to_string()),
        _ => None,
    };
    PolicyTargetReference {
        group: text("group").unwrap_or_default(),
        kind: text("kind").unwrap_or_default(),
        name: text("name").unwrap_or_default(),
        section_name: text("sectionName"),
    }
}

const TARGETS: &str = "targetRefs";
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
