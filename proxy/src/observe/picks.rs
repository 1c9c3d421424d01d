//! Endpoint picker calls.

use super::causes::ByCause;
use super::counters::Histogram;
use crate::names::causes;

/// Calls to endpoint pickers.
#[derive(Debug, Default)]
pub struct Picks {
    /// Calls of endpoint pickers by their result.
    pub results: ByCause<PickResult>,
    /// Responses whose picker failed after it had answered about the request.
    pub review_failures: ByCause<ReviewFailure>,
    /// Duration, including sending the request body.
    pub took: Histogram,
}

causes! {
    /// The result of a call to an endpoint picker.
    PickResult;
    Picked "picked";
    /// The picker responded to the request itself.
    Answered "answered";
    /// It failed, and load balancing chose.
    FailedOpen "failed_open";
    /// It failed, and so did the request.
    FailedClosed "failed_closed";
}

causes! {
    /// The consequence for a response whose endpoint picker has failed.
    ReviewFailure;
    /// The response went on without the picker.
    FailedOpen "failed_open";
    /// It was replaced by an error, or cut short.
    FailedClosed "failed_closed";
}
