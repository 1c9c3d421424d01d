//! Our own kinds: their definitions say everything.

use super::Admissible;
use crate::admit::check::Check;
use crate::admit::crd;
use crate::admit::schema::Schema;
use crate::api::{Backend, TrafficPolicy};

impl Admissible for Backend {
    fn schema() -> Option<&'static Schema> {
        Some(&crd::BACKEND)
    }

    fn check(&self, _: &mut Check) {}
}

impl Admissible for TrafficPolicy {
    fn schema() -> Option<&'static Schema> {
        Some(&crd::TRAFFIC_POLICY)
    }

    fn check(&self, _: &mut Check) {}
}
