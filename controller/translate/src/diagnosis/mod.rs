//! What is valid and does not work as it is written: no reference is broken, so no condition of Gateway API is
//! for it, and requests fail all the same.
//!
//! Pure, from the objects alone, so that `gateway check`, the log of file mode, the controller's conditions and
//! Events, and `gwctl status` say the same of the same objects. It is no part of translation: nothing here changes
//! what is served.

mod backends;
mod claims;
mod endpoints;
mod grants;
mod hint;
mod known_services;
mod listeners;
mod networks;
mod parents;
mod passwords;
mod paths;
mod policies;
mod redirects;
mod room;
mod rules;
mod services;
mod twins;
mod view;

use std::fmt;

use crate::level::Level;
use crate::objects::object_ref::ObjectRef;
use crate::objects::store::Store;
use crate::options::Options;
use crate::status::Reason;

pub use hint::{Hints, Others};
use view::View;

/// Something that does not work as it is written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Diagnosis {
    /// The object that its user can correct.
    pub object: ObjectRef,
    /// How bad it is.
    pub level: Level,
    /// The field: `spec.rules[0].backendRefs[1]`.
    pub field: String,
    /// Category, as the reason of a condition.
    pub reason: Reason,
    /// What happens, why, and what to do next.
    pub text: String,
    /// Whether it is about an object that nothing refers to, but that probably means one of our Gateways.
    pub is_probably_ours: bool,
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.object, self.field, self.text)
    }
}

/// Examines all objects; sorted, by object.
#[must_use]
pub fn diagnose(store: &Store, options: &Options, others: Others) -> Vec<Diagnosis> {
    let view = View::new(store, options, others);
    let mut found = Vec::new();
    parents::examine(&view, &mut found);
    for route in view.routes() {
        if !view.is_ours(route) {
            continue;
        }
        rules::examine(&view, route, &mut found);
        paths::examine(route, &mut found);
        redirects::examine(&view, route, &mut found);
        backends::of_route(&view, route, &mut found);
    }
    twins::examine(&view, &mut found);
    claims::examine(&view, &mut found);
    policies::examine(&view, &mut found);
    passwords::examine(&view, &mut found);
    backends::examine(&view, &mut found);
    grants::examine(&view, &mut found);
    found.sort();
    found.dedup();
    found
}

/// A finding about a field of an object.
fn finding(
    object: &ObjectRef,
    level: Level,
    (field, reason): (String, Reason),
    text: String,
) -> Diagnosis {
    Diagnosis {
        object: object.clone(),
        level,
        field,
        reason,
        text,
        is_probably_ours: false,
    }
}

#[cfg(test)]
mod tests;
