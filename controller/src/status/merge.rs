//! The changes needed to bring an object's status to the desired one: pure, no I/O.
//!
//! A status has several authors. The result contains only our own fields; in lists that the API
//! server replaces as a whole, the entries and conditions of others are kept unchanged.

use std::collections::BTreeMap;
use translate::ObjectKind;

use jiff::Timestamp;
use serde_json::{Map, Value};

/// The status that an object should have; fields of other owners are kept.
#[derive(Debug, Clone, PartialEq)]
pub enum DesiredStatus {
    /// The status is ours: these fields, with `conditions` merged by type.
    Whole(Map<String, Value>),
    /// The status is a list of entries, one for each pair of author and referenced object.
    Entries(Entries, Vec<Value>),
}

/// A list in a status that several controllers write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entries {
    /// `parents` of routes and InferencePools.
    Parents,
    /// `ancestors` of policies.
    Ancestors,
    /// `ancestors` of XBackends. Unlike a policy, an XBackend serves Gateways that are not listed.
    BackendAncestors,
}

impl Entries {
    fn field(self) -> &'static str {
        match self {
            Self::Parents => "parents",
            Self::Ancestors | Self::BackendAncestors => "ancestors",
        }
    }

    fn reference_of(self, entry: &Value) -> Reference<'_> {
        Reference::of(entry.get(match self {
            Self::Parents => "parentRef",
            Self::Ancestors | Self::BackendAncestors => "ancestorRef",
        }))
    }

    /// The `maxItems` of Gateway API.
    fn capacity(self) -> usize {
        match self {
            Self::Parents | Self::BackendAncestors => 32,
            Self::Ancestors => 16,
        }
    }
}

/// The author and time of a write.
#[derive(Debug, Clone, Copy)]
pub struct Author<'a> {
    /// The `controllerName` that marks its entries.
    pub controller_name: &'a str,
    /// The generation of the object in the cluster.
    pub generation: i64,
    /// The time of conditions whose `status` changes.
    pub now: Timestamp,
    /// Who else writes entries with its name.
    pub name: NameUse,
}

/// Who writes entries with the `controllerName` of an author.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameUse {
    /// The author alone: entries that are not wanted are removed.
    Own,
    /// Another installation too: entries that are not wanted may be its, and stay.
    Shared,
}

/// The result of comparing a status with the desired one.
#[derive(Debug, Clone, PartialEq)]
pub enum Comparison {
    /// It is up to date.
    Equal,
    /// It refers to a newer version of the object than is known: writing would be a step back.
    Newer,
    /// The fields of `status` to replace, and how many of our entries do not fit into the list.
    Differs {
        /// The fields to write, by name.
        fields: Map<String, Value>,
        /// Number of entries for which others have left no space.
        left_out: usize,
    },
}

/// Compares the status in the cluster with the desired one.
#[must_use]
pub fn compare(present: &Value, desired: &DesiredStatus, author: Author<'_>) -> Comparison {
    match desired {
        DesiredStatus::Whole(fields) => compare_whole(present, fields, author),
        DesiredStatus::Entries(list, entries) => compare_entries(present, *list, entries, author),
    }
}

fn compare_whole(present: &Value, desired: &Map<String, Value>, author: Author<'_>) -> Comparison {
    let newest = generation(list(present, CONDITIONS));
    let known = generation(items(desired.get(CONDITIONS)));
    if is_older(known, newest, author.generation) {
        return Comparison::Newer;
    }
    let mut fields = Map::new();
    let mut pruned = Map::new();
    for (name, value) in desired {
        let before = present.get(name).unwrap_or(&Value::Null);
        let after = match name.as_str() {
            CONDITIONS => Value::Array(conditions(
                items(Some(before)),
                items(Some(value)),
                author.now,
            )),
            LISTENERS => listeners(items(Some(before)), items(Some(value)), author.now),
            _ => value.clone(),
        };
        if is_pruned(name, before, &after) {
            pruned.insert(name.clone(), after);
        } else if !is_same(before, &after) {
            fields.insert(name.clone(), after);
        }
    }
    // It may never have been written, so it is included with any other change.
    if !fields.is_empty() {
        fields.extend(pruned);
    }
    differing(fields, 0)
}

/// The listeners are ours; each may have conditions of others.
fn listeners(before: &[Value], desired: &[Value], now: Timestamp) -> Value {
    let merged = desired.iter().map(|listener| {
        let same = before
            .iter()
            .find(|it| it.get("name") == listener.get("name"));
        entry(same, listener, now)
    });
    Value::Array(merged.collect())
}

fn compare_entries(
    present: &Value,
    kind: Entries,
    desired: &[Value],
    author: Author<'_>,
) -> Comparison {
    let before = list(present, kind.field());
    let is_ours = |it: &Value| it.get("controllerName") == Some(&author.controller_name.into());
    let newest = before.iter().filter(|it| is_ours(it));
    let newest = newest.filter_map(|it| generation(list(it, CONDITIONS)));
    let known = desired.iter();
    let known = known.filter_map(|it| generation(list(it, CONDITIONS)));
    if is_older(known.max(), newest.max(), author.generation) {
        return Comparison::Newer;
    }
    let mut waiting: Vec<&Value> = desired.iter().collect();
    let mut after = Vec::with_capacity(before.len().max(desired.len()));
    for present in before {
        if !is_ours(present) {
            after.push(present.clone());
            continue;
        }
        // Unwanted and duplicate entries are removed.
        let place = waiting
            .iter()
            .position(|it| kind.reference_of(it) == kind.reference_of(present));
        if let Some(place) = place {
            after.push(entry(Some(present), waiting.remove(place), author.now));
        } else if author.name == NameUse::Shared {
            after.push(present.clone());
        }
    }
    let room = kind.capacity().saturating_sub(after.len());
    let left_out = waiting.len().saturating_sub(room);
    let new = waiting.into_iter().take(room);
    after.extend(new.map(|it| entry(None, it, author.now)));
    let after = Value::Array(after);
    let mut fields = Map::new();
    if !is_same(present.get(kind.field()).unwrap_or(&Value::Null), &after) {
        fields.insert(kind.field().to_owned(), after);
    }
    differing(fields, left_out)
}

/// Our desired entry, with the conditions of others from the present one.
fn entry(before: Option<&Value>, desired: &Value, now: Timestamp) -> Value {
    let mut after = desired.clone();
    let before = before.map_or(&[][..], |it| list(it, CONDITIONS));
    let merged = conditions(before, list(desired, CONDITIONS), now);
    if let Some(fields) = after.as_object_mut() {
        fields.insert(CONDITIONS.to_owned(), Value::Array(merged));
    }
    after
}

/// The conditions of others unchanged, ours as desired, in their present order.
fn conditions(before: &[Value], desired: &[Value], now: Timestamp) -> Vec<Value> {
    let desired = most_important(desired);
    let mut after = Vec::with_capacity(before.len().max(desired.len()));
    let mut waiting = desired;
    for present in before {
        let kind = present.get("type").and_then(Value::as_str).unwrap_or("");
        let place = waiting
            .iter()
            .position(|it| it.get("type").and_then(Value::as_str) == Some(kind));
        match place {
            Some(place) => after.push(condition(Some(present), waiting.remove(place), now)),
            None if !OWN_CONDITIONS.contains(&kind) => after.push(present.clone()),
            None => {}
        }
    }
    let room = MAX_CONDITIONS.saturating_sub(after.len());
    let new = waiting.into_iter().take(room);
    after.extend(new.map(|it| condition(None, it, now)));
    after
}

/// Our conditions, with the most important ones first, without those that would leave no room to
/// other controllers.
fn most_important(desired: &[Value]) -> Vec<&Value> {
    let rank = |it: &&Value| {
        let kind = it.get("type").and_then(Value::as_str).unwrap_or_default();
        OWN_CONDITIONS.iter().position(|own| *own == kind)
    };
    let mut all: Vec<&Value> = desired.iter().collect();
    if all.len() > MAX_OWN_CONDITIONS {
        all.sort_by_key(rank);
        all.truncate(MAX_OWN_CONDITIONS);
    }
    all
}

/// One condition of ours. Its time is the last change of `status`, not of its text.
fn condition(before: Option<&Value>, desired: &Value, now: Timestamp) -> Value {
    let since = before
        .filter(|it| it.get("status") == desired.get("status"))
        .and_then(|it| it.get(TRANSITION))
        .cloned()
        .unwrap_or_else(|| now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into());
    let mut after = desired.clone();
    if let Some(fields) = after.as_object_mut() {
        fields.insert(TRANSITION.to_owned(), since);
    }
    after
}

/// A `parentRef` or `ancestorRef` with defaults filled in.
#[derive(Debug, PartialEq)]
struct Reference<'a> {
    group: &'a str,
    kind: &'a str,
    others: BTreeMap<&'a str, &'a Value>,
}

impl<'a> Reference<'a> {
    fn of(value: Option<&'a Value>) -> Self {
        let fields = value.and_then(Value::as_object);
        let text = |name, default| {
            let found = fields.and_then(|it| it.get(name));
            found.and_then(Value::as_str).unwrap_or(default)
        };
        let others = ["namespace", "name", "sectionName", "port"];
        let others = others.into_iter().filter_map(|name| {
            let value = fields?.get(name)?;
            (!value.is_null()).then_some((name, value))
        });
        Self {
            group: text("group", ObjectKind::Gateway.group()),
            kind: text("kind", ObjectKind::Gateway.name()),
            others: others.collect(),
        }
    }
}

fn differing(fields: Map<String, Value>, left_out: usize) -> Comparison {
    if fields.is_empty() {
        Comparison::Equal
    } else {
        Comparison::Differs { fields, left_out }
    }
}

/// Comparison in which empty lists and zeros equal missing fields, as API servers omit them.
fn is_same(before: &Value, after: &Value) -> bool {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Number(number) => number.as_u64() == Some(0),
        _ => false,
    };
    before == after || is_empty(before) && is_empty(after)
}

/// Whether a status differs from the desired one only because the CRD of the standard channel
/// prunes `routability` of addresses: writing it again would change nothing.
fn is_pruned(field: &str, before: &Value, after: &Value) -> bool {
    let known = |address: &Value| {
        let mut address = address.clone();
        if let Some(fields) = address.as_object_mut() {
            fields.remove("routability");
        }
        address
    };
    let (before, after) = (items(Some(before)), items(Some(after)));
    let has_none = before.iter().all(|it| it.get("routability").is_none());
    field == "addresses"
        && has_none
        && before != after
        && before.iter().map(known).eq(after.iter().map(known))
}

/// Whether the known generation is older than the newest one in the status. One that the object does
/// not have yet is of an earlier object, whose status was restored with it.
fn is_older(known: Option<i64>, newest: Option<i64>, object: i64) -> bool {
    matches!((known, newest), (Some(known), Some(newest)) if known < newest && newest <= object)
}

/// The newest generation in our conditions.
fn generation(conditions: &[Value]) -> Option<i64> {
    let ours = conditions.iter().filter(|it| {
        let kind = it.get("type").and_then(Value::as_str);
        kind.is_some_and(|kind| OWN_CONDITIONS.contains(&kind))
    });
    let generations = ours.filter_map(|it| it.get("observedGeneration")?.as_i64());
    generations.max()
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    items(value.get(field))
}

fn items(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

const CONDITIONS: &str = "conditions";
const LISTENERS: &str = "listeners";
const TRANSITION: &str = "lastTransitionTime";
/// Every condition type that we write, the most important ones first: others belong to other
/// controllers.
const OWN_CONDITIONS: [&str; 20] = [
    "Accepted",
    "Programmed",
    "ResolvedRefs",
    "Conflicted",
    "DeploymentFailed",
    "Degraded",
    "DependencyUnavailable",
    "AutoscalingRefused",
    "PolicyAncestorLimitReached",
    "CertificateExpired",
    "CertificateUnsuitable",
    "PartiallyInvalid",
    "Attached",
    "AddressesAssigned",
    "InsecureFrontendValidationMode",
    "OverlappingTLSConfig",
    "HostnamesTaken",
    "ListenerLimitExceeded",
    "SupportedVersion",
    "DefaultGateway",
];
/// Most conditions of ours in one list: 6, of 8. The rest is for other controllers.
const MAX_OWN_CONDITIONS: usize = 6;
/// The `maxItems` of Gateway API for conditions of any object.
const MAX_CONDITIONS: usize = 8;

#[cfg(test)]
mod tests;
