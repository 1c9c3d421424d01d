//! What only proxies see of the objects that users wrote, for their statuses and Events: which of them have which
//! symptom, and since when. Pure: time is passed in.
//!
//! A proxy that reconnects, and one that moves to another replica, is unknown for a moment, so a symptom ends only
//! when nobody has told it for [`HOLD`]. A new leader has heard nobody yet: until [`SETTLE`], what the status in the
//! cluster says stays.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use serde_json::Value;
use tokio::time::Instant;
use translate::ObjectKind;
use translate::ObjectRef;
use translate::status::{
    AncestorReference, Blame, Condition, ConditionStatus, ConditionType, PolicyAncestorStatus,
    Reason, Status,
};
use xds::delta::Fact;
use xds::model::{ObjectName, ResourceKey};

use super::events::object_of;
use super::warnings::{Tone, Warning};
use crate::outputs::{Acknowledgements, SeenSymptom};

/// The symptoms of all objects.
#[derive(Debug, Default)]
pub(super) struct ShownSymptoms {
    by_object: BTreeMap<ObjectRef, ObjectSymptoms>,
    /// Those that end.
    due: BTreeSet<(Instant, ObjectRef, Place)>,
    /// Those that are told otherwise than they are shown.
    later: BTreeSet<(Instant, ObjectRef, Place)>,
    /// When this leader has heard of all proxies; before that, the objects whose status in the cluster has the
    /// condition.
    unsettled: Option<(Instant, BTreeSet<ObjectRef>)>,
}

/// The symptoms of one object.
pub(super) type ObjectSymptoms = BTreeMap<Place, Shown>;

/// What is seen, by the proxies of which Gateway, and of which of its resources.
type Place = (Fact, ObjectName, ResourceKey);

/// A symptom that a status shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shown {
    seen: SeenSymptom,
    /// Connected proxies of the Gateway.
    connected: usize,
    /// When it ends, since no proxy tells it any more.
    ends: Option<Instant>,
    /// Since when it is shown like this.
    at: Instant,
    /// What proxies tell meanwhile, and how many are connected.
    told: Option<(SeenSymptom, usize)>,
}

impl Shown {
    fn change(&mut self, (mut seen, connected): (SeenSymptom, usize), now: Instant) {
        if is_close(self.seen.since, seen.since) {
            // Told again on another stream, where ages are rounded.
            seen.since = self.seen.since;
        }
        (self.seen, self.connected) = (seen, connected);
        (self.at, self.told) = (now, None);
    }

    /// Whether a status would say the same but for how many of its proxies see it, and since when.
    fn says(&self, seen: &SeenSymptom, connected: usize) -> bool {
        let is_all = |seen: &SeenSymptom, connected| seen.proxies >= connected;
        is_all(&self.seen, self.connected) == is_all(seen, connected) && self.seen.text == seen.text
    }
}

impl ShownSymptoms {
    /// This replica becomes the leader; the statuses of these objects have the condition.
    pub(super) fn begin(&mut self, shown: BTreeSet<ObjectRef>, now: Instant) {
        *self = Self {
            unsettled: Some((now + SETTLE, shown)),
            ..Self::default()
        };
    }

    /// Takes what the proxies of a Gateway saw before and see now. Returns the objects whose status may change.
    pub(super) fn observe(
        &mut self,
        gateway: &ObjectName,
        (before, after): (&Acknowledgements, &Acknowledgements),
        now: Instant,
    ) -> BTreeSet<ObjectRef> {
        let mut changed = BTreeSet::new();
        let told = |it: &&(ResourceKey, Fact)| after.symptoms.contains_key(it);
        for (resource, fact) in before.symptoms.keys().filter(|it| !told(it)) {
            let place = (*fact, gateway.clone(), resource.clone());
            if let Some(object) = object_of(resource)
                && let Some(shown) = self.shown(&object, &place)
                && shown.ends.is_none()
            {
                shown.ends = Some(now + HOLD);
                self.due.insert((now + HOLD, object, place));
            }
        }
        for ((resource, fact), seen) in &after.symptoms {
            let place = (*fact, gateway.clone(), resource.clone());
            if let Some(object) = object_of(resource)
                && self.show(&object, place, (seen, after.connected), now)
            {
                changed.insert(object);
            }
        }
        changed
    }

    fn shown(&mut self, object: &ObjectRef, place: &Place) -> Option<&mut Shown> {
        self.by_object.get_mut(object)?.get_mut(place)
    }

    /// Shows a symptom that proxies tell. Returns whether anything has changed: of one that is shown, only if the
    /// text does, or whether all proxies see it, and not soon after the last time.
    fn show(
        &mut self,
        object: &ObjectRef,
        place: Place,
        (seen, connected): (&SeenSymptom, usize),
        now: Instant,
    ) -> bool {
        let symptoms = self.by_object.entry(object.clone()).or_default();
        let Some(shown) = symptoms.get_mut(&place) else {
            let shown = Shown {
                seen: seen.clone(),
                connected,
                ends: None,
                at: now,
                told: None,
            };
            symptoms.insert(place, shown);
            return true;
        };
        if let Some(ends) = shown.ends.take() {
            self.due.remove(&(ends, object.clone(), place.clone()));
        }
        let next = shown.at + SPACING;
        if shown.says(seen, connected) {
            shown.told = None;
            return false;
        }
        if next > now {
            shown.told = Some((seen.clone(), connected));
            self.later.insert((next, object.clone(), place));
            return false;
        }
        shown.change((seen.clone(), connected), now);
        true
    }

    /// When [`ShownSymptoms::take_due`] has something next.
    pub(super) fn next_change(&self) -> Option<Instant> {
        let ends = self.due.first().map(|(at, ..)| *at);
        let later = self.later.first().map(|(at, ..)| *at);
        let settles = self.unsettled.as_ref().map(|(at, _)| *at);
        ends.into_iter().chain(later).chain(settles).min()
    }

    /// Forgets what ended by now. Returns the objects whose status may change.
    pub(super) fn take_due(&mut self, now: Instant) -> BTreeSet<ObjectRef> {
        let mut changed = BTreeSet::new();
        while self.due.first().is_some_and(|(at, ..)| *at <= now)
            && let Some((_, object, place)) = self.due.pop_first()
        {
            if let Some(symptoms) = self.by_object.get_mut(&object) {
                symptoms.remove(&place);
                if symptoms.is_empty() {
                    self.by_object.remove(&object);
                }
            }
            changed.insert(object);
        }
        while self.later.first().is_some_and(|(at, ..)| *at <= now)
            && let Some((_, object, place)) = self.later.pop_first()
        {
            let shown = self.shown(&object, &place);
            if let Some(shown) = shown
                && let Some(told) = shown.told.take()
            {
                shown.change(told, now);
                changed.insert(object);
            }
        }
        if let Some((_, objects)) = self.unsettled.take_if(|(at, _)| *at <= now) {
            changed.extend(objects);
        }
        changed
    }

    /// The symptoms of an object.
    pub(super) fn of(&self, object: &ObjectRef) -> Option<&ObjectSymptoms> {
        self.by_object.get(object)
    }

    /// Whether the condition in the status of an object stays because its proxies may not have been heard yet.
    pub(super) fn is_carried(&self, object: &ObjectRef) -> bool {
        let unsettled = self.unsettled.as_ref();
        unsettled.is_some_and(|(_, objects)| objects.contains(object))
    }

    /// Number of objects with a symptom.
    pub(super) fn affected(&self) -> usize {
        self.by_object.len()
    }

    /// The Event about an object, if it has symptoms.
    pub(super) fn warning(&self, object: &ObjectRef) -> Option<Warning> {
        let symptoms = self.of(object)?;
        let (((fact, ..), _), texts) = (symptoms.first_key_value()?, explained(symptoms.iter()));
        Some(Warning {
            tone: Tone::Warning,
            reason: reason(*fact).to_string(),
            text: texts,
        })
    }
}

/// What a status in the cluster says that may still be true, and what is known of an object.
#[derive(Debug, Clone, Copy, Default)]
pub struct SymptomInputs<'a> {
    pub(super) known: Option<&'a ObjectSymptoms>,
    pub(super) is_carried: bool,
}

/// Adds the condition to the entries of a policy's status: to that of a Gateway what its proxies see, and to
/// others, which several Gateways may serve, all.
pub(super) fn report(
    status: &mut Status,
    inputs: SymptomInputs<'_>,
    gateways_of_sets: &BTreeMap<ObjectName, ObjectName>,
    present: &Value,
) {
    let Status::Policy(status) = status else {
        return;
    };
    for entry in &mut status.ancestors {
        let known = inputs.known.into_iter().flatten();
        let known =
            known.filter(|(place, _)| concerns(&entry.ancestor_ref, place, gateways_of_sets));
        let mut known = known.peekable();
        let said = match known.peek() {
            Some(((fact, ..), _)) => Some((reason(*fact), explained(known))),
            None if inputs.is_carried => carried(present, entry),
            None => None,
        };
        let generation = entry.conditions.first().map(|it| it.observed_generation);
        entry
            .conditions
            .extend(said.map(|(reason, message)| Condition {
                kind: ConditionType::DependencyUnavailable,
                status: ConditionStatus::True,
                reason,
                message: message.into(),
                observed_generation: generation.unwrap_or_default(),
                field: None,
                blame: Blame::Own,
            }));
    }
}

/// Whether what is seen there is about the target: proxies of that Gateway serve it, and endpoints are its own.
fn concerns(
    target: &AncestorReference,
    (fact, gateway, resource): &Place,
    gateways_of_sets: &BTreeMap<ObjectName, ObjectName>,
) -> bool {
    let name = ObjectName::new(&target.namespace, &target.name);
    if is_of_endpoints(*fact) {
        let target = format!("/{}/{name}", target.kind);
        return resource.key.ends_with(&target);
    }
    match ObjectKind::named(&target.kind) {
        Some(ObjectKind::Gateway) => name == *gateway,
        Some(ObjectKind::ListenerSet) => gateways_of_sets.get(&name) == Some(gateway),
        _ => true,
    }
}

fn is_of_endpoints(fact: Fact) -> bool {
    match fact {
        Fact::HealthChecksIgnored | Fact::HealthChecksStretched | Fact::ZoneUnknown => true,
        Fact::KeysNotFetched | Fact::KeysNotRefreshed => false,
    }
}

/// What the entry in the cluster says.
fn carried(present: &Value, entry: &PolicyAncestorStatus) -> Option<(Reason, String)> {
    let reference = serde_json::to_value(&entry.ancestor_ref).ok()?;
    let author = Value::from(entry.controller_name.as_str());
    let mut entries = present.get("ancestors")?.as_array()?.iter();
    let same = entries.find(|it| {
        it.get("ancestorRef") == Some(&reference) && it.get("controllerName") == Some(&author)
    })?;
    let mut conditions = same.get("conditions")?.as_array()?.iter();
    let kind = Value::from(ConditionType::DependencyUnavailable.to_string());
    let condition = conditions.find(|it| it.get("type") == Some(&kind))?;
    let text = |field| condition.get(field).and_then(Value::as_str);
    let fact = Fact::ALL.into_iter();
    let fact = { fact }.find(|it| Some(&*reason(*it).to_string()) == text("reason"))?;
    Some((reason(fact), text("message")?.to_owned()))
}

fn explained<'a>(symptoms: impl Iterator<Item = (&'a Place, &'a Shown)>) -> String {
    let texts = symptoms.map(|((fact, gateway, _), shown)| {
        let Shown {
            seen, connected, ..
        } = shown;
        // A proxy that has gone meanwhile may have seen it.
        let (proxies, of) = (seen.proxies, seen.proxies.max(*connected));
        let since = Timestamp::try_from(seen.since).unwrap_or(Timestamp::UNIX_EPOCH);
        let since = since.strftime("%Y-%m-%dT%H:%M:%SZ");
        let text = &seen.text;
        let what = match fact {
            Fact::KeysNotFetched => format!(
                "cannot fetch {text}; tokens cannot be verified since {since}, so requests with a token get 503: \
                 check that the address answers GET with a JWKS"
            ),
            Fact::KeysNotRefreshed => format!(
                "cannot fetch {text}; the keys of {since} stay in use for a day after that, then requests with a \
                 token get 503: check that the address answers GET with a JWKS"
            ),
            Fact::HealthChecksIgnored => format!(
                "ignore health checks since {since}: {text}; gwctl config backends has the cause for each endpoint"
            ),
            Fact::HealthChecksStretched => format!(
                "probe less often since {since}: {text}; set longer intervals, or check fewer Services"
            ),
            Fact::ZoneUnknown => format!("prefer no endpoints by zone since {since}: {text}"),
        };
        format!("{proxies} of {of} proxies of Gateway {gateway} {what}")
    });
    let texts: Vec<String> = texts.collect();
    texts.join("; ")
}

fn reason(fact: Fact) -> Reason {
    match fact {
        Fact::KeysNotFetched => Reason::KeysNotFetched,
        Fact::KeysNotRefreshed => Reason::KeysNotRefreshed,
        Fact::HealthChecksIgnored => Reason::HealthChecksIgnored,
        Fact::HealthChecksStretched => Reason::HealthChecksStretched,
        Fact::ZoneUnknown => Reason::ZoneUnknown,
    }
}

/// Whether two times may be the same, rounded on different streams.
fn is_close(one: SystemTime, other: SystemTime) -> bool {
    let earlier = one.min(other);
    let apart = one.max(other).duration_since(earlier);
    apart.unwrap_or_default() < ROUNDING
}

/// Time for which a symptom is shown that no proxy tells any more: 30 s, in which one that reconnects, or a new
/// leader's followers, tell it again.
const HOLD: Duration = Duration::from_secs(30);
/// Time for which what a status says of a symptom stays: 30 s, so that one that comes and goes at many proxies is not
/// written all the time.
const SPACING: Duration = Duration::from_secs(30);
/// Time after which a new leader has heard of all proxies: 60 s.
const SETTLE: Duration = Duration::from_mins(1);
/// Difference of times that are taken for the same: 10 s.
const ROUNDING: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
