//! The status of a GatewayClass.

use serde::Serialize;

use super::{Condition, ConditionType, Conditions, Reason};
use crate::problem::Problem;

/// The status of a GatewayClass that is ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayClassStatus {
    /// Its conditions.
    pub conditions: Vec<Condition>,
    /// What of Gateway API its Gateways can do, by name.
    pub supported_features: Vec<SupportedFeature>,
}

/// A feature of Gateway API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct SupportedFeature {
    /// Its name.
    pub name: &'static str,
}

impl GatewayClassStatus {
    /// Of a class in this generation, which is accepted.
    #[must_use]
    pub fn accepted(generation: i64) -> Self {
        let text = "Gateways of this class are served";
        let conditions = Conditions::of(generation);
        Self::with(conditions.happy(ConditionType::Accepted, Reason::Accepted, text))
    }

    /// Of a class in this generation whose parameters cannot be used: why, and what to do.
    #[must_use]
    pub fn refused(generation: i64, why: String) -> Self {
        let problem = Problem::new(Reason::InvalidParameters, "", why);
        let conditions = Conditions::of(generation);
        Self::with(conditions.unhappy(ConditionType::Accepted, &[problem]))
    }

    fn with(conditions: Conditions) -> Self {
        Self {
            conditions: conditions.done(),
            supported_features: FEATURES.map(|name| SupportedFeature { name }).to_vec(),
        }
    }
}

/// What the translator and the proxy carry out, in the order of names, which Gateway API asks for.
const FEATURES: [&str; 51] = [
    "BackendTLSPolicy",
    "BackendTLSPolicySANValidation",
    "GRPCRoute",
    "GRPCRouteNamedRouteRule",
    "GRPCRouteRequestHeaderModifier",
    "Gateway",
    "GatewayAddressEmpty",
    "GatewayBackendClientCertificate",
    "GatewayFrontendClientCertificateValidation",
    "GatewayFrontendClientCertificateValidationInsecureFallback",
    "GatewayHTTPListenerIsolation",
    "GatewayHTTPSListenerDetectMisdirectedRequests",
    "GatewayInfrastructurePropagation",
    "GatewayPort8080",
    "GatewayStaticAddresses",
    "HTTPRoute",
    "HTTPRoute303RedirectStatusCode",
    "HTTPRoute307RedirectStatusCode",
    "HTTPRoute308RedirectStatusCode",
    "HTTPRouteBackendProtocolH2C",
    "HTTPRouteBackendProtocolWebSocket",
    "HTTPRouteBackendRequestHeaderModification",
    "HTTPRouteBackendRequestRedirect",
    "HTTPRouteBackendTimeout",
    "HTTPRouteBackendURLRewrite",
    "HTTPRouteCORS",
    "HTTPRouteDestinationPortMatching",
    "HTTPRouteHostRewrite",
    "HTTPRouteMethodMatching",
    "HTTPRouteNamedRouteRule",
    "HTTPRouteParentRefPort",
    "HTTPRoutePathRedirect",
    "HTTPRoutePathRewrite",
    "HTTPRoutePortRedirect",
    "HTTPRouteQueryParamMatching",
    "HTTPRouteRequestMirror",
    "HTTPRouteRequestMultipleMirrors",
    "HTTPRouteRequestPercentageMirror",
    "HTTPRouteRequestTimeout",
    "HTTPRouteResponseHeaderModification",
    "HTTPRouteRetry",
    "HTTPRouteRetryBackendTimeout",
    "HTTPRouteRetryConnectionError",
    "HTTPRouteSchemeRedirect",
    "ListenerSet",
    "ReferenceGrant",
    "TCPRoute",
    "TLSRoute",
    "TLSRouteModeMixed",
    "TLSRouteModeTerminate",
    "UDPRoute",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_sorted_and_stand_once() {
        assert!(FEATURES.is_sorted_by(|one, other| one < other));
        let status = serde_json::to_value(GatewayClassStatus::accepted(3)).expect("JSON");
        assert_eq!(status["supportedFeatures"][0]["name"], "BackendTLSPolicy");
        assert_eq!(status["conditions"][0]["observedGeneration"], 3);
    }
}
