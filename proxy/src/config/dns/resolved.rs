//! What names came to, as the compiler reads it.

use std::collections::HashMap;
use std::net::IpAddr;

use xds::model::Hostname;

/// The addresses of names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resolved(HashMap<Hostname, Box<[IpAddr]>>);

impl Resolved {
    /// The addresses of a name, in order; none where nothing is known of it.
    #[must_use]
    pub fn addresses(&self, name: &Hostname) -> &[IpAddr] {
        self.0.get(name).map_or(&[], |addresses| addresses)
    }

    /// Takes an answer; says whether it is another one than before. The order in which a server
    /// lists addresses does not matter: many shuffle them.
    pub fn insert(&mut self, name: &Hostname, mut addresses: Vec<IpAddr>) -> bool {
        addresses.sort_unstable();
        addresses.dedup();
        if self.addresses(name) == addresses {
            return false;
        }
        self.0.insert(name.clone(), addresses.into());
        true
    }

    /// Forgets the names that `wanted` denies.
    pub fn retain(&mut self, wanted: impl Fn(&Hostname) -> bool) {
        self.0.retain(|name, _| wanted(name));
    }
}
