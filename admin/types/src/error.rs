//! What a JSON endpoint answers when it refuses.

use serde::{Deserialize, Serialize};

/// The body of an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorAnswer {
    /// What is wrong, and how it is done right: one line.
    pub error: String,
}
