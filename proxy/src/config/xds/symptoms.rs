//! Tells the controller what only this proxy sees, so that it stands in the statuses of the objects that users wrote:
//! key sets that cannot be fetched, health checks that are ignored or slowed down. Pure: time and configuration are arguments.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use xds::delta::{Fact, Symptom};
use xds::discovery::DeltaDiscoveryRequest;
use xds::model::{
    JwksLocation, JwtKeys, Kind, LocalityMode, Model, PolicyKey, PolicyTarget, ResourceKey,
};

use crate::config::in_force::MissingKeys;
use crate::config::{CheckLimit, LimitedCheck, Place};
use crate::limits::{JWKS_FAILURES_TOLD, SYMPTOMS_INTERVAL};

/// What the controller of the current stream was told.
#[derive(Debug, Default)]
pub(super) struct ToldSymptoms {
    told: Vec<Symptom>,
    not_before: Option<Instant>,
    /// Whether something has changed that it is too early to tell.
    is_waiting: bool,
}

impl ToldSymptoms {
    /// A new stream has begun: its controller knows nothing.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// The request that tells what is seen now, if it has changed and it is time.
    pub(super) fn tell(
        &mut self,
        seen: Vec<Symptom>,
        now: Instant,
    ) -> Option<DeltaDiscoveryRequest> {
        let has_changed = seen != self.told;
        self.is_waiting = has_changed && self.not_before.is_some_and(|at| now < at);
        if !has_changed || self.is_waiting {
            return None;
        }
        self.told = seen;
        self.not_before = Some(now + SYMPTOMS_INTERVAL);
        Some(Symptom::request(&self.told, now))
    }

    /// When to call [`ToldSymptoms::tell`] again, whether or not anything changes.
    pub(super) fn next_at(&self) -> Option<Instant> {
        self.not_before.filter(|_| self.is_waiting)
    }
}

/// The symptoms of the policies whose keys are missing: one for each object and fact.
pub(super) fn seen(model: &Model, missing: &[MissingKeys]) -> Vec<Symptom> {
    let failing = missing.iter();
    let failing = failing.filter(|it| it.failures >= JWKS_FAILURES_TOLD);
    let failing: HashMap<&JwksLocation, &MissingKeys> =
        failing.map(|it| (&it.location, it)).collect();
    if failing.is_empty() {
        return Vec::new();
    }
    let mut seen: BTreeMap<(&str, Fact), Symptom> = BTreeMap::new();
    for policy in model.policies.values() {
        for provider in policy.spec.jwt.iter().flat_map(|jwt| &jwt.providers) {
            let JwtKeys::Remote { location, .. } = &provider.keys else {
                continue;
            };
            if let Some(keys) = failing.get(location) {
                let symptom = symptom(&policy.key, &provider.name, keys);
                let known = seen.entry((object(policy.key.as_str()), symptom.fact));
                known
                    .and_modify(|known| join(known, &symptom))
                    .or_insert(symptom);
            }
        }
    }
    seen.into_values().collect()
}

/// The symptoms of the policies whose health checks do not do what they are configured for: one for each target and
/// fact.
pub(super) fn seen_of_checks(model: &Model, limited: &[LimitedCheck]) -> Vec<Symptom> {
    if limited.is_empty() {
        return Vec::new();
    }
    let mut seen = Vec::new();
    for policy in model.policies.values() {
        let object = match &policy.target {
            PolicyTarget::Service(service) => service.as_str(),
            PolicyTarget::Backend(backend) => backend.as_str(),
            _ => continue,
        };
        if policy.spec.health_check.is_none() {
            continue;
        }
        for limit in [CheckLimit::Ignored, CheckLimit::Stretched] {
            let of_target = limited.iter();
            let of_target = of_target.filter(|it| it.limit == limit && *it.object == *object);
            let of_target: Vec<&LimitedCheck> = of_target.collect();
            let texts: Vec<&str> = of_target.iter().map(|it| it.text.as_str()).collect();
            let since = of_target.iter().map(|it| it.since).min();
            seen.extend(since.map(|since| Symptom {
                key: ResourceKey {
                    kind: Kind::Policy,
                    key: policy.key.to_shared(),
                },
                fact: match limit {
                    CheckLimit::Ignored => Fact::HealthChecksIgnored,
                    CheckLimit::Stretched => Fact::HealthChecksStretched,
                },
                since,
                text: texts.join("; "),
            }));
        }
    }
    seen.sort_by(|one, other| (&one.key.key, one.fact).cmp(&(&other.key.key, other.fact)));
    seen
}

/// The symptoms of the policies that prefer endpoints by zone, if this proxy does not know its own.
pub(super) fn seen_of_zones(model: &Model, place: &Place, since: Instant) -> Vec<Symptom> {
    if place.zone.is_some() {
        return Vec::new();
    }
    let by_zone = model.policies.values().filter(|policy| {
        let locality = policy.spec.balance.locality;
        locality.is_some_and(|it| it.mode == LocalityMode::PreferZone)
    });
    let seen = by_zone.map(|policy| Symptom {
        key: ResourceKey {
            kind: Kind::Policy,
            key: policy.key.to_shared(),
        },
        fact: Fact::ZoneUnknown,
        since,
        text: "the node of the proxy needs the label topology.kubernetes.io/zone, and the controller the permission to \
               get nodes; a proxy that connects again learns of it"
            .to_owned(),
    });
    seen.collect()
}

fn symptom(policy: &PolicyKey, provider: &str, keys: &MissingKeys) -> Symptom {
    let error = keys.error.as_deref().unwrap_or_default();
    Symptom {
        key: ResourceKey {
            kind: Kind::Policy,
            key: policy.to_shared(),
        },
        fact: if keys.was_fetched {
            Fact::KeysNotRefreshed
        } else {
            Fact::KeysNotFetched
        },
        since: keys.since,
        text: format!("keys of provider `{provider}` from {}: {error}", keys.from),
    }
}

/// Adds another symptom of the same object: of another provider, unless it is one for another target.
fn join(known: &mut Symptom, other: &Symptom) {
    known.since = known.since.min(other.since);
    if known.key == other.key {
        known.text.push_str("; ");
        known.text.push_str(&other.text);
    }
}

/// The object in the key of one of its targets: `<Kind>/<namespace>/<name>`.
fn object(key: &str) -> &str {
    let end = key.match_indices('/').nth(2);
    end.and_then(|(end, _)| key.get(..end)).unwrap_or(key)
}

#[cfg(test)]
mod tests;
