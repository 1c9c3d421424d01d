//! The suites, and what each needs.

use clap::ValueEnum;

/// A suite, by the release of Gateway API that it is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Suite {
    #[value(name = "v1.7.0")]
    V1_7_0,
    #[value(name = "v1.6.3")]
    V1_6_3,
}

/// Which fields the installed definitions have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Channel {
    Standard,
    Experimental,
}

impl Suite {
    /// The module that it is built from.
    pub(super) fn module(self) -> &'static str {
        match self {
            Self::V1_7_0 => "gateway-api-v1.7.0",
            Self::V1_6_3 => "gateway-api-v1.6.3",
        }
    }

    /// The images of its pods: of which module each program is, and the reference in its manifests.
    /// One echo server serves under all of its references.
    pub(super) fn images(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::V1_7_0 => &[
                (
                    "echo",
                    "registry.k8s.io/gateway-api/conformance/echo-basic:v0.1.0",
                ),
                (
                    "echo",
                    "registry.k8s.io/gateway-api/conformance/echo-basic:v0.2.0",
                ),
            ],
            Self::V1_6_3 => &[
                ("echo", "registry.k8s.io/gateway-api/echo-basic:v1.5.1"),
                (
                    "echo",
                    "registry.k8s.io/gateway-api/echo-basic:v1.6.0-dev.2",
                ),
                (
                    "echo",
                    "registry.k8s.io/gateway-api/echo-basic:v1.6.0-dev.3",
                ),
                (
                    "conformance-coredns",
                    "registry.k8s.io/coredns/coredns:v1.12.2",
                ),
            ],
        }
    }
}

impl Channel {
    /// Where the definitions are, beside the suite.
    pub(super) fn folder(self) -> &'static str {
        match self {
            Self::Standard => "config/crd/standard",
            Self::Experimental => "config/crd/experimental",
        }
    }
}
