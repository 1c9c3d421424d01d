//! ListenerSet.

use super::listener::listeners;
use super::{Admissible, reference};
use crate::admit::check::Check;
use crate::admit::syntax;
use crate::api::ListenerSet;

impl Admissible for ListenerSet {
    const READS_STATUS: bool = true;
    const UNREAD: &'static [&'static str] = &["status"];

    fn check(&self, check: &mut Check) {
        check.field("spec", |check| {
            check.field("parentRef", |check| {
                let parent = &self.spec.parent_ref;
                reference::group_and_kind(check, &parent.group, &parent.kind);
                check.fits_field("name", Some(&parent.name), syntax::object_name);
                check.fits_field("namespace", parent.namespace.as_deref(), syntax::label);
            });
            listeners(check, &self.spec.listeners);
        });
    }
}
