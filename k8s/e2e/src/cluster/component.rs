//! The components of a cluster, and the command line of each.

use std::fmt;
use std::path::Path;

use super::address;
use super::network_namespace::NetworkNamespace;

/// A program that a supervisor runs.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    clap::ValueEnum,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Component {
    Etcd,
    Apiserver,
    ControllerManager,
    Scheduler,
    Coredns,
    Containerd,
    Kubelet,
    KubeProxy,
    LoadBalancer,
    #[value(skip)]
    Emulator,
}

impl Component {
    /// Where it runs. Those that each node has run on the node of this number.
    pub(crate) fn place(self, node: u8) -> NetworkNamespace {
        match self {
            Self::Etcd
            | Self::Apiserver
            | Self::ControllerManager
            | Self::Scheduler
            | Self::Coredns => NetworkNamespace::Node(0),
            Self::Containerd | Self::Kubelet | Self::KubeProxy => NetworkNamespace::Node(node),
            Self::LoadBalancer | Self::Emulator => NetworkNamespace::Client,
        }
    }

    /// The file that it logs to.
    pub(crate) fn log(self, place: NetworkNamespace) -> String {
        match place {
            NetworkNamespace::Client => format!("{self}.log"),
            NetworkNamespace::Node(_) => format!("{place}-{self}.log"),
        }
    }

    /// The arguments of its command line. `folder` is the cluster's.
    pub(crate) fn words(self, folder: &Path, place: NetworkNamespace) -> Vec<String> {
        let pki = format!("{}/pki", folder.display());
        let own = format!("{}/{place}", folder.display());
        let folder = folder.display();
        match self {
            Self::Etcd => split(ETCD, &[]),
            Self::Apiserver => {
                let address = address::node(0).to_string();
                let replaced = [("{pki}", &*pki), ("{own}", &*own), ("{address}", &*address)];
                split(APISERVER, &replaced)
            }
            Self::ControllerManager => split(
                CONTROLLER_MANAGER,
                &[("{pki}", &pki), ("{folder}", &folder.to_string())],
            ),
            Self::Scheduler => split(SCHEDULER, &[("{folder}", &folder.to_string())]),
            Self::Coredns => split("coredns -conf {own}/Corefile", &[("{own}", &own)]),
            Self::Containerd => split("containerd -c {own}/containerd.toml", &[("{own}", &own)]),
            Self::Kubelet => split(KUBELET, &[("{own}", &own), ("{name}", &place.to_string())]),
            Self::KubeProxy => split(
                "kube-proxy --config={own}/kube-proxy.yaml --hostname-override={name}",
                &[("{own}", &own), ("{name}", &place.to_string())],
            ),
            Self::LoadBalancer => split("e2e load-balancer", &[]),
            // Its arguments are in a file, which `network` writes.
            Self::Emulator => {
                let text = std::fs::read_to_string(format!("{own}/emulator")).unwrap_or_default();
                split(&text, &[])
            }
        }
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = clap::ValueEnum::to_possible_value(self);
        f.write_str(value.as_ref().map_or("emulator", |value| value.get_name()))
    }
}

/// Splits at blanks and then replaces the placeholders, so that a path with blanks stays one
/// argument.
fn split(text: &str, replaced: &[(&str, &str)]) -> Vec<String> {
    let words = text.split_whitespace();
    let fill = |word: &str| {
        replaced
            .iter()
            .fold(word.to_owned(), |word, (from, to)| word.replace(from, to))
    };
    words.map(fill).collect()
}

/// In memory, without fsync: nothing of it outlives the cluster.
const ETCD: &str = "etcd --data-dir /run/etcd --unsafe-no-fsync
    --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379
    --listen-peer-urls http://127.0.0.1:2380";

const APISERVER: &str = "kube-apiserver --etcd-servers=http://127.0.0.1:2379
    --advertise-address={address} --service-cluster-ip-range=10.96.0.0/16
    --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction --allow-privileged
    --client-ca-file={pki}/ca.crt
    --tls-cert-file={pki}/apiserver.crt --tls-private-key-file={pki}/apiserver.key
    --kubelet-client-certificate={pki}/apiserver-kubelet-client.crt
    --kubelet-client-key={pki}/apiserver-kubelet-client.key
    --kubelet-preferred-address-types=InternalIP
    --service-account-issuer=https://kubernetes.default.svc.cluster.local
    --service-account-key-file={pki}/sa.pub --service-account-signing-key-file={pki}/sa.key
    --requestheader-client-ca-file={pki}/front-proxy-ca.crt
    --requestheader-allowed-names=front-proxy-client
    --requestheader-extra-headers-prefix=X-Remote-Extra-
    --requestheader-group-headers=X-Remote-Group --requestheader-username-headers=X-Remote-User
    --proxy-client-cert-file={pki}/front-proxy-client.crt
    --proxy-client-key-file={pki}/front-proxy-client.key
    --audit-policy-file={own}/audit.yaml --audit-log-path={own}/audit.log";

/// A node that tests cut off for minutes stays Ready: otherwise its pods would leave every Service
/// after 50 s, and the behavior of our components in that time could not be observed.
const CONTROLLER_MANAGER: &str = "kube-controller-manager
    --kubeconfig={folder}/controller-manager.conf --leader-elect=false
    --node-monitor-grace-period=10m
    --flex-volume-plugin-dir=/var/lib/kubelet/volume-plugins
    --use-service-account-credentials --root-ca-file={pki}/ca.crt
    --service-account-private-key-file={pki}/sa.key
    --cluster-signing-cert-file={pki}/ca.crt --cluster-signing-key-file={pki}/ca.key";

const SCHEDULER: &str = "kube-scheduler --kubeconfig={folder}/scheduler.conf --leader-elect=false";

const KUBELET: &str = "kubelet --kubeconfig={own}/kubelet.conf --config={own}/kubelet.yaml
    --hostname-override={name}";
