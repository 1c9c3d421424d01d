//! The ids of everything that shards remember across configurations.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::SocketAddr;
use std::sync::Arc;

use xds::model::{ListenerKey, RouteKey, Transport};

use super::tls::SettingsId;
use crate::config::Address;
use crate::shard::interned::{Interned, Interner};

/// Ids by kind.
#[derive(Debug, Default)]
pub(super) struct Ids {
    pub(super) binds: BindIds,
    pub(super) listeners: Used<ListenerKey>,
    pub(super) rules: Used<RouteKey>,
    pub(super) clusters: Used<Arc<str>>,
    /// By cluster: an endpoint of two services is judged by each on its own. And by TLS settings: a
    /// connection that was made with others is none for these.
    pub(super) endpoints: Used<EndpointKey>,
}

impl Ids {
    /// What is interned from now on belongs to the snapshot of this version.
    pub(super) fn begin(&mut self, version: u64) {
        self.listeners.version = version;
        self.rules.version = version;
        self.clusters.version = version;
        self.endpoints.version = version;
    }

    pub(super) fn release(&mut self, oldest: u64) {
        self.listeners.release(oldest);
        self.rules.release(oldest);
        self.clusters.release(oldest);
        self.endpoints.release(oldest);
    }
}

/// What tells an endpoint from others: its cluster, its TLS settings, its address.
pub(super) type EndpointKey = (Interned, Option<SettingsId>, Address);

/// Ids of one kind, each with the newest snapshot that has it.
#[derive(Debug)]
pub(super) struct Used<K> {
    interner: Interner<K>,
    /// The newest snapshot that has it, by index.
    newest: Vec<u64>,
    version: u64,
}

impl<K> Default for Used<K> {
    fn default() -> Self {
        Self {
            interner: Interner::default(),
            newest: Vec::new(),
            version: 0,
        }
    }
}

impl<K: Eq + Hash + Clone> Used<K> {
    pub(super) fn intern(&mut self, key: &K) -> Interned {
        let id = self.interner.intern(key);
        let index = id.index as usize;
        if self.newest.len() <= index {
            self.newest.resize(index + 1, 0);
        }
        self.newest[index] = self.version;
        id
    }

    fn release(&mut self, oldest: u64) {
        let newest = &self.newest;
        self.interner
            .retain(|_, id| newest[id.index as usize] >= oldest);
    }
}

/// Ids of binds. One belongs to an address, whichever Gateway has it: a Gateway in place of another
/// finds sockets and clients' connections as they were. It is never given to another address,
/// because connections outlive their bind. The number of addresses that a proxy ever has is small.
#[derive(Debug, Default)]
pub(super) struct BindIds(HashMap<(Transport, SocketAddr), u32>);

impl BindIds {
    /// The id of whatever is bound to an address.
    pub(super) fn intern(&mut self, transport: Transport, address: SocketAddr) -> u32 {
        let next = u32::try_from(self.0.len()).expect("binds are objects that somebody wrote");
        *self.0.entry((transport, address)).or_insert(next)
    }

    /// How many there were.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }
}
