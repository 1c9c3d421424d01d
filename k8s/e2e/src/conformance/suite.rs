//! The suites, and what each needs.

use clap::ValueEnum;

use crate::image::Backend;

/// A suite: of a release of Gateway API, or of the Inference Extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Suite {
    #[value(name = "v1.7.0")]
    V1_7_0,
    #[value(name = "v1.6.3")]
    V1_6_3,
    /// v1.6.0 of the Inference Extension, with v1.6.1 of Gateway API.
    Inference,
}

/// Which fields the installed definitions of Gateway API have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Channel {
    Standard,
    Experimental,
}

impl Suite {
    /// The Go module that it is built from.
    pub(super) fn module(self) -> &'static str {
        match self {
            Self::V1_7_0 => "gateway-api-v1.7.0",
            Self::V1_6_3 => "gateway-api-v1.6.3",
            Self::Inference => INFERENCE,
        }
    }

    /// The profiles that it is run with: all those of gateways.
    pub(super) fn profiles(self) -> &'static str {
        match self {
            Self::V1_7_0 | Self::V1_6_3 => {
                "GATEWAY-HTTP,GATEWAY-GRPC,GATEWAY-TLS,GATEWAY-TCP,GATEWAY-UDP"
            }
            Self::Inference => "Gateway",
        }
    }

    /// The folders of the definitions, beside the suite.
    pub(super) fn definitions(self, channel: Channel) -> Vec<&'static str> {
        let gateway_api = match channel {
            Channel::Standard => "config/crd/standard",
            Channel::Experimental => "config/crd/experimental",
        };
        match self {
            Self::V1_7_0 | Self::V1_6_3 => vec![gateway_api],
            Self::Inference => vec![gateway_api, "config/crd/bases"],
        }
    }

    /// The images of its pods, by the references in its manifests. One echo server serves under all of
    /// its references.
    pub(super) fn images(self) -> Vec<Backend> {
        match self {
            Self::V1_7_0 => vec![
                Backend::of(
                    "echo",
                    "registry.k8s.io/gateway-api/conformance/echo-basic:v0.1.0",
                ),
                Backend::of(
                    "echo",
                    "registry.k8s.io/gateway-api/conformance/echo-basic:v0.2.0",
                ),
            ],
            Self::V1_6_3 => vec![
                Backend::of("echo", "registry.k8s.io/gateway-api/echo-basic:v1.5.1"),
                Backend::of(
                    "echo",
                    "registry.k8s.io/gateway-api/echo-basic:v1.6.0-dev.2",
                ),
                Backend::of(
                    "echo",
                    "registry.k8s.io/gateway-api/echo-basic:v1.6.0-dev.3",
                ),
                Backend::of(
                    "conformance-coredns",
                    "registry.k8s.io/coredns/coredns:v1.12.2",
                ),
            ],
            Self::Inference => vec![
                Backend::of(
                    "echo",
                    "gcr.io/k8s-staging-gateway-api/echo-basic:v20251106-v1.3.0-263-g47c3435c",
                ),
                PICKER,
            ],
        }
    }
}

/// A module with two programs: the suite, and the endpoint picker of its pods.
const INFERENCE: &str = "inference-v1.6.0";

pub(crate) const PICKER: Backend = Backend {
    module: INFERENCE,
    program: "lwepp",
    reference: "registry.k8s.io/gateway-api-inference-extension/lwepp:v1.6.0",
};
