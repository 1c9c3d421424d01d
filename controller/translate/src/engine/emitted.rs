//! The resources that a unit produces, each with the Gateways whose proxies need it.

use std::cmp::Ordering;
use std::slice;

use xds::model::{Kind, Resource};

use super::outcome::{Gateways, Outcome};

/// Resources of a unit, by kind and key. A resource is made by one unit at a time, and can move to
/// another one within a batch.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Emitted(Box<[(Resource, Gateways)]>);

impl Emitted {
    pub(crate) fn new(mut resources: Vec<(Resource, Gateways)>) -> Self {
        resources.sort_by(|(one, _), (other, _)| place(one).cmp(&place(other)));
        // Of two with one key the last counts.
        let mut kept: Vec<(Resource, Gateways)> = Vec::with_capacity(resources.len());
        for entry in resources {
            if let Some(last) = kept.last_mut()
                && place(&last.0) == place(&entry.0)
            {
                *last = entry;
            } else {
                kept.push(entry);
            }
        }
        Self(kept.into())
    }

    /// Records the differences to the previous resources.
    pub(crate) fn publish(old: Option<&Self>, new: Option<&Self>, outcome: &mut Outcome) {
        let (mut old, mut new) = (entries(old).peekable(), entries(new).peekable());
        loop {
            let order = match (old.peek(), new.peek()) {
                (None, None) => return,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((old, _)), Some((new, _))) => place(old).cmp(&place(new)),
            };
            let before = old.next_if(|_| order.is_le());
            let after = new.next_if(|_| order.is_ge());
            outcome.resource(before, after);
        }
    }
}

fn entries(emitted: Option<&Emitted>) -> slice::Iter<'_, (Resource, Gateways)> {
    emitted.map_or(&[][..], |emitted| &emitted.0).iter()
}

fn place(resource: &Resource) -> (Kind, &str) {
    (resource.kind(), resource.key())
}
