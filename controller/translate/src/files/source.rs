//! Input files by name and text.

/// The text of a configuration file, or why it cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Its path, for findings.
    pub name: String,
    text: Result<String, String>,
}

impl Source {
    /// A file with this text. One that is too large counts as unreadable.
    #[must_use]
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        let (name, text) = (name.into(), text.into());
        let text = if text.len() > MAX_BYTES {
            let size = text.len() >> 20;
            Err(format!(
                "has {size} MiB: the limit is {} MiB; split it",
                MAX_BYTES >> 20
            ))
        } else {
            Ok(text)
        };
        Self { name, text }
    }

    /// A file with these bytes, which have to be UTF-8.
    #[must_use]
    pub fn from_bytes(name: impl Into<String>, bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Self::new(name, text.strip_prefix('\u{feff}').unwrap_or(&text)),
            Err(error) => {
                let location = error.utf8_error().valid_up_to();
                Self::unreadable(
                    name,
                    format!("is not UTF-8 at byte {location}: save it as UTF-8"),
                )
            }
        }
    }

    /// A file that could not be read: its previous content stays in effect.
    #[must_use]
    pub fn unreadable(name: impl Into<String>, why: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            text: Err(why.into()),
        }
    }

    pub(crate) fn text(&self) -> Result<&str, &str> {
        self.text.as_deref().map_err(String::as_str)
    }
}

/// Larger than any sensible configuration.
const MAX_BYTES: usize = 64 << 20;
