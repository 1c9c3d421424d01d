//! DNS answers, as the compiler reads them.

use std::collections::HashMap;
use std::net::IpAddr;

use xds::model::Hostname;

/// The addresses of names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resolved(HashMap<Hostname, Box<[IpAddr]>>);

impl Resolved {
    /// The addresses of a name, in order; none if it is unknown.
    #[must_use]
    pub fn addresses(&self, name: &Hostname) -> &[IpAddr] {
        self.0.get(name).map_or(&[], |addresses| addresses)
    }

    /// Stores an answer; returns whether it differs from the previous one. The order of addresses
    /// does not matter: many servers shuffle them.
    pub fn insert(&mut self, name: &Hostname, mut addresses: Vec<IpAddr>) -> bool {
        addresses.sort_unstable();
        addresses.dedup();
        if self.addresses(name) == addresses {
            return false;
        }
        self.0.insert(name.clone(), addresses.into());
        true
    }

    /// Removes the names for which `needed` returns false.
    pub fn retain(&mut self, needed: impl Fn(&Hostname) -> bool) {
        self.0.retain(|name, _| needed(name));
    }
}
