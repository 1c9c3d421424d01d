//! The reasons of conditions.

use std::fmt;

use serde::Serialize;

/// A condition's reason: those of Gateway API, and a few of our own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[expect(
    missing_docs,
    reason = "the names are Gateway API's and explained there"
)]
pub enum Reason {
    Accepted,
    AddressNotAssigned,
    AddressNotUsable,
    AddressesAssigned,
    Attached,
    /// Not in Gateway API: somebody else's autoscaler decides the number of a Gateway's pods.
    AutoscalerExists,
    BackendNotFound,
    CertificateExpired,
    /// Not in Gateway API, as its condition.
    CertificateNotYetValid,
    /// Not in Gateway API, as its condition.
    CertificateOfOtherHost,
    ConfigurationChanged,
    Conflicted,
    /// Not in Gateway API, which only names the condition.
    DefaultGateway,
    /// Not in Gateway API, as its condition.
    DeploymentFailed,
    /// Not in Gateway API: what a Gateway carries exceeds its budget.
    GatewayFull,
    /// Not in Gateway API: health checks of a policy are ignored, since too many endpoints fail.
    HealthChecksIgnored,
    /// Not in Gateway API: proxies probe less often than a policy says, since all their probes have a limit.
    HealthChecksStretched,
    HostnameConflict,
    IncompatibleFilters,
    Invalid,
    /// Not in Gateway API: a body that a policy refers to cannot be read.
    InvalidBodyRef,
    InvalidCACertificateKind,
    InvalidCACertificateRef,
    InvalidCertificateRef,
    InvalidClientCertificateRef,
    InvalidExtensionRef,
    InvalidKind,
    InvalidListenerFilter,
    InvalidListenerFilterRef,
    /// Not in Gateway API: a list that a policy refers to cannot be read.
    InvalidListRef,
    InvalidParameters,
    InvalidRouteKinds,
    /// Not in Gateway API: a Secret that a policy refers to, or an entry of it, cannot be used.
    InvalidSecretRef,
    /// Not in Gateway API: proxies could never fetch keys of a policy.
    KeysNotFetched,
    /// Not in Gateway API: proxies cannot fetch keys of a policy again.
    KeysNotRefreshed,
    /// Not in Gateway API, as its condition: host names of a listener are served by ListenerSets.
    ListenerSets,
    ListenersNotValid,
    /// Not in Gateway API: a path contains a `*`, which stands for itself.
    LiteralWildcard,
    /// Not in Gateway API: an expression is never true.
    NeverTrue,
    /// Not in Gateway API: nothing of a rule can respond.
    NoBackends,
    NoConflicts,
    /// Not in Gateway API: a rule reads claims of tokens, and no policy reads tokens.
    NoCredentials,
    NoMatchingListenerHostname,
    NoMatchingParent,
    /// Not in Gateway API: a Service has no EndpointSlice.
    NoEndpointSlice,
    /// Not in Gateway API: a setting has no effect beside others.
    NoEffect,
    /// Not in Gateway API: a Service has no endpoint that is ready.
    NoReadyEndpoints,
    /// Not in Gateway API: what an autoscaler compares with, the proxies do not request.
    NoResourceRequest,
    NoResources,
    /// Not in Gateway API: endpoints are to be preferred by where they are, and nothing says where.
    NoTopologyHints,
    NoValidCACertificate,
    /// Not in Gateway API: the controller may not read the nodes whose addresses a Gateway has.
    NodesNotReadable,
    NotAllowed,
    NotAllowedByListeners,
    NotAssigned,
    /// Not in Gateway API: the target of a policy carries no traffic.
    NotInUse,
    OverlappingHostnames,
    /// Of GEP-713: a policy of a wider target takes precedence.
    Overridden,
    ParentNotAccepted,
    ParentNotProgrammed,
    PartiallyAssigned,
    PartiallyProgrammed,
    Pending,
    /// Not in Gateway API: passwords come by connections in plain text.
    PlainTextPasswords,
    /// Not in Gateway API: a backend is asked in plain text at a port for TLS.
    PlainTextToTlsPort,
    /// Not in Gateway API, which requires a signal without naming it.
    PolicyAncestorLimitReached,
    PortUnavailable,
    Programmed,
    ProtocolConflict,
    /// Not in Gateway API: a redirect leads to itself.
    RedirectLoop,
    RefNotPermitted,
    /// Not in Gateway API: a limit lets no request pass.
    RefusesAll,
    ResolvedRefs,
    /// Not in Gateway API: another rule has the same match.
    RouteRulesOverlap,
    /// Not in Gateway API: the only proxy of a Gateway ends before its successor can start.
    RolloutsInterrupt,
    /// Not in Gateway API: the route exceeds a budget.
    RouteTooLarge,
    /// Not in Gateway API: the session keys of a Gateway cannot be read or written.
    SessionKeysUnavailable,
    /// Not in Gateway API: a Secret with session keys has none that can be used.
    SessionKeysInvalid,
    /// Not in Gateway API: a new session key waits for proxies.
    SessionKeysPending,
    SupportedVersion,
    TargetNotFound,
    /// Not in Gateway API: a Gateway has as many listeners or ports as its limit.
    TooManyListeners,
    /// Not in Gateway API: every client may say that it is another.
    TrustsEveryAddress,
    UnsupportedAddress,
    UnsupportedProtocol,
    UnsupportedValue,
    UnsupportedVersion,
    /// Not in Gateway API: passwords have hashes that are guessed fast.
    WeakHashes,
    /// Not in Gateway API: endpoints are to be preferred by zone, and proxies do not know theirs.
    ZoneUnknown,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
