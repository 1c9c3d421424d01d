//! HTTPRoutes and GRPCRoutes with hosts of one listener: which of them lose it.

use std::collections::{BTreeMap, BTreeSet};

use xds::model::{ListenerKey, ObjectName};

use crate::api::{GrpcRoute, HttpRoute, Resource as _};
use crate::lower::route_conflict::{self, RouteId};
use crate::reader::Fact;
use crate::translator::unit::{Changes, State, Unit, UnitReader};

/// A listener by key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RivalsUnit(pub(crate) ListenerKey);

impl Unit for RivalsUnit {
    /// The losers, each with the route that has their hosts.
    type Output = BTreeMap<RouteId, RouteId>;

    fn compute(&self, reader: &UnitReader<'_>) -> Option<Self::Output> {
        let contests = reader.contests;
        let http = contests.http_routes.at(&self.0)?;
        let grpc = contests.grpc_routes.at(&self.0)?;
        let losers = route_conflict::find_losers((HttpRoute::KIND, http), (GrpcRoute::KIND, grpc));
        (!losers.is_empty()).then_some(losers)
    }

    fn publish(
        &self,
        old: Option<&Self::Output>,
        new: Option<&Self::Output>,
        changes: &mut Changes<'_>,
    ) {
        let none = BTreeMap::new();
        let (old, new) = (old.unwrap_or(&none), new.unwrap_or(&none));
        let routes: BTreeSet<&RouteId> = old.keys().chain(new.keys()).collect();
        for route in routes {
            if old.get(route) != new.get(route) {
                let (kind, name) = route.clone();
                changes.fact(Fact::LostListener(self.0.clone(), kind, name));
            }
        }
    }

    fn is_alive(&self, state: &State) -> bool {
        let contests = &state.contests;
        contests.http_routes.at(&self.0).is_some() || contests.grpc_routes.at(&self.0).is_some()
    }
}

impl<'a> UnitReader<'a> {
    /// The route of another kind to which a route lost a listener.
    pub(super) fn rival(
        &self,
        listener: &ListenerKey,
        (kind, name): (&'static str, &ObjectName),
    ) -> Option<&'a RouteId> {
        self.depend_on(Fact::LostListener(listener.clone(), kind, name.clone()));
        let losers = self.tables.rivals.get(&RivalsUnit(listener.clone()))?;
        losers.get(&(kind, name.clone()))
    }
}
