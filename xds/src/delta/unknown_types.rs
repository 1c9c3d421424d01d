//! Types that a stream subscribes to and that this version does not know: a proxy of a later version is
//! ready only after a response for each of its types.

use std::collections::BTreeSet;

use crate::limits::{UNKNOWN_TYPE_BYTES, UNKNOWN_TYPES};

/// The unknown types of a stream that get a response. The first ones, so that they are bounded.
#[derive(Debug, Default)]
pub(super) struct UnknownTypes {
    known: BTreeSet<String>,
    /// Those without a response so far.
    owed: Vec<String>,
}

impl UnknownTypes {
    /// Adds the type of a request; returns whether it is a new one. Later requests for a type are
    /// acknowledgements, or change what is subscribed to of it, which is nothing.
    pub(super) fn add(&mut self, type_url: &str) -> bool {
        if self.known.contains(type_url) {
            return false;
        }
        if self.known.len() < UNKNOWN_TYPES && type_url.len() <= UNKNOWN_TYPE_BYTES {
            self.known.insert(type_url.to_owned());
            self.owed.push(type_url.to_owned());
        }
        true
    }

    /// The types that are owed a response. Nothing is owed afterwards.
    pub(super) fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.owed)
    }
}
