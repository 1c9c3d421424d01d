//! Gateway API objects in, model and statuses out: pure and synchronous.
//!
//! `admit` makes typed objects of text, `store` keeps them, and [`translate`] makes of the store
//! what the proxies are told and what the user is told. It never fails: an object that cannot be
//! carried out says so in its own status, and everything else works.

pub mod admit;
pub mod api;
pub mod check;
pub mod expiry;
mod infrastructure;
mod jwks;
mod lower;
mod options;
mod problem;
mod resolve;
pub mod status;
pub mod store;

use std::collections::BTreeMap;

use jiff::Timestamp;
use xds::model::{Model, ObjectName};

pub use infrastructure::Infrastructure;
pub use options::{CONTROLLER_NAME, DEFAULT_CLASS, Options, Place};
use resolve::World;
use resolve::gateway::Gateways;
pub use status::Statuses;
pub use store::{Object, ObjectRef, Store};

/// What the objects of a store come to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Translation {
    /// What the proxies are told.
    pub model: Model,
    /// What the user is told.
    pub statuses: Statuses,
    /// What is to be set up for each accepted Gateway; empty on a machine.
    pub infrastructure: BTreeMap<ObjectName, Infrastructure>,
    /// From when on the user is told something else although no object has changed: a certificate
    /// has expired then.
    pub changes_after: Option<Timestamp>,
}

/// Translates all objects of a store. The same store gives the same translation, at the same time.
#[must_use]
pub fn translate(store: &Store, options: &Options) -> Translation {
    let world = World::of(store, options);
    let mut gateways = Gateways::of(&world);
    let mut routes = resolve::route::resolve_all(&world, &mut gateways);
    let policies = resolve::policy::resolve_all(&world, &gateways, &routes);
    let model = lower::model(&world, &gateways, &mut routes, &policies);
    let statuses = Statuses::of(&world, &gateways, &routes, &policies, &model);
    Translation {
        model,
        statuses,
        infrastructure: infrastructure::of(&gateways, options),
        changes_after: [
            gateways.next_expiry(),
            world.backend_tls.next_expiry(),
            world.backends.next_expiry(),
        ]
        .into_iter()
        .flatten()
        .min(),
    }
}
