//! HTTPRoutes and GRPCRoutes with hosts of one listener: which of them conflict.

use std::collections::{BTreeMap, BTreeSet};

use xds::model::ListenerKey;

use super::conflict;
use super::name::{RouteKind, RouteName};
use crate::engine::fact::Fact;
use crate::engine::unit::{Changes, State, Unit, UnitReader};
use crate::units::RouteConflictsUnit;

impl Unit for RouteConflictsUnit {
    /// The conflicts, each with the route that has their hosts.
    type Output = BTreeMap<RouteName, RouteName>;

    fn compute(&self, reader: &UnitReader<'_>) -> Option<Self::Output> {
        let claims = reader.claims;
        let http = claims.http_routes.at(&self.0)?;
        let grpc = claims.grpc_routes.at(&self.0)?;
        let conflicts = conflict::find_conflicts((RouteKind::Http, http), (RouteKind::Grpc, grpc));
        (!conflicts.is_empty()).then_some(conflicts)
    }

    fn publish(
        &self,
        old: Option<&Self::Output>,
        new: Option<&Self::Output>,
        changes: &mut Changes<'_>,
    ) {
        let none = BTreeMap::new();
        let (old, new) = (old.unwrap_or(&none), new.unwrap_or(&none));
        let routes: BTreeSet<&RouteName> = old.keys().chain(new.keys()).collect();
        for route in routes {
            if old.get(route) != new.get(route) {
                changes.fact(Fact::LostListener(self.0.clone(), route.object_ref()));
            }
        }
    }

    fn is_alive(&self, state: &State) -> bool {
        let claims = &state.claims;
        claims.http_routes.at(&self.0).is_some() || claims.grpc_routes.at(&self.0).is_some()
    }
}

impl<'a> UnitReader<'a> {
    /// The route of another kind to which a route lost a listener.
    pub(crate) fn conflicting_route(
        &self,
        listener: &ListenerKey,
        route: &RouteName,
    ) -> Option<&'a RouteName> {
        self.depend_on(Fact::LostListener(listener.clone(), route.object_ref()));
        let conflicts = self.tables.get(&RouteConflictsUnit(listener.clone()))?;
        conflicts.get(route)
    }
}
