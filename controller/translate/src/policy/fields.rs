//! The fields of a traffic policy, one entry each: name, allowed targets, and how to detect and
//! remove it. Conflicts are resolved field by field, so nothing else lists them.
//!
//! `k8s/RESOURCES.md` has the same table with a reason for each field; a test compares the two.

use crate::route::name::RouteKind;
use xds::limits_table;
use xds::model::limits::{self, LimitKind};
use xds::model::{PolicySpec, PolicyTarget, Trust};

/// One field of a policy.
pub(crate) struct Field {
    /// Name as written after `spec.`; see [`Field::path`].
    pub(crate) name: &'static str,
    pub(crate) reach: FieldScope,
    pub(crate) is_set: fn(&PolicySpec) -> bool,
    pub(crate) clear: fn(&mut PolicySpec),
    /// Whether it has less effect, or none, in the first policy because the second one, of a wider target,
    /// overrides it.
    pub(crate) yields: fn(&PolicySpec, &PolicySpec) -> bool,
}

impl Field {
    /// Whether it is one of those that say how clients authenticate themselves.
    pub(crate) fn is_of_credentials(&self) -> bool {
        [JWT, BASIC_AUTH, API_KEYS, REQUIRE_ALL].contains(&self.name)
    }

    /// Its path in this policy. Trust is one field with two names.
    pub(crate) fn path(&self, spec: &PolicySpec) -> String {
        let name = match &spec.trust {
            Some(Trust::Sources(_)) if self.name == TRUST => "trustedSources",
            _ => self.name,
        };
        format!("spec.{name}")
    }
}

/// The targets that a field applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldScope {
    /// Settings of a socket, which apply before the host of a request is known: Gateways and their own
    /// listeners. A ListenerSet shares the sockets with other listeners, which belong to others, and so
    /// do the requests of one HTTP/2 connection.
    Socket,
    /// Gateways, listeners, routes of requests and their rules.
    Request,
    /// HTTPRoutes and their rules.
    HttpRoute,
    /// Those of requests, and routes of connections and datagrams.
    Client,
    /// Gateways, and destinations of requests.
    Upstream,
    /// Destinations of requests, connections and datagrams.
    Destination,
    Any,
}

impl FieldScope {
    pub(crate) fn holds(self, target: &PolicyTarget) -> bool {
        match target {
            PolicyTarget::Gateway(_) => ![Self::HttpRoute, Self::Destination].contains(&self),
            PolicyTarget::ListenerSet(_) => self.holds_for_listener_sets(),
            PolicyTarget::Listener(key) if key.listener_set().is_some() => {
                self.holds_for_listener_sets()
            }
            PolicyTarget::Listener(_) => {
                ![Self::Upstream, Self::Destination, Self::HttpRoute].contains(&self)
            }
            PolicyTarget::Route { kind, .. } | PolicyTarget::Rule { kind, .. } => {
                let is_of_requests = RouteKind::named(kind).is_some_and(RouteKind::is_of_requests);
                match self {
                    Self::Client => true,
                    Self::HttpRoute => RouteKind::named(kind) == Some(RouteKind::Http),
                    Self::Request | Self::Any => is_of_requests,
                    Self::Socket | Self::Upstream | Self::Destination => false,
                }
            }
            PolicyTarget::Service(_) | PolicyTarget::Backend(_) => {
                matches!(self, Self::Upstream | Self::Destination | Self::Any)
            }
        }
    }

    fn holds_for_listener_sets(self) -> bool {
        matches!(self, Self::Request | Self::Client | Self::Any)
    }

    /// The allowed targets, for messages.
    pub(crate) fn targets(self) -> &'static str {
        match self {
            Self::Socket => "a Gateway or one of its own listeners",
            Self::Request => "a Gateway, a listener, a route or a rule",
            Self::HttpRoute => "an HTTPRoute or one of its named rules",
            Self::Client => "a Gateway, a listener, or a route of any kind",
            Self::Upstream => "a Gateway, a Service or a Backend",
            Self::Destination => "a Service or a Backend",
            Self::Any => "any target",
        }
    }
}

/// The fields whose loss would allow requests, or let them through to backends.
pub(crate) const RESTRICTIONS: [&str; 7] = [
    JWT,
    BASIC_AUTH,
    API_KEYS,
    AUTHORIZATION,
    NETWORKS,
    RATE_LIMIT,
    RESPOND,
];

/// The fields that stay if others of their policy are invalid: restrictions, and what backends rely on.
pub(crate) fn stays_alone(field: &Field) -> bool {
    RESTRICTIONS.contains(&field.name) || [REQUIRE_ALL, PATH_REWRITE].contains(&field.name)
}

/// Whether none of the settings is left.
pub(crate) fn is_without_effect(spec: &PolicySpec) -> bool {
    !spec.is_invalid && FIELDS.iter().all(|field| !(field.is_set)(spec))
}

const JWT: &str = "jwt";
const BASIC_AUTH: &str = "basicAuth";
const API_KEYS: &str = "apiKeys";
const REQUIRE_ALL: &str = "requireAll";
/// The fields that say how clients authenticate themselves belong together, and come from one policy.
pub(crate) const CREDENTIALS: &str = "credentials";
const AUTHORIZATION: &str = "authorization";
const NETWORKS: &str = "networks";
const RATE_LIMIT: &str = "rateLimit";
const RESPOND: &str = "respond";
const PATH_REWRITE: &str = "pathRewrite";
/// The first name of trust.
const TRUST: &str = "trustedHops";

macro_rules! field {
    ($name:expr, $reach:ident, $($path:ident).+) => {
        field!($name, $reach, $($path).+, |own, other| {
            own.$($path).+.is_some() && other.$($path).+.is_some()
        })
    };
    ($name:expr, $reach:ident, $($path:ident).+, $yields:expr) => {
        Field {
            name: $name,
            reach: FieldScope::$reach,
            is_set: |spec| spec.$($path).+.is_some(),
            clear: |spec| spec.$($path).+ = None,
            yields: $yields,
        }
    };
}

macro_rules! fields {
    ($($(#[$doc:meta])* $field:ident $name:literal:
        $kind:ident, $scope:ident, $default:literal, $least:literal..=$most:literal;)*) => {
        pub(crate) const FIELDS: &[Field] = &[
            field!("accessLog", Request, access_log),
            field!(JWT, Request, jwt, |own, other| own.jwt.is_some() && other.has_credentials()),
            field!(BASIC_AUTH, Request, basic_auth, |own, other| {
                own.basic_auth.is_some() && other.has_credentials()
            }),
            field!(API_KEYS, Request, api_keys, |own, other| {
                own.api_keys.is_some() && other.has_credentials()
            }),
            Field {
                name: REQUIRE_ALL,
                reach: FieldScope::Request,
                is_set: |spec| spec.require_all,
                clear: |spec| spec.require_all = false,
                yields: |own, other| own.require_all && other.has_credentials(),
            },
            // In addition to those of a wider target.
            field!(AUTHORIZATION, Request, authorization, |_, _| false),
            field!(NETWORKS, Client, networks, |_, _| false),
            field!(RATE_LIMIT, Request, rate_limit, |_, _| false),
            field!(RESPOND, Request, respond),
            field!("errorPages", Request, error_pages),
            field!(PATH_REWRITE, HttpRoute, path_rewrite),
            field!(TRUST, Socket, trust),
            field!("proxyProtocol", Socket, proxy_protocol),
            field!("pathOptions", Socket, path_options),
            field!("healthPath", Socket, health_path),
            field!("retryBudget", Upstream, retry_budget),
            field!("ejection", Upstream, ejection),
            field!("healthCheck", Destination, health_check),
            field!("balance.hash", Destination, balance.hash),
            field!("balance.slowStart", Destination, balance.slow_start),
            field!("balance.locality", Destination, balance.locality),
            $(field!(concat!("limits.", $name), $scope, limits.$field, |own, other| {
                let effective = |given| {
                    let default = <limits::$kind as LimitKind>::default($default);
                    <limits::$kind as LimitKind>::nearest(given, default, $most)
                };
                // It is a bound.
                own.limits.$field.is_some() && other.limits.$field.is_some() && {
                    let (own, other) = (effective(own.limits.$field), effective(other.limits.$field));
                    <limits::$kind as LimitKind>::tighter(own, other) != own
                }
            }),)*
        ];
    };
}

limits_table!(fields);

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use xds::model::{BackendKey, ListenerKey, ObjectName, PolicyTarget};

    use super::FIELDS;

    const RESOURCES: &str = include_str!("../../../../k8s/RESOURCES.md");
    const DEFINITION: &str =
        include_str!("../../../../k8s/crds/gateway-system.io_trafficpolicies.yaml");

    /// A target of each column of the table.
    fn columns() -> [Vec<PolicyTarget>; 4] {
        let name = ObjectName::new("a", "b");
        let kind = "HTTPRoute".to_owned();
        let listener = |kind: &str| PolicyTarget::Listener(ListenerKey::new(kind, &name, "c"));
        let route = PolicyTarget::Route {
            kind,
            object: name.clone(),
        };
        [
            vec![PolicyTarget::Gateway(name.clone()), listener("Gateway")],
            vec![
                PolicyTarget::ListenerSet(name.clone()),
                listener("ListenerSet"),
            ],
            vec![route],
            vec![PolicyTarget::Backend(BackendKey::new(&name))],
        ]
    }

    #[test]
    fn the_documented_targets_of_each_field_are_those_of_the_code() {
        let rows = RESOURCES.lines().filter_map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            // Another table of as many columns has statuses.
            let is_of_fields = cells.len() == 8 && cells[1].starts_with('`');
            (is_of_fields && cells[2].parse::<u16>().is_err()).then_some(cells)
        });
        let mut documented: BTreeMap<String, Vec<bool>> = BTreeMap::new();
        for cells in rows {
            let yes = cells[2..6].iter().map(|cell| *cell == "yes").collect();
            assert!(cells[6].len() > 10, "a reason: {cells:?}");
            let name = cells[1].split('`').nth(1).expect("a name");
            documented.insert(name.to_owned(), yes);
        }
        let of_code = FIELDS.iter().map(|field| {
            let holds = columns().map(|targets| {
                let all: Vec<bool> = targets.iter().map(|it| field.reach.holds(it)).collect();
                // Only a Gateway as a whole has backends.
                all[0]
            });
            (field.name.to_owned(), holds.to_vec())
        });
        assert_eq!(documented, of_code.collect());
    }

    #[test]
    fn what_a_listener_set_may_not_set_is_described_so() {
        for field in FIELDS {
            let set = PolicyTarget::ListenerSet(ObjectName::new("a", "b"));
            let gateway = ListenerKey::new("Gateway", &ObjectName::new("a", "b"), "c");
            let is_of_sockets =
                !field.reach.holds(&set) && field.reach.holds(&PolicyTarget::Listener(gateway));
            let name = field.name.rsplit('.').next().unwrap_or_default();
            let (_, described) = DEFINITION
                .split_once(&format!(" {name}:\n"))
                .expect("a definition");
            let end = described
                .find("              minimum:")
                .unwrap_or(700)
                .min(700);
            let text = described[..end]
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ");
            let sentence = "Only for a Gateway or its own listeners, not for a ListenerSet";
            if is_of_sockets {
                assert!(text.contains(sentence), "{name}: {text}");
            }
        }
    }
}
