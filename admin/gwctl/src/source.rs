//! The source of data: a gateway in a cluster or on this machine, or a saved dump.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use admin_types::dump::{Bind, Dump, Version};
use anyhow::{Context as _, Result, bail};
use serde::de::DeserializeOwned;

use crate::args::SourceArgs;
use crate::client::{Client, DEFAULT_TIMEOUT};
use crate::cluster::{Cluster, PodState, SelectedPods};
use crate::files;
use crate::resource::{self, Resource};
use crate::runtime::Blocking;
use crate::server::Server;

/// The source that the command line selects.
pub(crate) struct Source {
    origin: Origin,
    args: SourceArgs,
    runtime: Blocking,
    /// What was found in the cluster: a credential plugin runs once, and each object is read once.
    cluster: OnceCell<Cluster>,
    found: OnceCell<SelectedPods>,
}

enum Origin {
    /// An admin server: `host:port` or `unix:/path`.
    Server(String),
    File(PathBuf),
    Cluster,
}

/// A client of an admin server.
pub(crate) struct PodClient {
    /// Name of the pod; None outside of a cluster.
    pub(crate) pod: Option<String>,
    pub(crate) client: Client,
}

impl Source {
    /// From the command line.
    ///
    /// # Errors
    /// The kernel has no resources for a runtime.
    pub(crate) fn new(args: &SourceArgs) -> Result<Self> {
        let origin = match (&args.local, args.file.first()) {
            (Some(address), _) => Origin::Server(address.clone()),
            (None, Some(path)) => Origin::File(path.clone()),
            (None, None) => Origin::Cluster,
        };
        Ok(Self {
            origin,
            args: args.clone(),
            runtime: Blocking::new()?,
            cluster: OnceCell::new(),
            found: OnceCell::new(),
        })
    }

    /// The dump of the last `--file`, which `config diff` compares with.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn other_dump(&self) -> Result<Dump> {
        let path = self.args.file.last();
        self.read(path.context("no dump to compare with; give one with --file")?)
    }

    /// Whether the command line names a source, or selects something in the cluster.
    pub(crate) fn is_specified(&self, resource: Option<&Resource>) -> bool {
        !self.is_cluster() || resource.is_some() || self.args.names_cluster()
    }

    /// The namespace of `-n`.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.args.namespace.as_deref()
    }

    /// Whether the source is a cluster.
    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.origin, Origin::Cluster)
    }

    /// The cluster.
    ///
    /// # Errors
    /// There is none, or another source is given.
    pub(crate) fn cluster(&self) -> Result<&Cluster> {
        if !self.is_cluster() {
            bail!("this needs a cluster; leave out --local and --file");
        }
        if let Some(cluster) = self.cluster.get() {
            return Ok(cluster);
        }
        let cluster = Cluster::new(&self.args, &self.runtime)?;
        Ok(self.cluster.get_or_init(|| cluster))
    }

    fn found(&self, resource: Option<&Resource>) -> Result<&SelectedPods> {
        if let Some(found) = self.found.get() {
            return Ok(found);
        }
        let cluster = self.cluster()?;
        // A pod needs no Gateway to be found by.
        let pod = match (resource, &self.args.pod) {
            (None, Some(name)) => Some(format!("pod/{name}").parse::<Resource>()),
            _ => None,
        };
        let pod = pod.transpose().map_err(anyhow::Error::msg)?;
        let found = cluster.find(pod.as_ref().or(resource))?;
        Ok(self.found.get_or_init(|| found))
    }

    /// A client of the admin server: in a cluster, that of the best pod of the resource.
    ///
    /// # Errors
    /// There is no such server, or it has no such Gateway.
    pub(crate) fn client(&self, resource: Option<&Resource>) -> Result<Client> {
        match &self.origin {
            Origin::Server(address) => {
                let client = self.local(address)?;
                self.check_loaded(&client, resource)?;
                Ok(client)
            }
            Origin::Cluster => {
                let found = self.found(resource)?;
                let pods = found.reachable(self.args.pod.as_deref())?;
                let pod = pods.first().context("one is reachable")?;
                report_choice(found, pod, pods.len());
                self.client_of(pod)
            }
            Origin::File(_) => bail!(
                "this needs a running gateway, not a dump; name one in a cluster, or give its address \
                 with --local=HOST:PORT"
            ),
        }
    }

    /// Clients of one admin server, or of every reachable pod of the resource.
    ///
    /// # Errors
    /// There is none, or `--all-pods` is used outside of a cluster.
    pub(crate) fn clients(
        &self,
        resource: Option<&Resource>,
        all_pods: bool,
    ) -> Result<Vec<PodClient>> {
        if !all_pods {
            let client = self.client(resource)?;
            return Ok(vec![PodClient { pod: None, client }]);
        }
        if !self.is_cluster() {
            bail!("--all-pods needs a cluster; leave out --local and --file");
        }
        let pods = self.found(resource)?.reachable(self.args.pod.as_deref())?;
        let clients = pods.into_iter().map(|pod| {
            Ok(PodClient {
                pod: Some(pod.name.clone()),
                client: self.client_of(pod)?,
            })
        });
        clients.collect()
    }

    /// A client of the admin server of a pod.
    ///
    /// # Errors
    /// There is no cluster.
    pub(crate) fn client_of(&self, pod: &PodState) -> Result<Client> {
        let port = self.cluster()?.port(&pod.name, self.args.admin_port);
        let (timeout, runtime) = (self.args.timeout, self.runtime.clone());
        Ok(Client::new(Server::Pod(Box::new(port)), timeout, runtime))
    }

    fn local(&self, address: &str) -> Result<Client> {
        let Some(server) = Server::parse(address) else {
            bail!(
                "invalid address `{address}`: expected HOST:PORT, such as localhost:15000, or unix:/PATH"
            );
        };
        let (timeout, runtime) = (self.args.timeout, self.runtime.clone());
        Ok(Client::new(server, timeout, runtime))
    }

    fn check_loaded(&self, client: &Client, resource: Option<&Resource>) -> Result<()> {
        if resource.is_some() || self.args.namespace.is_some() {
            self.binds(client, resource)?;
        }
        Ok(())
    }

    /// The binds of the selected Gateways. None where everything is selected.
    ///
    /// # Errors
    /// The server is unreachable or has no such Gateway.
    pub(crate) fn binds(
        &self,
        client: &Client,
        resource: Option<&Resource>,
    ) -> Result<Option<Vec<Bind>>> {
        if !self.is_cluster() && resource.is_none() && self.args.namespace.is_none() {
            return Ok(None);
        }
        let mut binds = binds(client)?;
        let selected = self.gateways(&binds, resource)?;
        binds.retain(|bind| {
            selected
                .as_ref()
                .is_none_or(|it| it.contains(&bind.gateway))
        });
        Ok(Some(binds))
    }

    /// The selected ones among the Gateways that own `binds`. None where everything is selected.
    ///
    /// # Errors
    /// No loaded Gateway matches.
    pub(crate) fn gateways<'a>(
        &self,
        binds: impl IntoIterator<Item = &'a Bind>,
        resource: Option<&Resource>,
    ) -> Result<Option<BTreeSet<String>>> {
        let Origin::Cluster = self.origin else {
            return resource::gateways(binds, resource, self.args.namespace.as_deref());
        };
        let Some(gateway) = self.found(resource)?.gateway.clone() else {
            return Ok(None);
        };
        if !binds.into_iter().any(|it| it.gateway == gateway) {
            let (namespace, name) = gateway.split_once('/').unwrap_or_default();
            bail!(
                "the proxy has not loaded Gateway {gateway} yet; `gwctl status {name} -n {namespace}` \
                 shows why"
            );
        }
        Ok(Some(BTreeSet::from([gateway])))
    }

    /// The configuration dump.
    ///
    /// # Errors
    /// It cannot be fetched or read, or has an unsupported format version.
    pub(crate) fn dump(&self, resource: Option<&Resource>) -> Result<Dump> {
        match &self.origin {
            Origin::Server(address) => fetch_dump(&self.local(address)?),
            Origin::Cluster => fetch_dump(&self.client(resource)?),
            Origin::File(path) => self.read(path),
        }
    }

    /// The dump, or that of every reachable pod.
    ///
    /// # Errors
    /// As of [`Source::dump`] and [`Source::clients`].
    pub(crate) fn dumps(
        &self,
        resource: Option<&Resource>,
        all_pods: bool,
    ) -> Result<Vec<(Option<String>, Dump)>> {
        if !all_pods {
            return Ok(vec![(None, self.dump(resource)?)]);
        }
        let clients = self.clients(resource, all_pods)?.into_iter();
        let dumps = clients.map(|it| Ok((it.pod, fetch_dump(&it.client)?)));
        dumps.collect()
    }

    fn read(&self, path: &Path) -> Result<Dump> {
        let timeout = self.args.timeout.unwrap_or(DEFAULT_TIMEOUT);
        let bytes = files::read_to_end(path, MAX_DUMP_BYTES, timeout)?;
        decode(&bytes, &path.display().to_string())
    }
}

/// Reports which pod is used, if it is not the only one or not ready.
fn report_choice(found: &SelectedPods, pod: &PodState, reachable: usize) {
    let (owner, name) = (&found.owner, &pod.name);
    if !pod.is_ready {
        eprintln!("pod {name} is not ready: {}", pod.state);
    } else if reachable > 1 {
        eprintln!("{owner} has {reachable} pods; using {name} (--pod chooses another)");
    }
}

fn fetch_dump(client: &Client) -> Result<Dump> {
    decode(&client.get("/config_dump")?, "the gateway")
}

/// All binds of an admin server.
///
/// # Errors
/// It is unreachable.
pub(crate) fn binds(client: &Client) -> Result<Vec<Bind>> {
    Ok(decode(&client.get("/config_dump?type=binds")?, "the gateway")?.binds)
}

/// Fetches JSON from an admin server.
///
/// # Errors
/// It cannot be fetched, or does not have the expected type.
pub(crate) fn json<T: DeserializeOwned>(client: &Client, path: &str) -> Result<T> {
    let response = client.get(path)?;
    serde_json::from_slice(&response).with_context(|| {
        format!("unexpected response from {path}; is it the address of an admin server?")
    })
}

/// Limit of a saved dump: 1 GiB.
const MAX_DUMP_BYTES: u64 = 1 << 30;

/// Only the version of a dump, which every format version has.
#[derive(serde::Deserialize)]
struct DumpVersion {
    version: Version,
}

pub(crate) fn decode(bytes: &[u8], from: &str) -> Result<Dump> {
    let dump: DumpVersion = serde_json::from_slice(bytes).with_context(|| {
        format!(
            "{from}: not a configuration dump; save one with `gwctl config all -o json` or from \
             /config_dump"
        )
    })?;
    let format = dump.version.format;
    if format != Version::FORMAT {
        bail!(
            "{from}: unsupported dump format {format}, written by version {}; this gwctl reads \
             format {}: use the gwctl of that version",
            dump.version.gateway,
            Version::FORMAT
        );
    }
    serde_json::from_slice(bytes).with_context(|| format!("{from}: the dump is corrupt"))
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn an_invalid_dump_is_rejected_with_advice() {
        for (text, expected) in [
            ("", "not a configuration dump"),
            ("[]", "not a configuration dump"),
            (
                r#"{"version":{"gateway":"9.0.0","format":7}}"#,
                "use the gwctl of that version",
            ),
            (
                r#"{"version":{"gateway":"0.1.0","format":1},"routes":7}"#,
                "corrupt",
            ),
        ] {
            let error = decode(text.as_bytes(), "dump.json").expect_err(text);
            assert!(format!("{error:#}").contains(expected), "{error:#}");
        }
        let whole = r#"{"version":{"gateway":"0.1.0","format":1},"novel":true}"#;
        decode(whole.as_bytes(), "dump.json").expect("an unknown field is ignored");
    }
}
