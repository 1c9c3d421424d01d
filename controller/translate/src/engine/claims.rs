//! Claims of several objects on the same key, ordered by rank; the first wins. The result does not
//! depend on the order in which claims arrive.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::Arc;

use xds::fast_hash::FastHashMap;
use xds::model::{
    BackendTls, Hostname, ListenerKey, ObjectName, Pattern, PolicySpec, PolicyTarget,
    SessionPersistence, Transport,
};

use crate::backend::upstream::Upstream;
use crate::budgets::rooms::Rooms;
use crate::budgets::views::{RouteRank, ViewCosts};
use crate::gateway::socket::SocketRank;
use crate::policy::precedence::ClaimRank;

/// Creation time and name: the older object wins, and for equal times the first by name.
pub(crate) type Age = (i64, ObjectName);

/// The regular expressions of a route.
#[derive(Debug, PartialEq)]
pub(crate) struct ExpressionClaim {
    pub(crate) expressions: Arc<[Pattern]>,
    /// What they take when compiled.
    pub(crate) bytes: u64,
    /// What those that close it take at most, if it is refused.
    pub(crate) start_bytes: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Claims {
    /// BackendTLSPolicies at their targets.
    pub(crate) backend_tls: ClaimTable<(Upstream, Option<Arc<str>>), Age, Arc<BackendTls>>,
    /// `XBackendTrafficPolicies` at their targets, with their session persistence.
    pub(crate) backend_traffic: ClaimTable<Upstream, Age, Option<Arc<SessionPersistence>>>,
    /// Gateways at the sockets of a machine.
    pub(crate) sockets: ClaimTable<(Transport, NonZeroU16), SocketRank, IpAddr>,
    /// HTTPRoutes at their listeners, with their hosts.
    pub(crate) http_routes: ClaimTable<ListenerKey, Age, Arc<[Hostname]>>,
    /// GRPCRoutes at their listeners.
    pub(crate) grpc_routes: ClaimTable<ListenerKey, Age, Arc<[Hostname]>>,
    /// Regular expressions of routes at their Gateways.
    pub(crate) expressions: ClaimTable<ObjectName, RouteRank, ExpressionClaim>,
    /// Traffic policies at their targets.
    pub(crate) policies: ClaimTable<Arc<PolicyTarget>, ClaimRank, Arc<PolicySpec>>,
    /// Routes at Gateways, with what they add to the views.
    pub(crate) views: ViewCosts,
    /// Policies, backends and Services at Gateways, with what they add to the views.
    pub(crate) rooms: Rooms,
}

/// Claims of one kind. Keys without claims are not kept.
#[derive(Debug)]
pub(crate) struct ClaimTable<K, R, C>(FastHashMap<K, BTreeMap<R, C>>);

impl<K, R, C> Default for ClaimTable<K, R, C> {
    fn default() -> Self {
        Self(FastHashMap::default())
    }
}

impl<K: Clone + Eq + Hash, R: Ord, C: PartialEq> ClaimTable<K, R, C> {
    /// Replaces the claims of a unit; returns the affected keys.
    pub(crate) fn replace(
        &mut self,
        old: impl Iterator<Item = (K, R, C)>,
        new: impl Iterator<Item = (K, R, C)>,
    ) -> Vec<K> {
        let mut old: FastHashMap<K, Vec<(R, C)>> = by_key(old);
        let mut changed = Vec::new();
        for (key, claims) in by_key(new) {
            let before = old.remove(&key).unwrap_or_default();
            if before != claims {
                self.put(&key, before, claims);
                changed.push(key);
            }
        }
        for (key, before) in old {
            self.put(&key, before, Vec::new());
            changed.push(key);
        }
        changed
    }

    fn put(&mut self, key: &K, old: Vec<(R, C)>, new: Vec<(R, C)>) {
        let claims = self.0.entry(key.clone()).or_default();
        for (rank, _) in old {
            claims.remove(&rank);
        }
        claims.extend(new);
        if claims.is_empty() {
            self.0.remove(key);
        }
    }

    /// The claims on a key, the winner first.
    pub(crate) fn at(&self, key: &K) -> Option<&BTreeMap<R, C>> {
        self.0.get(key)
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn by_key<K: Eq + Hash, R, C>(
    claims: impl Iterator<Item = (K, R, C)>,
) -> FastHashMap<K, Vec<(R, C)>> {
    let mut by_key: FastHashMap<K, Vec<(R, C)>> = FastHashMap::default();
    for (key, rank, claim) in claims {
        by_key.entry(key).or_default().push((rank, claim));
    }
    by_key
}

#[cfg(test)]
impl Claims {
    pub(crate) fn is_empty(&self) -> bool {
        self.backend_tls.is_empty()
            && self.backend_traffic.is_empty()
            && self.sockets.is_empty()
            && self.http_routes.is_empty()
            && self.grpc_routes.is_empty()
            && self.expressions.is_empty()
            && self.policies.is_empty()
            && self.views.is_empty()
            && self.rooms.is_empty()
    }
}
