//! ReferenceGrant.

use crate::files::check::Check;
use crate::files::syntax;
use crate::objects::admission::Admissible;
use crate::objects::api::ReferenceGrant;

impl Admissible for ReferenceGrant {
    fn check(&self, check: &mut Check) {
        check.field("spec", |check| {
            for (name, count) in [("from", self.spec.from.len()), ("to", self.spec.to.len())] {
                if count == 0 {
                    check.missing(name, "is required: at least one entry is needed");
                }
                check.at_most(name, count, MAX_ENTRIES);
            }
            check.each("from", &self.spec.from, |check, from| {
                check.fits_field("group", Some(&from.group), syntax::group);
                check.fits_field("kind", Some(&from.kind), syntax::kind);
                check.fits_field("namespace", Some(&from.namespace), syntax::label);
            });
            check.each("to", &self.spec.to, |check, to| {
                check.fits_field("group", Some(&to.group), syntax::group);
                check.fits_field("kind", Some(&to.kind), syntax::kind);
                check.fits_field("name", to.name.as_deref(), syntax::object_name);
            });
        });
    }
}

const MAX_ENTRIES: usize = 16;
