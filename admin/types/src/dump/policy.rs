//! Policies.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The settings of one policy object for one target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// Key of the policy and its target.
    pub key: String,
    /// The target of the policy.
    pub target: PolicyTarget,
    /// The settings that the policy object contains, by name, as the model writes them. Absent ones are inherited
    /// from the next wider target.
    pub spec: Map<String, Value>,
}

impl Policy {
    /// `Overrides` if nearer targets can only tighten its settings.
    #[must_use]
    pub fn precedence(&self) -> Option<&str> {
        self.spec.get("precedence")?.as_str()
    }
}

/// The target of a policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum PolicyTarget {
    /// All of a Gateway.
    Gateway {
        /// The Gateway: `namespace/name`.
        gateway: String,
    },
    /// One listener of a Gateway or ListenerSet.
    Listener {
        /// Key of the listener.
        listener: String,
    },
    /// All rules of a route object.
    Route {
        /// The route object: `Kind/namespace/name`.
        route: String,
    },
    /// All listeners of a `ListenerSet`.
    ListenerSet {
        /// The ListenerSet: `namespace/name`.
        listener_set: String,
    },
    /// The rules of one name in a route object.
    Rule {
        /// The route object: `Kind/namespace/name`.
        route: String,
        /// The `name` of the rules.
        rule: String,
    },
    /// A Service; for backend settings.
    Service {
        /// Key of the service: `Service/namespace/name`.
        service: String,
    },
    /// A `Backend`; for backend settings.
    Backend {
        /// Key of the backend: `Backend/namespace/name`.
        backend: String,
    },
}
