//! What endpoint pickers of inference pools said.

use super::causes::ByCause;
use super::counters::Histogram;
use crate::names::causes;

/// Questions to endpoint pickers.
#[derive(Debug, Default)]
pub struct Picks {
    /// By what came of them.
    pub results: ByCause<PickResult>,
    /// How long they took, the request's body included.
    pub took: Histogram,
}

causes! {
    /// What came of a question to an endpoint picker.
    PickResult;
    /// It named endpoints.
    Picked "picked";
    /// It answered the request itself.
    Answered "answered";
    /// It failed, and load balancing chose.
    FailedOpen "failed_open";
    /// It failed, and so did the request.
    FailedClosed "failed_closed";
}
