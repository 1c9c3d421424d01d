//! What the proxies of a Gateway have acknowledged, for its status and those of its ListenerSets.

use std::collections::{BTreeMap, BTreeSet};

use xds::model::{BindKey, Kind, ResourceKey};

use super::programmed::AckCount;
use crate::deploy::ports::Port;
use crate::outputs::Acknowledgements;

/// The resources whose acknowledgements differ. A Gateway can have thousands of listeners.
pub(super) fn changed_resources<'a>(
    before: &'a Acknowledgements,
    after: &'a Acknowledgements,
) -> BTreeSet<&'a ResourceKey> {
    // The rejection of a bind concerns all listeners.
    let for_all = |of: &'a Acknowledgements| {
        let binds = of.refused.iter().filter(|(it, _)| it.kind == Kind::Bind);
        (of.connected, binds.collect::<Vec<_>>())
    };
    let all_differ = for_all(before) != for_all(after);
    let sides = [before, after].into_iter();
    let resources = sides.flat_map(|side| side.listeners.keys().chain(side.refused.keys()));
    let differs = |key: &&ResourceKey| {
        all_differ
            || before.listeners.get(*key) != after.listeners.get(*key)
            || before.refused.get(*key) != after.refused.get(*key)
    };
    resources.filter(differs).collect()
}

/// The acknowledgements of listeners, by key without `own` at its start. The rejection of a bind
/// concerns the listeners on it.
pub(super) fn ack_counts(
    listeners: &[(ResourceKey, BindKey)],
    known: Option<&Acknowledgements>,
    ports: Option<&BTreeSet<Port>>,
    own: &str,
) -> BTreeMap<String, AckCount> {
    let counts = listeners.iter().map(|(key, bind)| {
        let bind = ResourceKey {
            kind: Kind::Bind,
            key: bind.as_str().into(),
        };
        let refused = known.and_then(|it| it.refused.get(key).or(it.refused.get(&bind)));
        let accepted = known.and_then(|it| it.listeners.get(key)).copied();
        let port = Port::of(&bind);
        let missing = port.filter(|port| ports.is_some_and(|it| !it.contains(port)));
        let acks = AckCount {
            connected: known.map_or(0, |it| it.connected),
            accepted: accepted.unwrap_or(0),
            refused: refused.cloned(),
            missing_port: missing.map(|it| it.number),
        };
        let name = key.key.strip_prefix(own).unwrap_or(&key.key);
        (name.to_owned(), acks)
    });
    counts.collect()
}

#[cfg(test)]
mod tests;
