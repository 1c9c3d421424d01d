//! The field `pathRewrite` of policies: how paths are rewritten for backends.

use serde::{Deserialize, Serialize};

/// A rewrite of paths by a regular expression.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct PathRewriteSpec {
    /// An extended regular expression (GEP-4359). Every match in the path is replaced.
    pub pattern: String,
    /// What takes its place; `\1` is the text of the first group.
    pub substitution: String,
}
