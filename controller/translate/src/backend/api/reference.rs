//! References from a route or policy to a backend.

use std::num::NonZeroU16;

use serde::{Deserialize, Serialize};

use crate::objects::api::Text;

/// A reference to a backend, from any object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BackendReference<'r> {
    pub(crate) group: &'r str,
    pub(crate) kind: &'r str,
    pub(crate) namespace: Option<&'r str>,
    pub(crate) name: &'r str,
    pub(crate) port: Option<NonZeroU16>,
}

// One struct inside of another (`serde(flatten)`) would hide misspelt fields from admission.
macro_rules! references {
    ($($(#[$doc:meta])* $type:ident: $($equality:ident)? {
        $($(#[$about:meta])* $field:ident: $of:ty,)*
    })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, $($equality,)? Deserialize, Serialize)]
        pub struct $type {
            /// Group; core by default.
            #[serde(default)]
            pub group: $crate::objects::api::Text,
            #[serde(default = "crate::backend::api::service")]
            pub kind: $crate::objects::api::Text,
            /// Namespace; the referrer's by default.
            #[serde(default)]
            pub namespace: Option<$crate::objects::api::Text>,
            pub name: $crate::objects::api::Text,
            /// Port; required for a Service.
            #[serde(default)]
            pub port: Option<std::num::NonZeroU16>,
            $($(#[$about])* pub $field: $of,)*
        }

        impl<'r> From<&'r $type> for $crate::backend::api::BackendReference<'r> {
            fn from(reference: &'r $type) -> Self {
                Self {
                    group: &reference.group,
                    kind: &reference.kind,
                    namespace: reference.namespace.as_deref(),
                    name: &reference.name,
                    port: reference.port,
                }
            }
        }
    )*};
}

pub(crate) use references;

references! {
    /// An object that serves requests.
    BackendObjectReference: Eq {}

    /// A backend of a TCP, TLS or UDP route's rule.
    BackendRef: Eq {
        /// Its share of the connections.
        #[serde(default = "one")]
        weight: u32,
    }
}

pub(crate) fn service() -> Text {
    "Service".into()
}

pub(crate) fn one() -> u32 {
    1
}
