//! What policies, backends and Services add to the views of Gateways: the input for deciding which of them
//! have room there. [`views`](super::views) is the same for routes.

use std::collections::BTreeMap;

use xds::fast_hash::FastHashMap;
use xds::model::ObjectName;

use super::fair_share::{Amounts, Claimant, exceeded, left_out_of, sum};
use super::{Budget, Limits};

/// An object other than a route that proxies get resources of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Holder {
    pub(crate) kind: HolderKind,
    pub(crate) name: ObjectName,
}

/// The kind of a [`Holder`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum HolderKind {
    TrafficPolicy,
    /// The networks of a TrafficPolicy.
    Networks,
    /// The rules of the rate limits of a TrafficPolicy, and their keys.
    RateTables,
    /// The bodies of answers of a TrafficPolicy.
    Answers,
    /// The rewrite of paths of a TrafficPolicy.
    PathRewrite,
    /// The tables of endpoints of a TrafficPolicy.
    HashTables,
    Backend,
    XBackend,
    Pool,
    Service,
}

/// What a Gateway has room for: each has budgets of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Room {
    /// TrafficPolicies.
    Policies,
    /// Networks of TrafficPolicies.
    Networks,
    /// Rules of rate limits, and their keys.
    RateTables,
    /// Bodies of answers.
    Answers,
    /// Rewrites of paths.
    PathRewrites,
    /// Tables of endpoints.
    HashTables,
    /// Backends, XBackends and InferencePools.
    Backends,
    /// Services with their endpoints.
    Services,
}

impl HolderKind {
    /// Where it needs room.
    pub(crate) fn room(self) -> Room {
        match self {
            Self::TrafficPolicy => Room::Policies,
            Self::Networks => Room::Networks,
            Self::RateTables => Room::RateTables,
            Self::Answers => Room::Answers,
            Self::PathRewrite => Room::PathRewrites,
            Self::HashTables => Room::HashTables,
            Self::Backend | Self::XBackend | Self::Pool => Room::Backends,
            Self::Service => Room::Services,
        }
    }
}

impl Room {
    /// The budgets of a number and of bytes.
    pub(crate) fn budgets(self) -> [Budget; 2] {
        match self {
            Self::Policies => [Budget::GatewayPolicies, Budget::GatewayPolicyBytes],
            Self::Networks => [Budget::GatewayNetworks, Budget::GatewayNetworkBytes],
            Self::RateTables => [Budget::GatewayRateRules, Budget::GatewayRateTables],
            Self::Answers => [Budget::GatewayAnswers, Budget::GatewayAnswerBytes],
            Self::PathRewrites => [Budget::GatewayPathRewrites, Budget::GatewayPathRewriteBytes],
            Self::HashTables => [Budget::GatewayHashTables, Budget::GatewayHashTableBytes],
            Self::Backends => [Budget::GatewayBackends, Budget::GatewayBackendBytes],
            Self::Services => [Budget::GatewayEndpoints, Budget::GatewayEndpointBytes],
        }
    }
}

impl Room {
    /// Whether its holders are TrafficPolicies.
    fn is_of_policies(self) -> bool {
        !matches!(self, Self::Backends | Self::Services)
    }

    /// What of a cost is shared out at a time: who has no room for a part gets nothing of those that follow.
    /// Elsewhere all is one part. A rule of rate limits without room for its keys keeps a few, and still
    /// counts among the rules.
    fn parts(self) -> &'static [[bool; 2]] {
        match self {
            Self::RateTables => &[[true, false], [false, true]],
            Self::Policies
            | Self::Networks
            | Self::Answers
            | Self::PathRewrites
            | Self::HashTables
            | Self::Backends
            | Self::Services => &[[true, true]],
        }
    }
}

/// What a holder takes of the two budgets of its room.
pub(crate) type RoomCost = Amounts<2>;

/// The rank of a holder in a room: the older one first, for equal times the first by kind and name.
type HolderRank = (i64, Holder);

/// What all holders take, by Gateway and room.
#[derive(Debug, Default)]
pub(crate) struct Rooms(FastHashMap<(ObjectName, Room), RoomUse>);

/// What the holders in a room of a Gateway take.
#[derive(Debug, Default)]
pub(crate) struct RoomUse {
    /// The sum of all.
    pub(crate) total: RoomCost,
    /// With their creation times.
    holders: FastHashMap<Holder, (i64, RoomCost)>,
}

/// What a holder of this creation time takes, each at another Gateway.
pub(crate) type HolderCosts<'a> = (i64, &'a [(ObjectName, RoomCost)]);

impl Rooms {
    /// Replaces what a holder takes. Returns the Gateways where that changed.
    pub(crate) fn replace(
        &mut self,
        holder: &Holder,
        old: Option<HolderCosts<'_>>,
        new: Option<HolderCosts<'_>>,
    ) -> Vec<ObjectName> {
        if old == new {
            return Vec::new();
        }
        let room = holder.kind.room();
        let mut changed = Vec::new();
        let (_, old) = old.unwrap_or_default();
        let (created, new) = new.unwrap_or_default();
        for (gateway, _) in old {
            let key = (gateway.clone(), room);
            if let Some(of_gateway) = self.0.get_mut(&key) {
                of_gateway.remove(holder);
                let is_kept = new.iter().any(|(it, _)| it == gateway);
                if of_gateway.holders.is_empty() && !is_kept {
                    self.0.remove(&key);
                }
            }
            changed.push(gateway.clone());
        }
        for (gateway, cost) in new {
            let of_gateway = self.0.entry((gateway.clone(), room)).or_default();
            of_gateway.add(holder, created, *cost);
            changed.push(gateway.clone());
        }
        changed.sort_unstable();
        changed.dedup();
        changed
    }

    pub(crate) fn at(&self, gateway: &ObjectName, room: Room) -> Option<&RoomUse> {
        self.0.get(&(gateway.clone(), room))
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl RoomUse {
    fn add(&mut self, holder: &Holder, created: i64, cost: RoomCost) {
        self.remove(holder);
        self.holders.insert(holder.clone(), (created, cost));
        self.total = sum(self.total, cost);
    }

    fn remove(&mut self, holder: &Holder) {
        if let Some((_, cost)) = self.holders.remove(holder) {
            for (from, taken) in self.total.iter_mut().zip(cost) {
                *from = from.saturating_sub(taken);
            }
        }
    }

    /// The holders that have no room at a Gateway of this namespace, each with the budget that it exceeds. Sorted only
    /// if something does not fit, which is rare, and not with each change.
    ///
    /// TrafficPolicies in the Gateway's namespace come first: no route may take away what the Gateway enforces.
    pub(crate) fn refused(
        &self,
        room: Room,
        namespace: &str,
        limits: &Limits,
    ) -> BTreeMap<Holder, Budget> {
        let budgets = room.budgets();
        let limits = budgets.map(|it| limits.of(it));
        if exceeded(self.total, limits).is_none() {
            return BTreeMap::new();
        }
        let is_first =
            |holder: &Holder| room.is_of_policies() && &*holder.name.namespace == namespace;
        let ranked = self.holders.iter();
        let ranked = ranked.map(|(holder, (created, cost))| ((*created, holder.clone()), *cost));
        let mut ranked: Vec<(HolderRank, RoomCost)> = ranked.collect();
        ranked.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let mut refused = BTreeMap::new();
        for part in room.parts() {
            let claimants = { ranked.iter() }
                .filter(|((_, holder), _)| !refused.contains_key(holder))
                .map(|(rank, cost)| Claimant {
                    rank,
                    namespace: &rank.1.name.namespace,
                    wants: of_part(*cost, *part),
                });
            let (first, others): (Vec<_>, Vec<_>) = claimants.partition(|it| is_first(&it.rank.1));
            let mut without = left_out_of(&first, budgets, limits);
            let with_room = first.iter().filter(|it| !without.contains_key(it.rank));
            let taken = with_room.fold([0; 2], |taken, it| sum(taken, it.wants));
            let left = std::array::from_fn(|number| limits[number].saturating_sub(taken[number]));
            without.extend(left_out_of(&others, budgets, left));
            let without = without.into_iter();
            refused.extend(without.map(|((_, holder), budget)| (holder.clone(), budget)));
        }
        refused
    }
}

fn of_part(cost: RoomCost, part: [bool; 2]) -> RoomCost {
    let mut cost = cost;
    for (amount, is_in_it) in cost.iter_mut().zip(part) {
        *amount *= u64::from(is_in_it);
    }
    cost
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(namespace: &str, name: &str) -> Holder {
        Holder {
            kind: HolderKind::TrafficPolicy,
            name: ObjectName::new(namespace, name),
        }
    }

    #[test]
    fn costs_are_replaced_by_gateway() {
        let gateway = |name| ObjectName::new("infra", name);
        let (one, two) = (gateway("one"), gateway("two"));
        let (mut rooms, holder) = (Rooms::default(), policy("app", "a"));
        let before = [(one.clone(), [1, 10]), (two.clone(), [2, 20])];
        let after = [(two.clone(), [3, 30])];
        let (first, second) = (Some((1, &before[..])), Some((2, &after[..])));
        assert_eq!(
            rooms.replace(&holder, None, first),
            [one.clone(), two.clone()]
        );
        assert_eq!(rooms.replace(&holder, first, first), []);
        assert_eq!(
            rooms.replace(&holder, first, second),
            [one.clone(), two.clone()]
        );
        assert!(rooms.at(&one, Room::Policies).is_none());
        let left = rooms.at(&two, Room::Policies).expect("it has a policy");
        assert_eq!(left.total, [3, 30]);
        rooms.replace(&holder, second, None);
        assert!(rooms.is_empty());
    }

    #[test]
    fn the_newest_holders_of_the_namespace_with_most_are_refused() {
        let limits = Limits::default().with(Budget::GatewayPolicies, 4);
        let mut room = RoomUse::default();
        for (created, name) in [(1, "a"), (2, "b"), (3, "c"), (4, "d")] {
            room.add(&policy("noisy", name), created, [1, 100]);
        }
        assert!(room.refused(Room::Policies, "infra", &limits).is_empty());
        room.add(&policy("quiet", "late"), 9, [1, 100]);
        let refused = room.refused(Room::Policies, "infra", &limits);
        let only = (policy("noisy", "d"), Budget::GatewayPolicies);
        assert_eq!(refused.into_iter().collect::<Vec<_>>(), [only]);
    }

    #[test]
    fn tenants_take_no_room_of_the_policies_in_the_namespace_of_the_gateway() {
        let limits = Limits::default()
            .with(Budget::GatewayNetworks, 100)
            .with(Budget::GatewayNetworkBytes, 100);
        let holder = |namespace: &str, name: &str| Holder {
            kind: HolderKind::Networks,
            name: ObjectName::new(namespace, name),
        };
        let mut room = RoomUse::default();
        for (created, tenant) in [(1, "a"), (2, "b"), (3, "c"), (4, "d")] {
            room.add(&holder(tenant, "many"), created, [20, 20]);
        }
        // The newest, and more than an equal part.
        room.add(&holder("infra", "enforced"), 9, [50, 50]);
        let refused: Vec<_> = { room.refused(Room::Networks, "infra", &limits) }
            .into_keys()
            .collect();
        assert_eq!(refused, [holder("c", "many"), holder("d", "many")]);
        // Its own policies are not without limits.
        room.add(&holder("infra", "too-many"), 10, [60, 60]);
        let refused = room.refused(Room::Networks, "infra", &limits);
        assert!(refused.contains_key(&holder("infra", "too-many")));
        assert!(!refused.contains_key(&holder("infra", "enforced")));
    }

    /// Those without room for their keys take memory too: the number of all of them is limited.
    #[test]
    fn rules_without_room_for_their_keys_count_among_the_rules() {
        let limits = Limits::default()
            .with(Budget::GatewayRateRules, 4)
            .with(Budget::GatewayRateTables, 100);
        let mut room = RoomUse::default();
        let holder = |name: &str| Holder {
            kind: HolderKind::RateTables,
            name: ObjectName::new("noisy", name),
        };
        for (created, name) in [(1, "a"), (2, "b"), (3, "c"), (4, "d"), (5, "e")] {
            room.add(&holder(name), created, [1, 50]);
        }
        let refused: Vec<_> = room
            .refused(Room::RateTables, "infra", &limits)
            .into_iter()
            .collect();
        let (rules, tables) = (Budget::GatewayRateRules, Budget::GatewayRateTables);
        let expected = [("c", tables), ("d", tables), ("e", rules)];
        assert_eq!(
            refused,
            expected.map(|(name, budget)| (holder(name), budget))
        );
    }
}
