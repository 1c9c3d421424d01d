//! References from a route to its parents.

use std::cell::RefCell;
use std::fmt;
use std::num::NonZeroU16;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::objects::api::Text;
use crate::objects::kinds::GATEWAY_GROUP;

/// The parent that a route attaches to, which its status repeats.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ParentReference {
    #[serde(default = "gateway_group")]
    pub group: Text,
    #[serde(default = "gateway")]
    pub kind: Text,
    /// Namespace; the route's by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Text>,
    pub name: Text,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section_name: Option<Text>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<NonZeroU16>,
}

/// As people read it, with all that two references of a route can differ in.
impl fmt::Display for ParentReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.kind)?;
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        write!(f, "{}", self.name)?;
        if let Some(section) = &self.section_name {
            write!(f, " section {section}")?;
        }
        if let Some(port) = self.port {
            write!(f, " port {port}")?;
        }
        Ok(())
    }
}

/// Whether a Gateway accepts routes that do not name it, and whether a route is one of these (GEP-3793).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum DefaultScope {
    All,
    #[default]
    None,
}

/// Reads the parents of a route, which its translation and its status share.
pub(crate) fn read<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Arc<ParentReference>>, D::Error> {
    let parents = Vec::<ParentReference>::deserialize(deserializer)?;
    // Collecting from `into_iter` would reuse the allocation of the vector, which is sized for whole
    // references.
    let mut shared = Vec::with_capacity(parents.len());
    shared.extend(parents.into_iter().map(share));
    Ok(shared)
}

/// Consecutive routes mostly have the same parent, which is kept once.
fn share(parent: ParentReference) -> Arc<ParentReference> {
    LAST.with_borrow_mut(|last| match last {
        Some(last) if **last == parent => Arc::clone(last),
        _ => Arc::clone(last.insert(Arc::new(parent))),
    })
}

thread_local! {
    /// The parent that was read last.
    static LAST: RefCell<Option<Arc<ParentReference>>> = const { RefCell::new(None) };
}

pub(crate) fn write<S: Serializer>(
    parents: &[Arc<ParentReference>],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(parents.iter().map(|parent| &**parent))
}

fn gateway_group() -> Text {
    GATEWAY_GROUP.into()
}

fn gateway() -> Text {
    "Gateway".into()
}
