//! Overlapping host names of TLS listeners on one port: a client connected to one of them may send
//! requests for the other on that connection.

use std::collections::HashMap;
use std::num::NonZeroU16;

use xds::model::Hostname;

use super::listener::Listener;
use super::protocol::{Family, Protocol};

/// For every overlapping listener, the name of another one. Only `accepted` ones count.
pub(crate) fn find(
    listeners: &[&Listener],
    accepted: impl Fn(usize) -> bool,
) -> Vec<Option<String>> {
    let mut overlaps = vec![None; listeners.len()];
    let mut by_host: HashMap<(NonZeroU16, String), usize> = HashMap::new();
    let family = |listener: &Listener| listener.protocol.map(Protocol::family);
    for (index, listener) in listeners.iter().enumerate() {
        if family(listener) == Some(Family::Tls) && accepted(index) {
            let host = listener
                .offer
                .hostname
                .as_ref()
                .map_or("", |host| host.as_str());
            by_host.insert((listener.offer.port, host.to_owned()), index);
        }
    }
    let mut pairs = Vec::new();
    for &index in by_host.values() {
        let listener = listeners[index];
        let wider = wider(listener.offer.hostname.as_ref().map(Hostname::as_str));
        let wider = wider.filter_map(|host| by_host.get(&(listener.offer.port, host)));
        pairs.extend(wider.map(|&other| (index, other)));
    }
    // In the order of the spec, since the hash map has none.
    pairs.sort_unstable();
    for (narrow, wide) in pairs {
        for (one, other) in [(narrow, wide), (wide, narrow)] {
            overlaps[one].get_or_insert_with(|| listeners[other].offer.name.clone());
        }
    }
    overlaps
}

/// The host names that include this one: wildcards of the domains above, and the empty one for
/// every host.
fn wider(host: Option<&str>) -> impl Iterator<Item = String> {
    let domain = host.map(|host| host.strip_prefix("*.").unwrap_or(host));
    let mut above = domain;
    let domains = std::iter::from_fn(move || {
        above = above
            .and_then(|domain| domain.split_once('.'))
            .map(|(_, above)| above);
        above
    });
    let wildcards = domains.map(|domain| format!("*.{domain}"));
    wildcards.chain(host.map(|_| String::new()))
}
