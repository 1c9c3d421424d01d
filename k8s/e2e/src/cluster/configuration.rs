//! The configuration files of components, and the objects that a new cluster begins with.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::Cluster;
use super::address;
use super::network_namespace::NetworkNamespace;

/// Replaces placeholders such as `{name}` with their values.
fn fill(text: &str, values: &[(&str, &str)]) -> String {
    values.iter().fold(text.to_owned(), |text, (name, value)| {
        text.replace(name, value)
    })
}

pub(super) fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

impl Cluster {
    /// Writes what the components of a node read.
    pub(super) fn configure_node(&self, place: NetworkNamespace, number: u8) -> Result<()> {
        let own = self.folder_of(place);
        let folder = self.folder.display().to_string();
        let values = [
            ("{own}", own.display().to_string()),
            ("{folder}", folder),
            ("{address}", address::node(number).to_string()),
            ("{cgroup}", format!("/{}", self.cgroup_of_pods(place))),
            ("{pods}", address::pods(number)),
            ("{all_pods}", address::PODS.to_owned()),
            ("{dns}", address::DNS.to_string()),
        ];
        let values: Vec<(&str, &str)> = values
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        for (name, text) in [
            ("containerd.toml", CONTAINERD),
            ("kubelet.yaml", KUBELET),
            ("kube-proxy.yaml", KUBE_PROXY),
            ("cni/10-e2e.conflist", CNI),
            ("Corefile", COREFILE),
            ("audit.yaml", AUDIT),
            // Empty: without a network, each lookup of an external name would wait for its
            // timeouts.
            ("resolv.conf", ""),
        ] {
            write(&own.join(name), &fill(text, &values))?;
        }
        Ok(())
    }
}

/// The initial objects. Without the first, kubectl logs and exec are forbidden.
pub(super) fn first_objects() -> String {
    let values = [
        ("{dns}", address::DNS.to_string()),
        ("{address}", address::node(0).to_string()),
    ];
    let values = values
        .each_ref()
        .map(|(name, value)| (*name, value.as_str()));
    fill(FIRST_OBJECTS, &values)
}

/// OOM scores cannot be lowered in a container, so containerd must not try.
const CONTAINERD: &str = r#"version = 3
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = "localhost/pause:1"
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ["/usr/lib/cni"]
  conf_dir = "{own}/cni"
[plugins.'io.containerd.internal.v1.opt']
  path = "/var/lib/containerd/opt"
"#;

const CNI: &str = r#"{"cniVersion": "1.0.0", "name": "e2e", "plugins": [
  {"type": "ptp", "ipMasq": false, "ipam": {"type": "host-local", "dataDir": "/run/cni",
    "ranges": [[{"subnet": "{pods}"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}
]}
"#;

const KUBELET: &str = "\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: '{folder}/pki/ca.crt'}}
authorization: {mode: Webhook}
cgroupDriver: cgroupfs
cgroupRoot: {cgroup}
clusterDNS: [{dns}]
clusterDomain: cluster.local
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
evictionHard: {memory.available: 200Mi, nodefs.available: 1Gi, imagefs.available: 1Gi}
failCgroupV1: false
failSwapOn: false
imageGCHighThresholdPercent: 100
maxOpenFiles: 20000
oomScoreAdj: 0
resolvConf: '{own}/resolv.conf'
volumePluginDir: /var/lib/kubelet/volume-plugins
";

/// Traffic from outside of the cluster to a Service goes through the first node, so responses must
/// return through it.
const KUBE_PROXY: &str = "\
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
clientConnection: {kubeconfig: '{folder}/kube-proxy.conf'}
clusterCIDR: {all_pods}
detectLocalMode: ClusterCIDR
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
nftables: {minSyncPeriod: 100ms}
oomScoreAdj: 0
";

const COREFILE: &str = "\
.:53 {
    bind {address}
    errors
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        kubeconfig {folder}/admin.conf
    }
    cache 5
}
";

/// The requests of the controller, for the test of its permissions.
const AUDIT: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - {level: Metadata, userGroups: ['system:serviceaccounts:gateway-system']}
  - {level: None}
";

const FIRST_OBJECTS: &str = "\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: apiserver-kubelet}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: 'system:kubelet-api-admin'}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: kube-apiserver-kubelet-client}]
---
apiVersion: v1
kind: Service
metadata: {name: kube-dns, namespace: kube-system}
spec:
  clusterIP: {dns}
  ports: [{name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53, protocol: TCP}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: kube-dns, namespace: kube-system, labels: {kubernetes.io/service-name: kube-dns}}
addressType: IPv4
endpoints: [{addresses: [{address}], conditions: {ready: true}}]
ports: [{name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53, protocol: TCP}]
";
