//! The supported features of Gateway API, by the names in the installed release.
//!
//! Names change between releases, and conformance suites skip the tests of a missing name.

use super::release::{Channel, Installed, NEWEST, Version};

/// A feature of translator and proxy.
struct Feature {
    name: &'static str,
    /// The first release with this name.
    since: Version,
    /// The first release without it.
    until: Option<Version>,
    /// The first release whose standard channel has it.
    standard_since: Option<Version>,
}

/// Features of the installed release, sorted by name as Gateway API requires.
pub(crate) fn of(installed: Installed) -> impl Iterator<Item = &'static str> {
    let release = installed.release.unwrap_or(NEWEST);
    let version = release.version;
    let features = FEATURES.iter().filter(move |feature| {
        if feature.name == TRUST_BUNDLE && !installed.trust_bundles {
            return false;
        }
        let is_in_channel = release.channel == Channel::Experimental
            || feature.standard_since.is_some_and(|since| since <= version);
        feature.since <= version
            && feature.until.is_none_or(|until| version < until)
            && is_in_channel
    });
    features.map(|feature| feature.name)
}

const fn feature(name: &'static str) -> Feature {
    Feature {
        name,
        since: OLDEST,
        until: None,
        standard_since: Some(OLDEST),
    }
}

impl Feature {
    const fn since(mut self, version: Version) -> Self {
        self.since = version;
        self
    }

    const fn until(mut self, version: Version) -> Self {
        self.until = Some(version);
        self
    }

    const fn standard_since(mut self, version: Version) -> Self {
        self.standard_since = Some(version);
        self
    }

    const fn experimental(mut self) -> Self {
        self.standard_since = None;
        self
    }
}

/// Useful only if the API server serves such objects (Kubernetes 1.37).
const TRUST_BUNDLE: &str = "ClusterTrustBundle";
const OLDEST: Version = Version::new(0, 0, 0);
const V1_6_3: Version = Version::new(1, 6, 3);
const V1_7: Version = Version::new(1, 7, 0);

/// `sigs.k8s.io/gateway-api/pkg/features` of each release has the names and channels.
const FEATURES: [Feature; 57] = [
    feature("BackendTLSPolicy"),
    feature("BackendTLSPolicySANValidation"),
    feature(TRUST_BUNDLE).since(V1_7).experimental(),
    feature("GRPCRoute"),
    feature("GRPCRouteNamedRouteRule"),
    feature("GRPCRouteRequestHeaderModifier").since(V1_7),
    feature("Gateway"),
    feature("GatewayAddressEmpty"),
    feature("GatewayAddressRoutability")
        .since(V1_7)
        .experimental(),
    feature("GatewayAddressRoutabilityCluster")
        .since(V1_7)
        .experimental(),
    feature("GatewayBackendClientCertificate"),
    feature("GatewayFrontendClientCertificateValidation"),
    feature("GatewayFrontendClientCertificateValidationInsecureFallback"),
    feature("GatewayHTTPListenerIsolation"),
    feature("GatewayHTTPSListenerDetectMisdirectedRequests"),
    feature("GatewayInfrastructure").since(V1_6_3),
    feature("GatewayInfrastructurePropagation").until(V1_6_3),
    feature("GatewayListenerFilters").since(V1_7).experimental(),
    feature("GatewayPort8080"),
    feature("GatewayRouteHostnameIntersectionPrecedence").since(V1_7),
    feature("GatewayStaticAddresses"),
    feature("HTTPRoute"),
    feature("HTTPRoute303RedirectStatusCode"),
    feature("HTTPRoute307RedirectStatusCode"),
    feature("HTTPRoute308RedirectStatusCode"),
    feature("HTTPRouteBackendProtocolH2C"),
    feature("HTTPRouteBackendProtocolWebSocket"),
    feature("HTTPRouteBackendRequestHeaderModification"),
    feature("HTTPRouteBackendTimeout"),
    feature("HTTPRouteBackendURLRewrite").since(V1_7),
    feature("HTTPRouteCORS"),
    feature("HTTPRouteDestinationPortMatching").experimental(),
    feature("HTTPRouteHostRewrite"),
    feature("HTTPRouteMethodMatching"),
    feature("HTTPRouteNamedRouteRule"),
    feature("HTTPRouteParentRefPort"),
    feature("HTTPRoutePathRedirect"),
    feature("HTTPRoutePathRewrite"),
    feature("HTTPRoutePortRedirect"),
    feature("HTTPRouteQueryParamMatching"),
    feature("HTTPRouteRequestMirror"),
    feature("HTTPRouteRequestMultipleMirrors"),
    feature("HTTPRouteRequestPercentageMirror"),
    feature("HTTPRouteRequestTimeout"),
    feature("HTTPRouteResponseHeaderModification"),
    feature("HTTPRouteRetry").experimental().until(V1_7),
    feature("HTTPRouteRetryBackendTimeout")
        .experimental()
        .until(V1_7),
    feature("HTTPRouteRetryCodes").since(V1_7),
    feature("HTTPRouteRetryConnectionError").standard_since(V1_7),
    feature("HTTPRouteSchemeRedirect"),
    feature("ListenerSet"),
    feature("ReferenceGrant"),
    feature("TCPRoute"),
    feature("TLSRoute"),
    feature("TLSRouteModeMixed").standard_since(V1_7),
    feature("TLSRouteModeTerminate"),
    feature("UDPRoute"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::release::Release;

    fn names(version: Version, channel: Channel) -> Vec<&'static str> {
        let installed = Installed {
            release: Some(Release { version, channel }),
            trust_bundles: true,
        };
        of(installed).collect()
    }

    #[test]
    fn features_are_sorted_and_unique() {
        assert!(FEATURES.is_sorted_by(|one, other| one.name < other.name));
        // The maximum in a status.
        assert!(names(V1_7, Channel::Experimental).len() <= 64);
    }

    #[test]
    fn each_release_has_its_own_feature_names() {
        let of = |version, name| names(version, Channel::Experimental).contains(&name);
        let v1_6_2 = Version::new(1, 6, 2);
        for (name, expected) in [
            ("GatewayInfrastructurePropagation", [true, false, false]),
            ("GatewayInfrastructure", [false, true, true]),
            ("HTTPRouteRetry", [true, true, false]),
            ("HTTPRouteRetryCodes", [false, false, true]),
        ] {
            let listed = [v1_6_2, V1_6_3, V1_7].map(|version| of(version, name));
            assert_eq!(listed, expected, "{name}");
        }
    }

    #[test]
    fn experimental_features_are_not_listed_in_the_standard_channel() {
        let of = |version, name| names(version, Channel::Standard).contains(&name);
        assert!(
            !of(V1_6_3, "HTTPRouteRetry"),
            "its definitions have no `retry`"
        );
        assert!(!of(V1_6_3, "TLSRouteModeMixed"));
        assert!(of(V1_7, "TLSRouteModeMixed"));
        assert!(!of(V1_7, "HTTPRouteDestinationPortMatching"));
        assert!(!of(V1_7, "GatewayListenerFilters"));
    }

    #[test]
    fn trust_bundles_are_listed_if_the_api_server_serves_them() {
        let is_listed = |trust_bundles| {
            let release = Some(NEWEST);
            let mut names = of(Installed {
                release,
                trust_bundles,
            });
            names.any(|name| name == TRUST_BUNDLE)
        };
        assert!(!is_listed(false));
        assert_eq!(is_listed(true), NEWEST.channel == Channel::Experimental);
    }
}
