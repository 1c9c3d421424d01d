//! Policies as they are written.

mod answer;
mod api_keys;
mod authorization;
mod backend_tls;
mod backend_traffic;
mod balance;
mod basic_auth;
mod entries;
mod health_check;
mod jwt;
mod networks;
mod path_rewrite;
mod rate_limit;
mod traffic;

pub use answer::{ConfigEntryRef, ErrorPageSpec, ErrorSourceSpec, PageBodySpec, RespondSpec};
pub use api_keys::ApiKeysSpec;
pub use authorization::{AuthorizationRuleSpec, AuthorizationSpec};
pub use backend_tls::{
    BackendTlsPolicy, BackendTlsPolicySpec, BackendTlsValidation, SubjectAltName,
    SubjectAltNameType,
};
pub use backend_traffic::{
    RequestRate, RetryConstraint, RetryConstraintBudget, XBackendTrafficPolicy,
    XBackendTrafficPolicySpec,
};
pub use balance::{BalanceSpec, HashKeySpec, HashSpec, LocalityMode, LocalitySpec, SlowStartSpec};
pub use basic_auth::BasicAuthSpec;
pub use entries::{PolicyEntries, PolicyEntry};
pub use health_check::{HealthCheckSpec, HealthCheckType, InitialHealthSpec};
pub use jwt::{
    ClaimHeaderSpec, JwksSpec, JwtFromSpec, JwtHeaderSpec, JwtModeSpec, JwtProviderSpec, JwtSpec,
    RemoteJwksSpec,
};
pub use networks::{NetworkListRef, NetworksSpec};
pub use path_rewrite::PathRewriteSpec;
pub use rate_limit::{
    ClientAddressKeySpec, RateLimitHeadersSpec, RateLimitKeySpec, RateLimitRuleSpec, RateLimitSpec,
    RatePeriodSpec, WholeKeySpec,
};
pub use traffic::{
    AccessLogFilterSpec, AccessLogFormat, AccessLogSpec, EjectionSpec, EscapedSlashAction,
    LimitsSpec, PathOptionsSpec, PolicyStanding, PolicyTargetReference, PrecedenceSpec,
    ProxyProtocolIn, ProxyProtocolSpec, RejectedPolicy, Restrictions, RetryBudgetSpec,
    TrafficPolicy, TrafficPolicySpec,
};
