//! Our own kinds: their definitions say everything.

use serde_json::Value;

use super::Admissible;
use crate::admit::check::Check;
use crate::admit::crd;
use crate::admit::schema::Schema;
use crate::api::{Backend, JwtProviderSpec, JwtSpec, TrafficPolicy, TrafficPolicySpec};
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

    /// One that asks for tokens refuses everyone until it can say whom not.
    fn stand_in(written: &Value) -> Option<Self> {
        let spec = written.get("spec")?;
        spec.get("jwt")?;
        let targets = spec.get("targetRefs")?.as_array()?.iter();
        let targets = targets.filter_map(|it| serde_json::from_value(it.clone()).ok());
        Some(Self {
            metadata: serde_json::from_value(written.get("metadata")?.clone()).ok()?,
            spec: TrafficPolicySpec {
                target_refs: targets.collect(),
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
