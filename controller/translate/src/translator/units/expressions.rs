//! The regular expressions of all routes at a Gateway: which routes they do not fit for.

use std::collections::{BTreeMap, BTreeSet};

use xds::fast_hash::FastHashSet;
use xds::model::{ObjectName, Pattern};

use super::RouteName;
use crate::api::Gateway;
use crate::budgets::{Budget, Use};
use crate::lower::matches::unsupported;
use crate::problem::Problem;
use crate::reader::Fact;
use crate::store::ObjectRef;
use crate::translator::unit::{Changes, State, Unit, UnitReader};

/// The expressions at a Gateway, by its name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ExpressionsUnit(pub(crate) ObjectName);

/// What the expressions at a Gateway take, if that is much.
#[derive(Debug, PartialEq)]
pub(crate) struct GatewayExpressions {
    /// With those of refused routes, in bytes.
    wanted: u64,
    limit: u64,
    /// The routes that are refused for their expressions, each with what these and those of older routes
    /// would take.
    refused: BTreeMap<RouteName, u64>,
}

impl Unit for ExpressionsUnit {
    type Output = GatewayExpressions;

    /// The oldest routes come first. A younger one may fit where an older one does not.
    fn compute(&self, reader: &UnitReader<'_>) -> Option<GatewayExpressions> {
        let claims = reader.claims.expressions.at(&self.0)?;
        let limit = reader.options().budgets.of(LIMIT);
        // Proxies keep equal expressions once, but mostly the sum of all is far below the limit.
        if claims.values().map(|claim| claim.bytes).sum::<u64>() <= limit / 2 {
            return None;
        }
        let mut refused = BTreeMap::new();
        let mut seen: FastHashSet<&str> = FastHashSet::default();
        let (mut used, mut wanted) = (0, 0);
        for (((_, name), kind), claim) in claims {
            let new = claim
                .expressions
                .iter()
                .filter(|it| !seen.contains(it.as_str()));
            let new: u64 = new.map(|it| it.compiled_bytes() as u64).sum();
            let bytes = used + new;
            wanted += new;
            if bytes <= limit {
                used = bytes;
                seen.extend(claim.expressions.iter().map(Pattern::as_str));
            } else {
                let route = RouteName {
                    kind: *kind,
                    name: name.clone(),
                };
                refused.insert(route, bytes);
            }
        }
        Some(GatewayExpressions {
            wanted,
            limit,
            refused,
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
                let RouteName { kind, name } = route;
                let (gateway, kind, name) = (self.0.clone(), kind.as_str(), name.clone());
                changes.fact(Fact::RefusedExpressions(gateway, kind, name));
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

impl UnitReader<'_> {
    /// Why a Gateway does not take a route with its expressions.
    pub(super) fn refused_expressions(
        &self,
        gateway: &ObjectName,
        route: &RouteName,
    ) -> Option<Problem> {
        let RouteName { kind, name } = route;
        let fact = Fact::RefusedExpressions(gateway.clone(), kind.as_str(), name.clone());
        self.depend_on(fact);
        let unit = ExpressionsUnit(gateway.clone());
        let expressions = self.tables.expressions.get(&unit)?;
        let kib = expressions.refused.get(route)?.div_ceil(1024);
        let budget = expressions.limit / 1024;
        let message = format!(
            "its regular expressions exceed the budget of Gateway {gateway}: with those of older \
             routes they take {kib} KiB of {budget} KiB when compiled, so its requests get status \
             500 there: use fewer or simpler ones in this route or in others"
        );
        Some(unsupported("", message))
    }
}

const LIMIT: Budget = Budget::GatewayExpressionBytes;
