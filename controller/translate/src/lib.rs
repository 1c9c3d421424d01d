//! Translates Gateway API objects into the model and statuses: pure and synchronous.
//!
//! `files` turns text into typed objects, `objects` keeps them, and [`translate`] derives the
//! proxies' configuration and the users' statuses. It never fails: an invalid object is reported in
//! its own status, and everything else works.

pub mod backend;
pub mod budgets;
mod catalogue;
pub mod check;
pub mod diagnosis;
mod engine;
pub mod expiry;
pub mod files;
pub mod gateway;
mod level;
pub mod naming;
pub mod network;
pub mod objects;
mod options;
pub mod policy;
pub mod route;
pub mod status;
mod units;

/// The types of all objects, as they are written.
pub mod api {
    pub use crate::backend::api::*;
    pub use crate::gateway::api::*;
    pub use crate::objects::api::*;
    pub use crate::policy::api::*;
    pub use crate::route::api::*;
}

use std::collections::BTreeMap;

use jiff::Timestamp;
use xds::model::{Model, ObjectName};

pub use crate::budgets::ledger::{BudgetUse, Series};
pub use crate::engine::{Batch, Defect, Delta, Event, Translator, ViewChange, note_panic};
pub use crate::gateway::infrastructure::Infrastructure;
pub use crate::gateway::pods::{NOT_ALL_RUN, Obstacle, WorkloadState, why_not_running};
pub use crate::gateway::session_keys;
pub use crate::level::Level;
pub use crate::objects::kinds::ObjectKind;
pub use crate::objects::object_ref::ObjectRef;
pub use crate::objects::store::{Object, Store};
pub use crate::options::{
    AssignedAddresses, CLUSTER_DOMAIN, CONTROLLER_NAME, DEFAULT_CLASS, Environment, ListenerLimits,
    NoAddress, Options,
};
pub use crate::status::Statuses;

/// The result of translating a store.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Translation {
    /// The resources for the proxies of all Gateways.
    pub model: Model,
    /// The statuses of all objects, for their users.
    pub statuses: Statuses,
    /// The infrastructure of each accepted Gateway; empty on a machine.
    pub infrastructure: BTreeMap<ObjectName, Infrastructure>,
    /// When the result changes although no object has: a certificate expires.
    pub changes_after: Option<Timestamp>,
}

/// Translates all objects of a store, as one batch. Deterministic for the same store and time.
///
/// # Panics
///
/// By a defect: others than a [`Translator`] need not go on then.
#[must_use]
pub fn translate(store: &Store, options: &Options) -> Translation {
    let mut translator = Translator::new(options.clone());
    let events = store.objects().map(Event::Upsert);
    let batch = events.chain([Event::Start]).collect();
    let delta = translator.apply(batch, options.now.unwrap_or(Timestamp::MIN));
    let defects = translator.take_defects();
    assert!(defects.is_empty(), "{defects:?}");
    let mut translation = Translation {
        changes_after: delta.wake_at.filter(|_| options.now.is_some()),
        ..Translation::default()
    };
    translation.model.apply(delta.resources);
    for (object, status) in delta.statuses {
        translation.statuses.set(object, status);
    }
    for (gateway, infrastructure) in delta.infrastructure {
        let infrastructure = infrastructure.map(|it| (gateway, it));
        translation.infrastructure.extend(infrastructure);
    }
    translation
}
