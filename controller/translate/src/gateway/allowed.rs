//! The namespaces that may attach to an object.

use std::borrow::Cow;
use std::sync::Arc;

use super::api::FromNamespaces;
use crate::objects::api::{LabelSelector, Labels};
use crate::objects::reader::Reader;

/// A set of namespaces.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum AllowedNamespaces {
    Every,
    Only(Arc<str>),
    Selected(LabelSelector),
    Nobody,
}

impl AllowedNamespaces {
    /// The namespaces that an object in the namespace `own` allows.
    pub(crate) fn of(
        own: &Arc<str>,
        from: FromNamespaces,
        selector: Option<&LabelSelector>,
    ) -> Self {
        match (from, selector) {
            (FromNamespaces::All, _) => Self::Every,
            (FromNamespaces::Same, _) => Self::Only(Arc::clone(own)),
            (FromNamespaces::Selector, Some(selector)) => Self::Selected(selector.clone()),
            (FromNamespaces::Selector, None) | (FromNamespaces::None, _) => Self::Nobody,
        }
    }

    pub(crate) fn allows(&self, reader: &Reader<'_>, namespace: &str) -> bool {
        self.admits(namespace, || reader.labels(namespace))
    }

    /// Whether it allows a namespace, whose labels are asked for if they decide.
    pub(crate) fn admits<'l>(
        &self,
        namespace: &str,
        labels: impl FnOnce() -> Cow<'l, Labels>,
    ) -> bool {
        match self {
            Self::Every => true,
            Self::Only(own) => **own == *namespace,
            Self::Selected(selector) => selector.selects(&labels()),
            Self::Nobody => false,
        }
    }
}
