//! The Go modules of this tree, and the programs that are built from them.

/// A Go module of this tree, and its programs.
pub(super) struct Module {
    pub(super) name: &'static str,
    /// Its folder in the repository.
    pub(super) folder: &'static str,
    pub(super) packages: &'static [&'static str],
    pub(super) tags: &'static str,
    /// Files to rename: Go names a program after its folder.
    pub(super) renamed: &'static [(&'static str, &'static str)],
    /// The package whose tests are built into a program, [`super::SUITE`].
    pub(super) test: Option<&'static str>,
    /// Modules and folders in them whose files are copied beside the programs.
    pub(super) copied: &'static [(&'static str, &'static str)],
}

const NONE: Module = Module {
    name: "",
    folder: "",
    packages: &["."],
    tags: "",
    renamed: &[],
    test: None,
    copied: &[],
};

/// The programs of every cluster.
pub(super) const CLUSTER: [Module; 7] = [
    Module {
        name: "authorizer",
        folder: "k8s/e2e/programs/authorizer",
        ..NONE
    },
    Module {
        name: "kubernetes",
        folder: "k8s/e2e/programs/kubernetes",
        packages: &[
            "go.etcd.io/etcd/server/v3",
            "k8s.io/kubernetes/cmd/kube-apiserver",
            "k8s.io/kubernetes/cmd/kube-controller-manager",
            "k8s.io/kubernetes/cmd/kube-proxy",
            "k8s.io/kubernetes/cmd/kube-scheduler",
            "k8s.io/kubernetes/cmd/kubeadm",
            "k8s.io/kubernetes/cmd/kubectl",
            "k8s.io/kubernetes/cmd/kubelet",
        ],
        tags: "grpcnotrace",
        renamed: &[("server", "etcd")],
        ..NONE
    },
    Module {
        name: "containerd",
        folder: "k8s/e2e/programs/containerd",
        packages: &[
            "github.com/containerd/containerd/v2/cmd/containerd",
            "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
            "github.com/containerd/containerd/v2/cmd/ctr",
        ],
        tags: "no_btrfs,no_devmapper,no_zfs",
        ..NONE
    },
    Module {
        name: "coredns",
        folder: "k8s/e2e/programs/coredns",
        ..NONE
    },
    Module {
        name: "echo",
        folder: "k8s/e2e/programs/echo",
        packages: &["sigs.k8s.io/gateway-api/conformance/echo-basic"],
        renamed: &[("echo-basic", "echo")],
        ..NONE
    },
    Module {
        name: "helm",
        folder: "k8s/e2e/programs/helm",
        packages: &["helm.sh/helm/v4/cmd/helm"],
        ..NONE
    },
    Module {
        name: "pause",
        folder: "k8s/e2e/programs/pause",
        ..NONE
    },
];

/// Programs of single tests.
pub(super) const OTHERS: [Module; 1] = [Module {
    name: "metrics-server",
    folder: "k8s/e2e/programs/metrics-server",
    packages: &["sigs.k8s.io/metrics-server/cmd/metrics-server"],
    ..NONE
}];

/// Programs of the conformance suites. Each suite comes with the definitions of its release.
pub(super) const CONFORMANCE: [Module; 4] = [
    Module {
        name: "gateway-api-v1.7.0",
        folder: "k8s/conformance/v1.7.0",
        ..SUITE
    },
    Module {
        name: "gateway-api-v1.6.3",
        folder: "k8s/conformance/v1.6.3",
        ..SUITE
    },
    Module {
        name: "inference-v1.6.0",
        folder: "k8s/conformance/inference-v1.6.0",
        packages: &[
            "sigs.k8s.io/gateway-api-inference-extension/cmd/lwepp",
            "cmd/test2json",
        ],
        test: Some("sigs.k8s.io/gateway-api-inference-extension/conformance"),
        copied: &[
            ("sigs.k8s.io/gateway-api", "config/crd/standard"),
            ("sigs.k8s.io/gateway-api", "config/crd/experimental"),
            (
                "sigs.k8s.io/gateway-api-inference-extension",
                "config/crd/bases",
            ),
        ],
        ..NONE
    },
    Module {
        name: "conformance-coredns",
        folder: "k8s/conformance/coredns",
        renamed: &[("coredns", "conformance-coredns")],
        ..NONE
    },
];

const SUITE: Module = Module {
    packages: &["sigs.k8s.io/gateway-api/conformance", "cmd/test2json"],
    test: Some("sigs.k8s.io/gateway-api/conformance"),
    copied: &[
        ("sigs.k8s.io/gateway-api", "config/crd/standard"),
        ("sigs.k8s.io/gateway-api", "config/crd/experimental"),
    ],
    ..NONE
};
