//! Text that many objects have in common: namespaces, kinds, names of Gateways.

use std::borrow::Borrow;
use std::cell::RefCell;
use std::fmt;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::ops::Deref;
use std::sync::Arc;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A shared text: a clone costs a reference count. Objects that are read one after the other mostly
/// have the same namespaces and parents, so equal texts are mostly kept once.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(Arc<str>);

impl Text {
    /// The same text for the model, which shares it.
    #[must_use]
    pub fn to_shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        if text.len() > MAX_KEPT_BYTES {
            return Self(text.into());
        }
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(text);
        RECENT.with_borrow_mut(|recent| {
            let slot = usize::try_from(hash).unwrap_or_default() % RECENT_TEXTS;
            let kept = &mut recent[slot];
            if **kept != *text {
                *kept = text.into();
            }
            Self(Arc::clone(kept))
        })
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;

        impl Visitor<'_> for TextVisitor {
            type Value = Text;

            // As for a `String`: admission looks for it in errors.
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E>(self, text: &str) -> Result<Text, E> {
                Ok(text.into())
            }
        }

        deserializer.deserialize_str(TextVisitor)
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

thread_local! {
    /// Recently read texts, each at the slot of its hash.
    static RECENT: RefCell<[Arc<str>; RECENT_TEXTS]> =
        RefCell::new(std::array::from_fn(|_| Arc::default()));
}

/// Enough for the namespaces, kinds, groups and parents of consecutive objects.
const RECENT_TEXTS: usize = 256;
/// Longer texts are not kept beyond their objects: no name is so long.
const MAX_KEPT_BYTES: usize = 256;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{MAX_KEPT_BYTES, Text};

    #[test]
    fn equal_texts_share_their_memory() {
        let [one, other] = ["team-a"; 2].map(Text::from);
        assert!(Arc::ptr_eq(&one.to_shared(), &other.to_shared()));
        let read: Text = serde_json::from_str("\"team-a\"").expect("a string");
        assert!(Arc::ptr_eq(&one.to_shared(), &read.to_shared()));
    }

    #[test]
    fn a_long_text_is_freed_with_its_objects() {
        let text = Text::from("x".repeat(MAX_KEPT_BYTES + 1).as_str());
        assert_eq!(Arc::strong_count(&text.0), 1);
    }
}
