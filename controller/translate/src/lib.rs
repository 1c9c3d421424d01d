//! Gateway API objects in, model and statuses out: pure and synchronous.
//!
//! `admit` makes typed objects of text, `store` keeps them, and [`translate`] makes of the store
//! what the proxies are told and what the user is told. It never fails: an object that cannot be
//! carried out says so in its own status, and everything else works.

pub mod admit;
pub mod api;
pub mod check;
pub mod expiry;
pub mod expression;
mod infrastructure;
mod jwks;
mod lower;
pub mod naming;
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
pub use options::{AssignedAddresses, CONTROLLER_NAME, DEFAULT_CLASS, Options, Place};
pub use status::Statuses;
pub use store::{Object, ObjectRef, Store};
pub use translator::{Batch, Delta, Event, Translator, ViewChange};

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

/// Translates all objects of a store, as one batch. The same store gives the same translation, at the
/// same time.
#[must_use]
pub fn translate(store: &Store, options: &Options) -> Translation {
    let mut translator = Translator::new(options.clone());
    let events = store.objects().map(Event::Upsert);
    let batch = events.chain([Event::Synced]).collect();
    let delta = translator.apply(batch, options.now.unwrap_or(Timestamp::MIN));
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
