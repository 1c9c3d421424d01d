//! The Gateways that a policy applies to. Gateway API's `PolicyStatus` lists at most 16 ancestors, of
//! all controllers, and for further ones a policy must be considered unimplementable.

use std::collections::BTreeSet;
use std::sync::Arc;

use xds::model::ObjectName;

use super::api::{BackendTlsPolicy, PolicyEntries};
use super::status::{LeftOut, LeftOutByTls};
use crate::backend::upstream::Upstream;
use crate::engine::fact::Fact;
use crate::engine::outcome::Gateways;
use crate::engine::unit::UnitReader;
use crate::gateway::api::Gateway;
use crate::objects::object_ref::ObjectRef;

/// The Gateways that send requests to a target of a policy.
pub(crate) struct Ancestors {
    /// Those that its status has room for.
    pub(crate) listed: BTreeSet<ObjectName>,
    pub(crate) left_out: LeftOut,
    /// Number of further entries that its status has room for.
    pub(crate) spare: usize,
}

impl UnitReader<'_> {
    /// The ancestors of a policy, of the Gateways that it applies to. The oldest ones are listed, so
    /// that a new Gateway takes the policy from no other.
    pub(crate) fn ancestors(
        &self,
        mut listed: BTreeSet<ObjectName>,
        status: &PolicyEntries,
    ) -> Ancestors {
        let room = if self.is_machine() {
            usize::MAX
        } else {
            status.room_for(&self.options().controller_name)
        };
        let mut left_out = BTreeSet::new();
        if listed.len() > room {
            let age =
                |name: &ObjectName| self.object::<Gateway>(name).map(|it| it.metadata.created());
            let mut by_age: Vec<_> = listed.into_iter().map(|name| (age(&name), name)).collect();
            by_age.sort();
            let newest = by_age.split_off(room);
            left_out = newest.into_iter().map(|(_, name)| name).collect();
            listed = by_age.into_iter().map(|(_, name)| name).collect();
        }
        Ancestors {
            spare: room.saturating_sub(listed.len()),
            listed,
            left_out: LeftOut(left_out),
        }
    }

    /// The Gateways that send requests to one of these upstreams.
    pub(crate) fn all_users<'u>(
        &self,
        upstreams: impl Iterator<Item = &'u Upstream>,
    ) -> BTreeSet<ObjectName> {
        let users = upstreams.map(|upstream| self.users(upstream));
        users.flat_map(|users| users.to_vec()).collect()
    }

    /// The Gateways that connect to one of these upstreams.
    pub(crate) fn all_tls_users<'u>(
        &self,
        upstreams: impl Iterator<Item = &'u Upstream>,
    ) -> BTreeSet<ObjectName> {
        let mut gateways = BTreeSet::new();
        for upstream in upstreams {
            gateways.extend(self.users(upstream).iter().cloned());
            gateways.extend(self.picker_users(upstream).cloned());
        }
        gateways
    }

    /// The policies that do not apply to a Gateway because their statuses have no room for it.
    pub(crate) fn policies_without(
        &self,
        gateway: &ObjectName,
    ) -> impl Iterator<Item = &ObjectRef> {
        self.depend_on(Fact::LeftOutOf(gateway.clone()));
        self.counts.left_out.at(gateway)
    }

    /// The users of an upstream that may send requests to it: none that a BackendTLSPolicy of it
    /// leaves out, which would otherwise send them without the policy's TLS.
    pub(crate) fn tls_users(
        &self,
        upstream: &Upstream,
        sections: impl Iterator<Item = Option<Arc<str>>>,
        users: Gateways,
    ) -> Gateways {
        let policies = sections.filter_map(|it| self.backend_tls_winner(upstream, it.as_ref()));
        let policies: BTreeSet<&ObjectName> = policies.collect();
        let left_out = policies
            .into_iter()
            .filter_map(|it| self.left_out_by_tls(it));
        left_out.fold(users, |users, it| without(&it.gateways, users))
    }
}

impl<'a> UnitReader<'a> {
    /// The Gateways that a BackendTLSPolicy leaves out.
    pub(crate) fn left_out_by_tls(&self, policy: &'a ObjectName) -> Option<LeftOutByTls<'a>> {
        let name = policy;
        let object = self.object::<BackendTlsPolicy>(name)?;
        let policy = self.backend_tls_policy(name)?;
        let targets = policy.targets.iter().map(|target| &target.upstream);
        let ancestors = self.ancestors(self.all_tls_users(targets), &object.status);
        Some(LeftOutByTls {
            policy: name,
            gateways: ancestors.left_out,
        })
    }
}

impl LeftOut {
    /// Those among these Gateways.
    pub(crate) fn among(&self, gateways: &BTreeSet<ObjectName>) -> Box<[ObjectName]> {
        self.0.intersection(gateways).cloned().collect()
    }
}

/// The Gateways that are not left out.
pub(crate) fn without(left_out: &LeftOut, gateways: Gateways) -> Gateways {
    if gateways.iter().all(|gateway| !left_out.0.contains(gateway)) {
        return gateways;
    }
    let kept = gateways
        .iter()
        .filter(|gateway| !left_out.0.contains(*gateway));
    kept.cloned().collect()
}
