//! Error responses of the JSON endpoints.

use serde::{Deserialize, Serialize};

/// The body of an error response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorAnswer {
    /// One line: the problem, and what to do about it.
    pub error: String,
}
