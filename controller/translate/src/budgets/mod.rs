//! Every budget of the control plane: what an object may cost everybody who shares its Gateway or the
//! controller.
//!
//! A budget is a variant of [`Budget`] and an entry of its table, with unit, default, upper bound and
//! reason. An object that exceeds one is refused in its own status, and nothing else changes. The table
//! of budgets in `k8s/OPERATING.md` has the same rows, which a test compares.

pub(crate) mod closed_hosts;
pub(crate) mod cost;
mod definition;
pub(crate) mod expressions;
pub(crate) mod fair_share;
pub(crate) mod ledger;
pub(crate) mod limits;
pub(crate) mod room;
pub(crate) mod rooms;
pub(crate) mod usage;
pub(crate) mod view;
pub(crate) mod views;

use std::fmt;

use xds::model::{Pattern, PatternBudget};

use crate::status::reason::Reason;

pub use definition::{Definition, Unit};
use definition::{KIB, MIB, budgets};
pub use limits::Limits;
pub(crate) use usage::Use;

budgets! {
    /// Rules of a route, times its listeners.
    RouteRules = Definition {
        name: "route_rules",
        counts: "rules of a route times its listeners",
        unit: Unit::Count,
        default: 4_096,
        cap: 4_096,
        condition: "route `Accepted=False`; its requests get status 500",
        reason: Some(Reason::UnsupportedValue),
        raised_by: "nobody",
        why: "a proxy finds each at each listener by an index of its own; a route has up to 16 rules, and a Gateway \
              64 listeners of its own",
    };
    /// Bytes of a route in wire form, once for each Gateway.
    RouteBytes = Definition {
        name: "route_bytes",
        counts: "bytes of a route's rules with the names of their listeners, once for each Gateway",
        unit: Unit::Bytes,
        default: 4 * MIB,
        cap: 4 * MIB,
        condition: "route `Accepted=False`; its requests get status 500",
        reason: Some(Reason::RouteTooLarge),
        raised_by: "nobody",
        why: "a proxy takes about twice as much memory; an object has at most 1.5 MiB in etcd",
    };
    /// Rules of all routes of a Gateway.
    ViewResources = Definition {
        name: "gateway_rules",
        counts: "rules of all routes of a Gateway",
        unit: Unit::Count,
        default: 131_072,
        cap: 131_072,
        condition: "newest routes `Accepted=False`; their requests get status 500",
        reason: Some(Reason::GatewayFull),
        raised_by: "nobody",
        why: "three times the 40 000 routes that are measured; a proxy keeps a name and a version of each",
    };
    /// Bytes of all routes of a Gateway in wire form.
    ViewBytes = Definition {
        name: "gateway_bytes",
        counts: "bytes of the rules of all routes of a Gateway with the names of their listeners",
        unit: Unit::Bytes,
        default: 64 * MIB,
        cap: 64 * MIB,
        condition: "newest routes `Accepted=False`; their requests get status 500",
        reason: Some(Reason::GatewayFull),
        raised_by: "nobody",
        why: "a proxy takes about twice as much memory, and the controller as much for each Gateway",
    };
    /// Bytes that a proxy reports about the routes that it holds.
    ViewReport = Definition {
        name: "gateway_report_bytes",
        counts: "bytes of the names and versions of these rules, which a proxy reports when it reconnects and some have changed",
        unit: Unit::Bytes,
        default: 8 * MIB,
        cap: 8 * MIB,
        condition: "newest routes `Accepted=False`; their requests get status 500",
        reason: Some(Reason::GatewayFull),
        raised_by: "nobody",
        why: "half of what the controller accepts of a proxy, so that it is sent what has changed, not all rules",
    };
    /// Matches of the rules of all routes of a Gateway, each at each host of each of its listeners.
    ViewAttachments = Definition {
        name: "gateway_attachments",
        counts: "matches of the rules of all routes of a Gateway, at each of their hosts at each of their listeners",
        unit: Unit::Count,
        default: 524_288,
        cap: 524_288,
        condition: "newest routes `Accepted=False`; their requests get status 500",
        reason: Some(Reason::GatewayFull),
        raised_by: "nobody",
        why: "500 routes with 16 rules of one match at 64 listeners; a proxy has an index of the matches of each \
              listener, which takes some 300 bytes for each",
    };
    /// Host names that a Gateway closes, each at each of its listeners.
    GatewayClosedHosts = Definition {
        name: "gateway_closed_hosts",
        counts: "host names of refused routes and listeners that a Gateway has no room to close one by one, at each of \
                 its listeners",
        unit: Unit::Count,
        default: 16_384,
        cap: 16_384,
        condition: "all routes of the namespace, at this Gateway `Accepted=False`; their requests get status 500",
        reason: Some(Reason::GatewayFull),
        raised_by: "nobody",
        why: "beside 32 768 rules that close refused routes; each takes some 300 bytes in a proxy",
    };
    /// TrafficPolicies of a Gateway, each at each of its targets.
    GatewayPolicies = Definition {
        name: "gateway_policies",
        counts: "TrafficPolicies in effect at a Gateway, each for each of its targets",
        unit: Unit::Count,
        default: 16_384,
        cap: 16_384,
        condition: "newest policies `Accepted=False`; those with `jwt`, `authorization`, `networks`, `rateLimit`, \
                    `respond` or `pathRewrite` refuse every request of their targets (503)",
        reason: Some(Reason::GatewayFull),
        raised_by: "nobody",
        why: "a policy for each of 5 000 routes, three times over; each is a resource of its own at every proxy",
    };
    /// Bytes of the TrafficPolicies of a Gateway in wire form.
    GatewayPolicyBytes = Definition {
        name: "gateway_policy_bytes",
        counts: "bytes of these policies",
        unit: Unit::Bytes,
        default: 32 * MIB,
        cap: 32 * MIB,
        condition: "newest policies `Accepted=False`; those with `jwt`, `authorization`, `networks`, `rateLimit`, \
                    `respond` or `pathRewrite` refuse every request of their targets (503)",
        reason: Some(Reason::GatewayFull),
        raised_by: "nobody",
        why: "half of what routes have; a policy takes some 300 bytes, and 2 KiB with keys of its own",
    };
    /// What stands in for refused TrafficPolicies of a Gateway.
    GatewayClosingPolicies = Definition {
        name: "gateway_closing_policies",
        counts: "policies of at most 2 KiB that refuse every request of a target, in the place of refused ones",
        unit: Unit::Count,
        default: 131_072,
        cap: 131_072,
        condition: "none is left out, since its target would be open: other budgets limit the targets",
        reason: None,
        raised_by: "nobody",
        why: "one for each rule that a Gateway may have",
    };
    /// Networks in the TrafficPolicies of a Gateway.
    GatewayNetworks = Definition {
        name: "gateway_networks",
        counts: "networks of these policies",
        unit: Unit::Count,
        default: 524_288,
        cap: 524_288,
        condition: "newest policies `Accepted=False`; they refuse every request of their targets (503)",
        reason: Some(Reason::GatewayFull),
        raised_by: "nobody",
        why: "eight policies with as many networks as one can have",
    };
    /// Bytes of the networks of the TrafficPolicies of a Gateway in a proxy.
    GatewayNetworkBytes = Definition {
        name: "gateway_network_bytes",
        counts: "bytes that these networks take in a proxy, 26 for one of IPv4, 50 for one of IPv6, and those that each \
                 target of their policy is sent, 1 to 17 for each",
        unit: Unit::Bytes,
        default: 16 * MIB,
        cap: 16 * MIB,
        condition: "newest policies `Accepted=False`; they refuse every request of their targets (503)",
        reason: Some(Reason::GatewayFull),
        raised_by: "nobody",
        why: "a proxy needs twice as much while all of them change",
    };
    /// Rules of rate limits of a Gateway.
    GatewayRateRules = Definition {
        name: "gateway_rate_rules",
        counts: "rules of rate limits at a Gateway, each for each target of its policy",
        unit: Unit::Count,
        default: 8192,
        cap: 8192,
        condition: "newest policies `Accepted=False`; they refuse every request of their targets (503)",
        reason: Some(Reason::GatewayFull),
        raised_by: "nobody",
        why: "a rule for each of 5 000 routes; those without room for more than 1024 keys take 64 MiB in a proxy, \
              and each has counters of every shard",
    };
    /// Bytes of the keys of rate limits of a Gateway.
    GatewayRateTables = Definition {
        name: "gateway_rate_table_bytes",
        counts: "bytes of the keys of these rules, 8 for each of `maxKeys`, rounded up to a power of two",
        unit: Unit::Bytes,
        default: 64 * MIB,
        cap: 64 * MIB,
        condition: "newest policies `Programmed=True, PartiallyProgrammed`; their rules keep 1024 keys there",
        reason: None,
        raised_by: "nobody",
        why: "128 rules of 65 536 keys, or two of 4 194 304; with the 1024 keys of those without room, a proxy has \
              at most 128 MiB of keys, which it uses as they come",
    };
    /// Bodies of answers of a Gateway.
    GatewayAnswers = Definition {
        name: "gateway_answers",
        counts: "bodies of `respond` and `errorPages` at a Gateway, each for each target of its policy",
        unit: Unit::Count,
        default: 16_384,
        cap: 16_384,
        condition: "newest policies `Accepted=False`; those with `jwt`, `authorization`, `networks`, `rateLimit`, \
                    `respond` or `pathRewrite` refuse every request of their targets (503)",
        reason: Some(Reason::GatewayFull),
        raised_by: "nobody",
        why: "one for each policy that a Gateway may have",
    };
    /// Bytes of the bodies of answers of a Gateway.
    GatewayAnswerBytes = Definition {
        name: "gateway_answer_bytes",
        counts: "bytes of these bodies",
        unit: Unit::Bytes,
        default: 16 * MIB,
        cap: 16 * MIB,
        condition: "newest policies `Accepted=False`; those with `jwt`, `authorization`, `networks`, `rateLimit`, \
                    `respond` or `pathRewrite` refuse every request of their targets (503)",
        reason: Some(Reason::GatewayFull),
        raised_by: "nobody",
        why: "64 of the largest bodies, or 1 KiB for each of 16 384; all shards of a proxy share one, and a proxy has \
              all of them twice while they change",
    };
    /// Rewrites of paths of a Gateway.
    GatewayPathRewrites = Definition {
        name: "gateway_path_rewrites",
        counts: "rewrites of paths by policies at a Gateway, each for each target of its policy",
        unit: Unit::Count,
        default: 8192,
        cap: 8192,
        condition: "newest policies `Accepted=False`; they refuse every request of their targets (503)",
        reason: Some(Reason::GatewayFull),
        raised_by: "nobody",
        why: "one for each of 5 000 routes",
    };
    /// Bytes of the compiled expressions of these.
    GatewayPathRewriteBytes = Definition {
        name: "gateway_path_rewrite_bytes",
        counts: "the regular expressions of these rewrites when compiled",
        unit: Unit::Bytes,
        default: 32 * MIB,
        cap: 32 * MIB,
        condition: "newest policies `Accepted=False`; they refuse every request of their targets (503)",
        reason: Some(Reason::GatewayFull),
        raised_by: "nobody",
        why: "as much as those of routes have; an ordinary one takes 3 to 8 KiB, and a proxy keeps each as often as \
              its policy has targets",
    };
    /// Tables of endpoints of a Gateway.
    GatewayHashTables = Definition {
        name: "gateway_hash_tables",
        counts: "tables of `balance.hash` at a Gateway, one for each target of its policy; for a Service, one for each \
                 port that routes use",
        unit: Unit::Count,
        default: 8192,
        cap: 8192,
        condition: "newest policies `Accepted=False`; they have no effect, and requests are balanced as without them",
        reason: Some(Reason::GatewayFull),
        raised_by: "nobody",
        why: "as many as a Gateway may have backends; each has an own list of endpoints beside its table",
    };
    /// Bytes of these tables.
    GatewayHashTableBytes = Definition {
        name: "gateway_hash_table_bytes",
        counts: "bytes of these tables, 2 for each slot of `table`",
        unit: Unit::Bytes,
        default: 16 * MIB,
        cap: 16 * MIB,
        condition: "newest policies `Accepted=False`; they have no effect, and requests are balanced as without them",
        reason: Some(Reason::GatewayFull),
        raised_by: "nobody",
        why: "128 tables of 65 537 slots, or 64 of 131 071; all shards of a proxy share one",
    };
    /// Backends of a Gateway.
    GatewayBackends = Definition {
        name: "gateway_backends",
        counts: "Backends, XBackends and InferencePools that routes of a Gateway use",
        unit: Unit::Count,
        default: 8_192,
        cap: 8_192,
        condition: "newest ones `Accepted=False`; requests to them get status 500",
        reason: Some(Reason::GatewayFull),
        raised_by: "nobody",
        why: "for each, every shard of a proxy keeps endpoints and connections, and resolves names",
    };
    /// Bytes of the Backends of a Gateway in wire form.
    GatewayBackendBytes = Definition {
        name: "gateway_backend_bytes",
        counts: "bytes of these backends",
        unit: Unit::Bytes,
        default: 16 * MIB,
        cap: 16 * MIB,
        condition: "newest ones `Accepted=False`; requests to them get status 500",
        reason: Some(Reason::GatewayFull),
        raised_by: "nobody",
        why: "2 KiB for each of them, which is one with a CA certificate",
    };
    /// Services of a Gateway and their endpoints.
    GatewayEndpoints = Definition {
        name: "gateway_endpoints",
        counts: "Services that routes of a Gateway use, and their endpoints, each for each of its ports in use",
        unit: Unit::Count,
        default: 131_072,
        cap: 131_072,
        condition: "newest Services are not sent, and requests to them get status 500; the controller's log and \
                    `gateway_controller_services_with_refused_endpoints` tell",
        reason: None,
        raised_by: "nobody",
        why: "four Services as large as one may be, or 40 000 with two endpoints; Kubernetes has 150 000 pods in a \
              cluster",
    };
    /// Bytes of the Services of a Gateway and their endpoints in wire form.
    GatewayEndpointBytes = Definition {
        name: "gateway_endpoint_bytes",
        counts: "bytes of these Services and endpoints",
        unit: Unit::Bytes,
        default: 64 * MIB,
        cap: 64 * MIB,
        condition: "newest Services are not sent, and requests to them get status 500; the controller's log and \
                    `gateway_controller_services_with_refused_endpoints` tell",
        reason: None,
        raised_by: "nobody",
        why: "512 bytes for each endpoint, which takes some 200; a Service with a CA certificate takes 2 KiB",
    };
    /// Bytes of one compiled regular expression.
    ExpressionBytes = Definition {
        name: "expression_bytes",
        counts: "a regular expression when compiled; ordinary ones take 2 to 7 KiB",
        unit: Unit::Bytes,
        default: Pattern::MAX_COMPILED_BYTES as u64,
        cap: Pattern::MAX_COMPILED_BYTES as u64,
        condition: "route `PartiallyInvalid=True`; the rule answers with status 500",
        reason: Some(Reason::UnsupportedValue),
        raised_by: "nobody",
        why: "each proxy keeps it, and the work of a search grows with it: see \
              [expressions of requests](RESOURCES.md#regular-expressions)",
    };
    /// Bytes of the compiled regular expressions of a route.
    RouteExpressionBytes = Definition {
        name: "route_expression_bytes",
        counts: "the regular expressions of a route when compiled, equal ones once",
        unit: Unit::Bytes,
        default: PatternBudget::MAX_BYTES as u64,
        cap: PatternBudget::MAX_BYTES as u64,
        condition: "route `PartiallyInvalid=True`; the rules beyond it answer with status 500",
        reason: Some(Reason::UnsupportedValue),
        raised_by: "nobody",
        why: "some 700 ordinary ones; bounds what an object makes the controller and proxies compile",
    };
    /// Bytes of the compiled regular expressions of all routes at a Gateway.
    GatewayExpressionBytes = Definition {
        name: "gateway_expression_bytes",
        counts: "the regular expressions of all routes at a Gateway when compiled, equal ones once",
        unit: Unit::Bytes,
        default: 32 * MIB,
        cap: 32 * MIB,
        condition: "the newest routes, at this Gateway `Accepted=False`; their requests get status 500",
        reason: Some(Reason::UnsupportedValue),
        raised_by: "nobody",
        why: "some 10 000 ordinary ones; each proxy needs as much memory, and twice as much while all of them \
              change",
    };
    /// Bytes of one resource in wire form.
    ResourceBytes = Definition {
        name: "resource_bytes",
        counts: "a rule, policy, Service or endpoint as it is sent to proxies",
        unit: Unit::Bytes,
        default: 5 * MIB / 4,
        cap: 5 * MIB / 4,
        condition: "its previous version serves, but a TrafficPolicy with `jwt`, `authorization`, `networks`, \
                    `rateLimit`, `respond` or `pathRewrite` refuses every request of its target (503); object `Accepted=False`",
        reason: Some(Reason::UnsupportedValue),
        raised_by: "nobody",
        why: "about the limit of an object in etcd, and 64 Ki networks of single IPv6 addresses; a response carries \
              at least one resource",
    };
    /// Ports of a Gateway.
    GatewayPorts = Definition {
        name: "gateway_ports",
        counts: "ports of a Gateway, with those of its ListenerSets",
        unit: Unit::Count,
        default: 64,
        cap: 1_024,
        condition: "newest listeners `Accepted=False`: those of ListenerSets `TooManyListeners`, the Gateway's \
                    own",
        reason: Some(Reason::PortUnavailable),
        raised_by: "the Gateway's owner, `limits.ports` of GatewayParameters",
        why: "as many as a Gateway can have listeners of its own; each is a port of its Service, for most load \
              balancers a port of every node, of which a cluster has 2768",
    };
    /// Listeners of the ListenerSets of a Gateway.
    SetListeners = Definition {
        name: "gateway_set_listeners",
        counts: "listeners of the ListenerSets of a Gateway",
        unit: Unit::Count,
        default: 4_096,
        cap: 16_384,
        condition: "newest listeners `Accepted=False`",
        reason: Some(Reason::TooManyListeners),
        raised_by: "the Gateway's owner, `limits.listeners` of GatewayParameters",
        why: "every proxy has all of them; 2 500 ListenerSets are measured",
    };
    /// Bytes of the certificates of the ListenerSets of a Gateway.
    SetCertificateBytes = Definition {
        name: "gateway_set_certificate_bytes",
        counts: "certificates with keys of the listeners of the ListenerSets of a Gateway, in DER",
        unit: Unit::Bytes,
        default: 32 * MIB,
        cap: 32 * MIB,
        condition: "listeners of the namespaces with most `Accepted=False`, the newest first",
        reason: Some(Reason::TooManyListeners),
        raised_by: "nobody",
        why: "8 KiB for each of these listeners, which is three or four ordinary certificates; every proxy has all \
              of them",
    };
    /// Endpoints of a Service in use, each for each of its ports in use.
    ServiceEndpoints = Definition {
        name: "service_endpoints",
        counts: "endpoints in the EndpointSlices of a Service in use, each for each of its ports in use",
        unit: Unit::Count,
        default: 32_768,
        cap: 32_768,
        condition: "those of the newest slices are not used; the controller's log and \
                    `gateway_controller_services_with_refused_endpoints` tell",
        reason: None,
        raised_by: "nobody",
        why: "a fifth of the pods that Kubernetes has in a cluster; each is a resource at every proxy, whose \
              shards keep its health",
    };
    /// Bytes of a message in a condition or an Event.
    MessageBytes = Definition {
        name: "message_bytes",
        counts: "the message of a condition",
        unit: Unit::Bytes,
        default: 2 * KIB,
        cap: 2 * KIB,
        condition: "the message is shortened, and says so",
        reason: None,
        raised_by: "nobody",
        why: "as much as somebody reads; a status has hundreds of messages",
    };
    /// Bytes of the status of an object.
    StatusBytes = Definition {
        name: "status_bytes",
        counts: "our part of the status of an object",
        unit: Unit::Bytes,
        default: 64 * KIB,
        cap: 64 * KIB,
        condition: "the first parent or listener has the details, others refer to it; then messages are \
                    shortened, down to 128 bytes",
        reason: None,
        raised_by: "nobody",
        why: "etcd takes 1.5 MiB of an object, and each write goes to everybody who watches it",
    };
}

impl Budget {
    /// Its definition.
    #[must_use]
    pub fn definition(self) -> &'static Definition {
        // The array has an entry for each variant.
        &DEFINITIONS[self as usize]
    }

    /// The budget as a row of the table in `k8s/OPERATING.md`.
    #[must_use]
    pub fn table_row(self) -> String {
        self.definition().table_row()
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.definition().name)
    }
}

#[cfg(test)]
mod tests;
