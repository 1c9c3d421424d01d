//! What comes in: files by name and text.

/// A file as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// How findings name it: its path.
    pub name: String,
    text: Result<String, String>,
}

impl Source {
    /// A file of this text. One that is too large counts as unreadable.
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

    /// A file of these bytes, which have to be UTF-8.
    #[must_use]
    pub fn from_bytes(name: impl Into<String>, bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Self::new(name, text.strip_prefix('\u{feff}').unwrap_or(&text)),
            Err(error) => {
                let place = error.utf8_error().valid_up_to();
                Self::unreadable(
                    name,
                    format!("is not UTF-8 at byte {place}: save it as UTF-8"),
                )
            }
        }
    }

    /// A file that is there and could not be read: what it held stays in force.
    #[must_use]
    pub fn unreadable(name: impl Into<String>, why: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            text: Err(why.into()),
        }
    }

    pub(super) fn text(&self) -> Result<&str, &str> {
        self.text.as_deref().map_err(String::as_str)
    }
}

/// Beyond any configuration that is meant to be one.
const MAX_BYTES: usize = 64 << 20;
