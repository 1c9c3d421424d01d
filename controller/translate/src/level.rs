//! How bad a problem is.

use std::fmt;

/// How bad a problem is, the mildest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Worth knowing, and probably meant so.
    Note,
    /// Everything is served, but probably not as it was meant.
    Warning,
    /// Something does not work as it is written.
    Error,
}

impl Level {
    /// The level in one word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
