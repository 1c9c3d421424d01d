//! The cases: each creates a Gateway with its backends, changes something, and records the results.

mod attached_routes;
mod endpoints;
mod listener_sets;
mod probe;
mod reconnect;
mod route_change;
mod route_scale;
mod settled;

use anyhow::Result;

use crate::control_plane::args::Case;
use crate::control_plane::context::Context;
use crate::control_plane::record::Measured;

/// Results so far, by name.
pub(crate) type Done = Vec<(String, Measured)>;

/// Runs a case. Results measured before a failure are kept in `done`.
pub(crate) async fn run(context: &Context<'_>, case: Case, done: &mut Done) -> Result<()> {
    let measured = match case {
        Case::AttachedRoutes => attached_routes::run(context).await?,
        Case::Probe => probe::run(context).await?,
        Case::RouteChange => route_change::run(context).await?,
        Case::RouteScale => return route_scale::run(context, done).await,
        Case::ListenerSets => listener_sets::run(context).await?,
        Case::Reconnect => reconnect::run(context).await?,
        Case::Endpoints => endpoints::run(context).await?,
    };
    done.push((case.to_string(), measured));
    Ok(())
}
