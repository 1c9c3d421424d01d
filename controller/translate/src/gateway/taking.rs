//! Which listeners of a Gateway lose host names to those of ListenerSets.

use xds::model::Hostname;

use super::listener::Listener;
use super::protocol::{Family, Protocol};
use super::taken::TakenNames;
use crate::objects::owner::Owner;

/// For every listener, what is taken from it. Only `accepted` listeners count.
pub(crate) fn find(listeners: &[&Listener], accepted: impl Fn(usize) -> bool) -> Vec<TakenNames> {
    let mut taken = vec![TakenNames::default(); listeners.len()];
    let accepted = |index: &usize| has_hostnames(listeners[*index]) && accepted(*index);
    let (own, of_sets): (Vec<usize>, Vec<usize>) = (0..listeners.len())
        .filter(accepted)
        .partition(|index| matches!(listeners[*index].owner, Owner::Gateway(_)));
    for index in of_sets {
        let listener = listeners[index];
        let Some(hostname) = &listener.offer.hostname else {
            continue;
        };
        let wider = own.iter().copied().filter(|own| {
            let own = &listeners[*own].offer;
            own.port == listener.offer.port && is_wider(own.hostname.as_ref(), hostname)
        });
        let served_before = wider.max_by_key(|own| specificity(listeners[*own]));
        if let Some(own) = served_before {
            taken[own].add(hostname, &listener.owner);
        }
    }
    taken
}

fn has_hostnames(listener: &Listener) -> bool {
    let family = listener.protocol.map(Protocol::family);
    matches!(family, Some(Family::Http | Family::Tls))
}

/// Whether it matches all hosts of `narrow`, and others.
fn is_wider(wide: Option<&Hostname>, narrow: &Hostname) -> bool {
    wide.is_none_or(|wide| wide != narrow && wide.intersect(narrow) == Some(narrow))
}

fn specificity(listener: &Listener) -> usize {
    let hostname = listener.offer.hostname.as_ref();
    hostname.map_or(0, |hostname| hostname.as_str().len())
}
