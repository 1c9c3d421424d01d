//! What only a proxy sees of what its configuration names, as it tells the controller: the whole list in one
//! request whenever it changes. A controller keeps the last list of each stream, and believes a proxy nothing of
//! resources that its Gateway does not have.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::discovery::{self, DeltaDiscoveryRequest};
use crate::limits::{SYMPTOM_AGE, SYMPTOM_TEXT, SYMPTOMS};
use crate::model::{Kind, ResourceKey};

/// Something that a proxy sees of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symptom {
    /// Kind and key of the resource.
    pub key: ResourceKey,
    /// What is seen.
    pub fact: Fact,
    /// Since when.
    pub since: Instant,
    /// Details for people, without credentials: part of the status of the user's object.
    pub text: String,
}

/// What a proxy can see of a resource. The most important one comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fact {
    /// Keys of a policy could never be fetched, so its tokens cannot be verified. Since the proxy needs them.
    KeysNotFetched,
    /// Keys of a policy cannot be fetched again; the known ones stay in use for a day. Since the last fetch that
    /// succeeded.
    KeysNotRefreshed,
    /// Health checks of a policy's target are ignored, because too many endpoints fail. Since they are.
    HealthChecksIgnored,
    /// Endpoints of a policy's target are probed less often than configured, because all probes of the proxy have a
    /// limit. Since they are.
    HealthChecksStretched,
    /// Endpoints of a policy's target are not preferred by zone, because the proxy does not know its own. Since it
    /// started.
    ZoneUnknown,
}

impl Fact {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::KeysNotFetched,
        Self::KeysNotRefreshed,
        Self::HealthChecksIgnored,
        Self::HealthChecksStretched,
        Self::ZoneUnknown,
    ];

    /// Its name on the wire and in reports of replicas.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::KeysNotFetched => "KeysNotFetched",
            Self::KeysNotRefreshed => "KeysNotRefreshed",
            Self::HealthChecksIgnored => "HealthChecksIgnored",
            Self::HealthChecksStretched => "HealthChecksStretched",
            Self::ZoneUnknown => "ZoneUnknown",
        }
    }

    /// The fact with this name; `None` for those of later releases.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fact| fact.name() == name)
    }

    /// The kind of the resources that have it.
    fn kind(self) -> Kind {
        match self {
            Self::KeysNotFetched
            | Self::KeysNotRefreshed
            | Self::HealthChecksIgnored
            | Self::HealthChecksStretched
            | Self::ZoneUnknown => Kind::Policy,
        }
    }
}

impl Symptom {
    /// What a controller states among its features (`Report::HEADER`) that takes symptoms.
    pub const FEATURE: &str = "symptoms";

    /// Whether a controller with these features takes symptoms.
    #[must_use]
    pub fn are_taken(features: &str) -> bool {
        features.split(',').any(|it| it.trim() == Self::FEATURE)
    }

    /// The request that tells these symptoms, the oldest ones if there are too many.
    #[must_use]
    pub fn request(symptoms: &[Self], now: Instant) -> DeltaDiscoveryRequest {
        let mut oldest: Vec<&Self> = symptoms.iter().collect();
        oldest.sort_by_key(|symptom| symptom.since);
        let told = oldest
            .into_iter()
            .take(SYMPTOMS)
            .map(|it| discovery::Symptom {
                type_url: it.key.kind.type_url().to_owned(),
                name: it.key.key.to_string(),
                fact: it.fact.name().to_owned(),
                seconds: now.saturating_duration_since(it.since).as_secs(),
                text: shortened(&it.text).to_owned(),
            });
        DeltaDiscoveryRequest {
            symptoms: Some(discovery::Symptoms {
                symptoms: told.collect(),
            }),
            ..DeltaDiscoveryRequest::default()
        }
    }
}

/// What the proxy of a stream told last.
#[derive(Debug, Default)]
pub(super) struct ToldSymptoms(BTreeMap<(ResourceKey, Fact), (Instant, String)>);

impl ToldSymptoms {
    /// Takes a list that arrived now. What cannot be true of a resource, and what is beyond the bounds, is ignored.
    pub(super) fn take(&mut self, told: discovery::Symptoms, now: Instant) {
        self.0.clear();
        for symptom in told.symptoms.into_iter().take(SYMPTOMS) {
            let kind = Kind::from_type_url(&symptom.type_url);
            let fact = Fact::from_name(&symptom.fact).filter(|fact| kind == Some(fact.kind()));
            let Some(fact) = fact.filter(|_| symptom.name.len() <= NAME_BYTES) else {
                continue;
            };
            let key = ResourceKey {
                kind: fact.kind(),
                key: symptom.name.into(),
            };
            let age = Duration::from_secs(symptom.seconds).min(SYMPTOM_AGE);
            let since = now.checked_sub(age).unwrap_or(now);
            let text = shortened(&symptom.text).to_owned();
            self.0.insert((key, fact), (since, text));
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Symptom> {
        self.0.iter().map(|((key, fact), (since, text))| Symptom {
            key: key.clone(),
            fact: *fact,
            since: *since,
            text: text.clone(),
        })
    }
}

fn shortened(text: &str) -> &str {
    let end = text.floor_char_boundary(SYMPTOM_TEXT);
    text.get(..end).unwrap_or(text)
}

/// Longest name of a resource that is looked up: kind, namespace, name and section of an object take less.
const NAME_BYTES: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    fn symptom(name: &str, since: Instant) -> Symptom {
        Symptom {
            key: ResourceKey {
                kind: Kind::Policy,
                key: name.into(),
            },
            fact: Fact::KeysNotFetched,
            since,
            text: "status 500".to_owned(),
        }
    }

    fn told(request: DeltaDiscoveryRequest, now: Instant) -> Vec<Symptom> {
        let mut told = ToldSymptoms::default();
        told.take(request.symptoms.expect("they are told"), now);
        told.iter().collect()
    }

    #[test]
    fn symptoms_arrive_with_their_age_whatever_the_clocks_say() {
        let (now, arrived) = (Instant::now(), Instant::now() + Duration::from_hours(5));
        let since = now.checked_sub(Duration::from_secs(90)).expect("a time");
        let request = Symptom::request(&[symptom("TrafficPolicy/a/b", since)], now);
        let expected = Symptom {
            since: arrived
                .checked_sub(Duration::from_secs(90))
                .expect("a time"),
            ..symptom("TrafficPolicy/a/b", now)
        };
        assert_eq!(told(request, arrived), [expected]);
        assert_eq!(told(Symptom::request(&[], now), now), []);
    }

    #[test]
    fn the_oldest_are_told_of_too_many_and_long_texts_are_cut() {
        let now = Instant::now();
        let count = u64::try_from(SYMPTOMS).expect("small") + 1;
        let all = (0..count).map(|age| Symptom {
            text: "é".repeat(SYMPTOM_TEXT),
            ..symptom(
                &format!("TrafficPolicy/a/p{age}"),
                now.checked_sub(Duration::from_secs(age)).expect("a time"),
            )
        });
        let all: Vec<Symptom> = all.collect();
        let told = told(Symptom::request(&all, now), now);
        assert_eq!(told.len(), SYMPTOMS);
        assert!(told.iter().all(|it| &*it.key.key != "TrafficPolicy/a/p0"));
        assert!(told.iter().all(|it| it.text.len() == SYMPTOM_TEXT));
    }

    #[test]
    fn what_a_hostile_proxy_invents_is_ignored() {
        let now = Instant::now();
        let good = |name: String| discovery::Symptom {
            type_url: Kind::Policy.type_url().to_owned(),
            name,
            fact: Fact::KeysNotFetched.name().to_owned(),
            seconds: u64::MAX,
            text: "x".repeat(SYMPTOM_TEXT * 2),
        };
        let of_route = discovery::Symptom {
            type_url: Kind::Route.type_url().to_owned(),
            ..good("HTTPRoute/a/b/0".to_owned())
        };
        let of_later_release = discovery::Symptom {
            fact: "CollectorUnreachable".to_owned(),
            ..good("a".to_owned())
        };
        let too_long = good("x".repeat(NAME_BYTES + 1));
        let many = (0..SYMPTOMS * 2).map(|number| good(format!("TrafficPolicy/a/{number}")));
        let mut all = vec![of_route, of_later_release, too_long];
        all.extend(many);
        let mut kept = ToldSymptoms::default();
        kept.take(discovery::Symptoms { symptoms: all }, now);
        assert_eq!(kept.0.len(), SYMPTOMS - 3);
        for symptom in kept.iter() {
            assert_eq!(symptom.text.len(), SYMPTOM_TEXT);
            assert!(now.saturating_duration_since(symptom.since) <= SYMPTOM_AGE);
        }
    }
}
