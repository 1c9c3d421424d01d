//! Error responses of the JSON endpoints.

use serde::{Deserialize, Serialize};

/// The body of an error response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorAnswer {
    /// One line: what is wrong, and what to do about it.
    pub error: String,
}
