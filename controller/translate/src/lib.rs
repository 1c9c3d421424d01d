//! Translates Gateway API objects into the model and statuses: pure and synchronous.
//!
//! `admit` turns text into typed objects, `store` keeps them, and [`translate`] derives the
//! proxies' configuration and the users' statuses. It never fails: an invalid object is reported in
//! its own status, and everything else works.

pub mod admit;
#[expect(
    missing_docs,
    reason = "most fields are documented by the references of Kubernetes and Gateway API"
)]
pub mod api;
pub mod budgets;
pub mod check;
pub mod expiry;
pub mod expression;
mod infrastructure;
mod jwks;
mod lower;
pub mod naming;
pub mod network;
mod options;
mod owner;
mod problem;
mod reader;
mod reason;
mod resolve;
pub mod status;
pub mod store;
mod translator;
mod upstream;

use std::collections::BTreeMap;

use jiff::Timestamp;
use xds::model::{Model, ObjectName};

pub use infrastructure::Infrastructure;
pub use options::{
    AssignedAddresses, CLUSTER_DOMAIN, CONTROLLER_NAME, DEFAULT_CLASS, Environment, ListenerLimits,
    Options,
};
pub use status::Statuses;
pub use store::{Object, ObjectRef, Store};
pub use translator::{
    Batch, BudgetUse, Defect, Delta, Event, Series, Translator, ViewChange, note_panic,
};

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
        translation.statuses.set(&object, status);
    }
    for (gateway, infrastructure) in delta.infrastructure {
        let infrastructure = infrastructure.map(|it| (gateway, it));
        translation.infrastructure.extend(infrastructure);
    }
    translation
}
