//! The regular expressions of all routes at a Gateway: which routes they do not fit for.

use std::collections::{BTreeMap, BTreeSet};

use xds::fast_hash::FastHashSet;
use xds::model::{ObjectName, Pattern};

use super::fair_share::share;
use super::views::RouteRank;
use super::{Budget, Use};
use crate::engine::claims::ExpressionClaim;
use crate::engine::fact::Fact;
use crate::engine::unit::{Changes, State, Unit, UnitReader};
use crate::gateway::api::Gateway;
use crate::objects::object_ref::ObjectRef;
use crate::route::closed::{MAX_STARTS_BYTES, Starts};
use crate::route::name::RouteName;
use crate::status::problem::{Problem, unsupported};
use crate::units::ExpressionsUnit;

/// What the expressions at a Gateway take, if that is much.
#[derive(Debug, PartialEq)]
pub(crate) struct GatewayExpressions {
    /// With those of refused routes, in bytes.
    wanted: u64,
    limit: u64,
    /// The routes that are refused for their expressions, each with what closes it.
    refused: BTreeMap<RouteName, Starts>,
}

type Claim<'a> = (&'a RouteRank, &'a ExpressionClaim);

impl Unit for ExpressionsUnit {
    type Output = GatewayExpressions;

    fn compute(&self, reader: &UnitReader<'_>) -> Option<GatewayExpressions> {
        let claims = reader.claims.expressions.at(&self.0)?;
        let limit = reader.options().budgets.of(LIMIT);
        // Proxies keep equal expressions once, but mostly the sum of all is far below the limit.
        let bytes = claims.values().map(|claim| claim.bytes);
        if bytes.fold(0, u64::saturating_add) <= limit / 2 {
            return None;
        }
        let claims = claims.iter();
        let claims =
            claims.filter(|((_, route), _)| reader.refused_by_view(&self.0, route).is_none());
        let claims: Vec<Claim<'_>> = claims.collect();
        let mut all = Known::default();
        for (_, claim) in &claims {
            all.take(claim);
        }
        let without = left_out(&claims, limit);
        let for_closed = reader.options().budgets.for_closed().of(LIMIT);
        let for_closed = for_closed.max(MAX_STARTS_BYTES);
        Some(GatewayExpressions {
            wanted: all.bytes,
            limit,
            refused: closed(&without, for_closed),
        })
    }

    fn publish(
        &self,
        old: Option<&GatewayExpressions>,
        new: Option<&GatewayExpressions>,
        changes: &mut Changes<'_>,
    ) {
        let gateway = ObjectRef::of::<Gateway>(&self.0);
        changes.uses(&gateway, &uses(old), &uses(new));
        let none = BTreeMap::new();
        let old = old.map_or(&none, |it| &it.refused);
        let new = new.map_or(&none, |it| &it.refused);
        let routes: BTreeSet<&RouteName> = old.keys().chain(new.keys()).collect();
        for route in routes {
            if old.get(route) != new.get(route) {
                changes.fact(Fact::RefusedExpressions(self.0.clone(), route.object_ref()));
            }
        }
    }

    fn is_alive(&self, state: &State) -> bool {
        state.claims.expressions.at(&self.0).is_some()
    }
}

fn uses(expressions: Option<&GatewayExpressions>) -> Vec<(Budget, Use)> {
    let used = expressions.map(|it| Use {
        used: it.wanted,
        limit: it.limit,
        refused: u32::try_from(it.refused.len()).unwrap_or(u32::MAX),
    });
    used.into_iter().map(|it| (LIMIT, it)).collect()
}

/// Expressions, equal ones once.
#[derive(Default)]
struct Known<'a> {
    seen: FastHashSet<&'a str>,
    bytes: u64,
}

impl<'a> Known<'a> {
    /// What they would take with those of a route.
    fn with(&self, claim: &ExpressionClaim) -> u64 {
        let expressions = claim.expressions.iter();
        let new = expressions.filter(|it| !self.seen.contains(it.as_str()));
        let new: u64 = new.map(|it| it.compiled_bytes() as u64).sum();
        self.bytes + new
    }

    fn take(&mut self, claim: &'a ExpressionClaim) {
        self.bytes = self.with(claim);
        self.seen
            .extend(claim.expressions.iter().map(Pattern::as_str));
    }
}

/// The routes whose expressions do not fit. First each namespace gets its share, then whatever is left goes
/// to those that fit into it; among equals the older one comes first.
fn left_out<'a>(claims: &[Claim<'a>], limit: u64) -> Vec<Claim<'a>> {
    let mut wanted: BTreeMap<&str, Known<'_>> = BTreeMap::new();
    for (rank, claim) in claims {
        wanted.entry(namespace(rank)).or_default().take(claim);
    }
    let share = share(wanted.values().map(|it| it.bytes), limit).min(limit);
    let mut used: BTreeMap<&str, Known<'_>> = BTreeMap::new();
    let mut all = Known::default();
    let mut waiting = Vec::new();
    for (rank, claim) in claims {
        let own = used.entry(namespace(rank)).or_default();
        if own.with(claim) <= share {
            own.take(claim);
            all.take(claim);
        } else {
            waiting.push((*rank, *claim));
        }
    }
    waiting.retain(|(_, claim)| {
        let fits = all.with(claim) <= limit;
        if fits {
            all.take(claim);
        }
        !fits
    });
    waiting
}

/// What closes refused routes: the literal starts of their paths as long as these have room, in the same
/// order.
fn closed(refused: &[Claim<'_>], limit: u64) -> BTreeMap<RouteName, Starts> {
    let mut wanted: BTreeMap<&str, u64> = BTreeMap::new();
    for (rank, claim) in refused {
        *wanted.entry(namespace(rank)).or_default() += claim.start_bytes;
    }
    let share = share(wanted.into_values(), limit);
    let mut used: BTreeMap<&str, u64> = BTreeMap::new();
    let refused = refused.iter().map(|(rank, claim)| {
        let own = used.entry(namespace(rank)).or_default();
        let with = *own + claim.start_bytes;
        let starts = if with <= share {
            *own = with;
            Starts::Kept
        } else {
            Starts::LeftOut
        };
        (rank.1.clone(), starts)
    });
    refused.collect()
}

fn namespace((_, route): &RouteRank) -> &str {
    &route.name.namespace
}

impl UnitReader<'_> {
    /// Why a Gateway does not take a route with its expressions, and what closes it.
    pub(crate) fn refused_expressions(
        &self,
        gateway: &ObjectName,
        route: &RouteName,
    ) -> Option<(Problem, Starts)> {
        self.depend_on(Fact::RefusedExpressions(
            gateway.clone(),
            route.object_ref(),
        ));
        let unit = ExpressionsUnit(gateway.clone());
        let expressions = self.tables.get(&unit)?;
        let starts = *expressions.refused.get(route)?;
        let limit = LIMIT.definition().unit.text(expressions.limit);
        // Without sums, which change with every other route.
        let message = format!(
            "its regular expressions exceed the budget of Gateway {gateway}, which is {limit} for all routes \
             when compiled, so its requests get status 500 there: use fewer or simpler ones in this route or \
             in others"
        );
        Some((unsupported("", message), starts))
    }
}

const LIMIT: Budget = Budget::GatewayExpressionBytes;
