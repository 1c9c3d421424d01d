//! The acknowledgements known to one replica, and their combination. Pure.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use xds::delta::{Fact, Version};
use xds::model::{Kind, ObjectName, ResourceKey};
use xds_grpc::server::{AckSummary, SeenSymptom};

use crate::outputs::Acknowledgements;

/// A replica's acknowledgements, by the name of the Gateway (`<namespace>/<name>`), as reported to
/// the others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Report(pub(super) BTreeMap<String, GatewayReport>);

/// A replica's acknowledgements for one Gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GatewayReport {
    connected: usize,
    /// By the key of a listener: the applied version, and the number of proxies.
    listeners: BTreeMap<String, (String, usize)>,
    /// Rejected resources, with reasons.
    refused: Vec<RejectedResource>,
    /// The version of the session keys, and the number of proxies that have applied it; absent in a report of an
    /// earlier release, so that its proxies count as those without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session_keys: Option<(String, usize)>,
    /// What proxies see; absent in a report of an earlier release.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    symptoms: Vec<ReportedSymptom>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ReportedSymptom {
    #[serde(rename = "type")]
    type_url: String,
    key: String,
    fact: String,
    proxies: usize,
    /// In Unix time.
    since: u64,
    text: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct RejectedResource {
    #[serde(rename = "type")]
    type_url: String,
    key: String,
    /// The rejected version; empty in a report of an earlier release.
    #[serde(default)]
    version: String,
    why: String,
}

impl Report {
    /// The report in parts of at most so many bytes as JSON; one part if it is empty. What is known of a
    /// Gateway may be in several: readers add up what they find.
    pub(super) fn parts(&self, bytes: usize) -> Vec<Self> {
        let mut parts = Parts {
            done: Vec::new(),
            last: Self::default(),
            room: bytes,
            bytes,
        };
        for (gateway, known) in &self.0 {
            let head = GatewayReport {
                connected: known.connected,
                session_keys: known.session_keys.clone(),
                ..GatewayReport::default()
            };
            parts.put(gateway, size(&head), |part| {
                part.connected = known.connected;
                part.session_keys.clone_from(&known.session_keys);
            });
            for (key, value) in &known.listeners {
                parts.put(gateway, size(&(key, value)), |part| {
                    part.listeners.insert(key.clone(), value.clone());
                });
            }
            for refusal in &known.refused {
                parts.put(gateway, size(refusal), |part| {
                    part.refused.push(refusal.clone());
                });
            }
            for symptom in &known.symptoms {
                parts.put(gateway, size(symptom), |part| {
                    part.symptoms.push(symptom.clone());
                });
            }
        }
        parts.done.push(parts.last);
        parts.done
    }
}

/// A report that is being divided.
struct Parts {
    done: Vec<Report>,
    last: Report,
    /// Bytes left in the last part.
    room: usize,
    /// Bytes of a part.
    bytes: usize,
}

impl Parts {
    /// Puts something of this size that is known of a Gateway into the last part, or begins another.
    fn put(&mut self, gateway: &str, size: usize, put: impl FnOnce(&mut GatewayReport)) {
        // With the name of the Gateway and its other fields, even if they are there already.
        let size = size + gateway.len() + GATEWAY_BYTES;
        if size > self.room && !self.last.0.is_empty() {
            self.done.push(std::mem::take(&mut self.last));
            self.room = self.bytes;
        }
        self.room = self.room.saturating_sub(size);
        put(self.last.0.entry(gateway.to_owned()).or_default());
    }
}

fn size(value: &impl Serialize) -> usize {
    serde_json::to_string(value).map_or(0, |text| text.len())
}

impl GatewayReport {
    /// From the server's state; `None` without connected proxies.
    pub(super) fn of(ack_summary: &AckSummary) -> Option<Self> {
        let listeners = ack_summary.accepted.iter().filter_map(|(key, count)| {
            let version = ack_summary.versions.get(key)?.to_string();
            Some((key.key.to_string(), (version, *count)))
        });
        let refused = ack_summary.refused.iter().take(MAX_REFUSED);
        let refused = refused.map(|(key, (version, why))| RejectedResource {
            type_url: key.kind.type_url().to_owned(),
            key: key.key.to_string(),
            version: version.to_string(),
            why: why
                .get(..why.floor_char_boundary(LONGEST_REASON))
                .unwrap_or_default()
                .to_owned(),
        });
        let symptoms = ack_summary.symptoms.iter().take(MAX_SYMPTOMS);
        (ack_summary.connected > 0).then(|| Self {
            connected: ack_summary.connected,
            listeners: listeners.collect(),
            refused: refused.collect(),
            session_keys: ack_summary
                .session_keys
                .map(|(version, count)| (version.to_string(), count)),
            symptoms: symptoms.map(ReportedSymptom::of).collect(),
        })
    }
}

impl ReportedSymptom {
    fn of(((key, fact), seen): (&(ResourceKey, Fact), &SeenSymptom)) -> Self {
        let since = seen.since.duration_since(UNIX_EPOCH);
        Self {
            type_url: key.kind.type_url().to_owned(),
            key: key.key.to_string(),
            fact: fact.name().to_owned(),
            proxies: seen.proxies,
            since: since.unwrap_or_default().as_secs(),
            text: seen.text.clone(),
        }
    }

    /// Adds it to those of other replicas, if it is of a resource that the Gateway has, and a later release did not
    /// invent it.
    fn add_to(
        &self,
        all: &mut BTreeMap<(ResourceKey, Fact), SeenSymptom>,
        current: impl Fn(&ResourceKey) -> Option<Version>,
    ) {
        let (kind, fact) = (
            Kind::from_type_url(&self.type_url),
            Fact::from_name(&self.fact),
        );
        let (Some(kind), Some(fact)) = (kind, fact) else {
            return;
        };
        let key = ResourceKey {
            kind,
            key: self.key.as_str().into(),
        };
        let since = UNIX_EPOCH.checked_add(Duration::from_secs(self.since));
        let Some(since) = since.filter(|_| current(&key).is_some()) else {
            return;
        };
        let is_known = all.contains_key(&(key.clone(), fact));
        if !is_known && all.len() >= MAX_SYMPTOMS {
            return;
        }
        let seen = all.entry((key, fact)).or_insert_with(|| SeenSymptom {
            proxies: 0,
            since,
            text: self.text.clone(),
        });
        seen.proxies = seen.proxies.saturating_add(self.proxies);
        if since < seen.since {
            (seen.since, seen.text) = (since, self.text.clone());
        }
    }
}

/// Combines the acknowledgements of all replicas for a Gateway. Versions are the same on every
/// replica: what concerns those that are not current here is left out until they are. `current` is the
/// version of a resource of any kind.
pub(super) fn merged<'a>(
    own: AckSummary,
    others: impl Iterator<Item = &'a GatewayReport>,
    current: impl Fn(&ResourceKey) -> Option<Version>,
) -> Option<Acknowledgements> {
    let AckSummary {
        connected,
        versions,
        accepted,
        refused,
        symptoms,
        session_keys,
    } = own;
    let mut all = Acknowledgements {
        connected,
        listeners: accepted,
        refused: refused
            .into_iter()
            .map(|(key, (_, why))| (key, why))
            .collect(),
        session_keys,
        symptoms,
    };
    for other in others {
        all.connected += other.connected;
        if let (Some((own, count)), Some((version, others))) =
            (&mut all.session_keys, &other.session_keys)
            && own.to_string() == *version
        {
            *count += others;
        }
        for (key, (version, count)) in &other.listeners {
            let key = ResourceKey {
                kind: Kind::Listener,
                key: key.as_str().into(),
            };
            let current = versions.get(&key).map(Version::to_string);
            if current.as_ref() == Some(version) {
                *all.listeners.entry(key).or_default() += count;
            }
        }
        for refusal in &other.refused {
            let Some(kind) = Kind::from_type_url(&refusal.type_url) else {
                continue;
            };
            let key = ResourceKey {
                kind,
                key: refusal.key.as_str().into(),
            };
            if current(&key).is_some_and(|it| it.to_string() == refusal.version) {
                let why = || refusal.why.clone();
                all.refused.entry(key).or_insert_with(why);
            }
        }
        for symptom in &other.symptoms {
            symptom.add_to(&mut all.symptoms, &current);
        }
    }
    (all.connected > 0).then_some(all)
}

/// A Gateway by its name in a report.
pub(super) fn gateway(name: &str) -> Option<ObjectName> {
    let (namespace, name) = name.split_once('/')?;
    ObjectName::parse(namespace, name).ok()
}

/// Bytes of the fields of a Gateway in a report, without its name and without content: at most 64.
const GATEWAY_BYTES: usize = 64;
/// Most rejections of one Gateway in a report: all that fit into events and statuses.
const MAX_REFUSED: usize = 100;
/// Most symptoms of one Gateway in a report: those of several proxies that each tell as many as they may.
const MAX_SYMPTOMS: usize = 256;
/// Most bytes of a reason.
const LONGEST_REASON: usize = 1 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ResourceKey {
        ResourceKey {
            kind: Kind::Listener,
            key: name.into(),
        }
    }

    fn ack_summary(version: &[u8], accepted: usize) -> AckSummary {
        AckSummary {
            connected: 2,
            versions: BTreeMap::from([(key("a"), Version::of(version))]),
            accepted: BTreeMap::from([(key("a"), accepted)]),
            refused: BTreeMap::from([(
                key("b"),
                (Version::of(version), "é".repeat(LONGEST_REASON)),
            )]),
            symptoms: BTreeMap::from([((key("a"), Fact::KeysNotFetched), seen(2, 1_000))]),
            session_keys: None,
        }
    }

    fn seen(proxies: usize, since: u64) -> SeenSymptom {
        SeenSymptom {
            proxies,
            since: UNIX_EPOCH + Duration::from_secs(since),
            text: format!("since {since}"),
        }
    }

    fn always(version: &[u8]) -> impl Fn(&ResourceKey) -> Option<Version> {
        let version = Version::of(version);
        move |_| Some(version)
    }

    #[test]
    fn reports_of_all_replicas_are_merged_by_version() {
        let other = GatewayReport::of(&ack_summary(b"new", 2)).expect("they are connected");
        let known = merged(ack_summary(b"new", 1), [&other].into_iter(), always(b"new"))
            .expect("they are connected");
        assert_eq!((known.connected, known.listeners[&key("a")]), (4, 3));
        assert!(known.refused.contains_key(&key("b")));
        // This replica has a later version, or the other one has.
        let known = merged(
            ack_summary(b"newer", 1),
            [&other].into_iter(),
            always(b"newer"),
        );
        assert_eq!(known.expect("they are connected").listeners[&key("a")], 1);
    }

    /// Otherwise a corrected object would be called rejected until the other replica reports again.
    #[test]
    fn a_refusal_counts_for_the_version_that_was_rejected() {
        let other = GatewayReport::of(&ack_summary(b"new", 2)).expect("they are connected");
        let refused = |version| {
            let own = AckSummary::default();
            let known = merged(own, [&other].into_iter(), |_| version);
            known.expect("they are connected").refused.len()
        };
        assert_eq!(refused(Some(Version::of(b"new"))), 1);
        assert_eq!(refused(Some(Version::of(b"newer"))), 0);
        assert_eq!(refused(None), 0);
    }

    #[test]
    fn symptoms_of_all_replicas_are_added_up_if_the_gateway_has_the_resource() {
        let known = (key("a"), Fact::KeysNotFetched);
        let mut own = ack_summary(b"new", 1);
        own.symptoms.insert(known.clone(), seen(1, 2_000));
        let mut other = GatewayReport::of(&ack_summary(b"new", 2)).expect("they are connected");
        other.symptoms.push(ReportedSymptom {
            fact: "InventedLater".to_owned(),
            ..other.symptoms[0].clone()
        });
        let all = merged(own.clone(), [&other].into_iter(), always(b"new"));
        let all = all.expect("they are connected").symptoms;
        assert_eq!(all, BTreeMap::from([(known.clone(), seen(3, 1_000))]));
        let all = merged(own, [&other].into_iter(), |_| None);
        assert_eq!(
            all.expect("they are connected").symptoms[&known],
            seen(1, 2_000)
        );
    }

    #[test]
    fn proxies_of_all_replicas_with_the_session_keys_of_this_one_are_added_up() {
        let with_keys = |version: &[u8], count| AckSummary {
            session_keys: Some((Version::of(version), count)),
            ..ack_summary(b"new", 1)
        };
        let counted = |other: &AckSummary| {
            let other = GatewayReport::of(other).expect("they are connected");
            let known = merged(with_keys(b"keys", 1), [&other].into_iter(), |_| None);
            known.expect("they are connected").session_keys
        };
        let keys = Version::of(b"keys");
        assert_eq!(counted(&with_keys(b"keys", 2)), Some((keys, 3)));
        // A replica that has not heard of the change, and one of the release before.
        assert_eq!(counted(&with_keys(b"older", 2)), Some((keys, 1)));
        assert_eq!(counted(&ack_summary(b"new", 2)), Some((keys, 1)));
    }

    #[test]
    fn a_report_of_the_release_before_tells_no_symptoms() {
        let text = r#"{"a/b": {"connected": 1, "listeners": {}, "refused": []}}"#;
        let report: Report = serde_json::from_str(text).expect("JSON");
        assert!(report.0["a/b"].symptoms.is_empty());
    }

    #[test]
    fn without_connected_proxies_nothing_is_reported() {
        assert_eq!(GatewayReport::of(&AckSummary::default()), None);
        let nothing = AckSummary::default;
        assert_eq!(merged(nothing(), [].into_iter(), |_| None), None);
        let other = GatewayReport::of(&ack_summary(b"new", 2)).expect("they are connected");
        assert!(merged(nothing(), [&other].into_iter(), |_| None).is_some());
    }

    #[test]
    fn a_report_round_trips() {
        let of_gateway = GatewayReport::of(&ack_summary(b"new", 2)).expect("they are connected");
        let report = Report(BTreeMap::from([("infra/edge".to_owned(), of_gateway)]));
        let text = serde_json::to_string(&report).expect("JSON");
        assert_eq!(serde_json::from_str::<Report>(&text).expect("JSON"), report);
        assert_eq!(
            gateway("infra/edge"),
            Some(ObjectName::new("infra", "edge"))
        );
        assert_eq!(gateway("edge"), None);
    }

    #[test]
    fn a_report_of_several_megabytes_is_divided_and_nothing_is_lost() {
        let listener = |number| {
            (
                format!("Gateway/infra/edge/{number:0>60}"),
                ("v".repeat(11), 1),
            )
        };
        let gateway = |listeners: usize| GatewayReport {
            connected: 2,
            listeners: (0..listeners).map(listener).collect(),
            refused: Vec::new(),
            session_keys: Some(("v".repeat(11), 2)),
            symptoms: Vec::new(),
        };
        let named = [("a/large", 60_000), ("b/none", 0), ("c/small", 3)];
        let report = Report(
            named
                .map(|(name, count)| (name.to_owned(), gateway(count)))
                .into(),
        );
        let parts = report.parts(1_000_000);
        assert!(parts.len() > 5, "{}", parts.len());
        let mut found: BTreeMap<String, GatewayReport> = BTreeMap::new();
        for part in &parts {
            assert!(size(part) <= 1_000_000, "{}", size(part));
            for (name, known) in &part.0 {
                let all = found.entry(name.clone()).or_default();
                all.connected += known.connected;
                all.session_keys = all.session_keys.take().or(known.session_keys.clone());
                all.listeners.extend(known.listeners.clone());
            }
        }
        assert_eq!(found, report.0);
        assert_eq!(Report::default().parts(10), [Report::default()]);
    }
}
