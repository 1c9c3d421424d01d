//! The source of data: a gateway's admin server, or a saved dump.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use admin_types::dump::{Bind, Dump, Version};
use anyhow::{Context as _, Result, bail};
use serde::de::DeserializeOwned;

use crate::args::SourceArgs;
use crate::client::{Client, DEFAULT_TIMEOUT};
use crate::files;
use crate::resource::{self, Resource};

/// The source that the command line selects.
#[derive(Debug)]
pub(crate) struct Source {
    origin: Origin,
    /// Set with `-n`.
    namespace: Option<String>,
    /// Set with `--timeout`; None for the defaults.
    timeout: Option<Duration>,
    /// The last `--file`, which `config diff` compares with.
    other: Option<PathBuf>,
}

#[derive(Debug)]
enum Origin {
    /// `host:port` or `unix:/path`.
    Server(String),
    File(PathBuf),
    Unspecified,
}

impl Source {
    /// From the command line.
    pub(crate) fn new(args: &SourceArgs) -> Self {
        let origin = match (&args.local, args.file.first()) {
            (Some(address), _) => Origin::Server(address.clone()),
            (None, Some(path)) => Origin::File(path.clone()),
            (None, None) => Origin::Unspecified,
        };
        Self {
            origin,
            namespace: args.namespace.clone(),
            timeout: args.timeout,
            other: args.file.last().cloned(),
        }
    }

    /// The dump of the last `--file`.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn other_dump(&self) -> Result<Dump> {
        let path = self.other.as_ref().context(SOURCE_REQUIRED)?;
        self.read(path)
    }

    /// Whether the command line names a source.
    pub(crate) fn is_specified(&self) -> bool {
        !matches!(self.origin, Origin::Unspecified)
    }

    /// A client of the admin server.
    ///
    /// # Errors
    /// The source is a saved dump or unspecified.
    pub(crate) fn server(&self) -> Result<Client> {
        match &self.origin {
            Origin::Server(address) => Client::new(address, self.timeout),
            Origin::File(_) => {
                bail!("this needs a running gateway, not a dump; give it with --local=HOST:PORT")
            }
            Origin::Unspecified => bail!(SOURCE_REQUIRED),
        }
    }

    /// A client of the admin server, after checking that the selected Gateways are loaded.
    ///
    /// # Errors
    /// There is no server, or it has no such Gateway.
    pub(crate) fn server_of(&self, resource: Option<&Resource>) -> Result<Client> {
        self.binds(resource)?;
        self.server()
    }

    /// The binds of the selected Gateways. None where everything is selected.
    ///
    /// # Errors
    /// The server is unreachable or has no such Gateway.
    pub(crate) fn binds(&self, resource: Option<&Resource>) -> Result<Option<Vec<Bind>>> {
        let client = self.server()?;
        if resource.is_none() && self.namespace.is_none() {
            return Ok(None);
        }
        let mut binds = decode(&client.get("/config_dump?type=binds")?, "the gateway")?.binds;
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
        resource::gateways(binds, resource, self.namespace.as_deref())
    }

    /// The configuration dump.
    ///
    /// # Errors
    /// It cannot be fetched or read, or has an unsupported format version.
    pub(crate) fn dump(&self) -> Result<Dump> {
        match &self.origin {
            Origin::Server(_) => decode(&self.server()?.get("/config_dump")?, "the gateway"),
            Origin::File(path) => self.read(path),
            Origin::Unspecified => bail!(SOURCE_REQUIRED),
        }
    }

    fn read(&self, path: &Path) -> Result<Dump> {
        let timeout = self.timeout.unwrap_or(DEFAULT_TIMEOUT);
        let bytes = files::read_to_end(path, MAX_DUMP_BYTES, timeout)?;
        decode(&bytes, &path.display().to_string())
    }

    /// Fetches JSON from the admin server, after checking that the selected Gateways are loaded.
    ///
    /// # Errors
    /// It cannot be fetched, or does not have the expected type.
    pub(crate) fn json<T: DeserializeOwned>(
        &self,
        resource: Option<&Resource>,
        path: &str,
    ) -> Result<T> {
        let answer = self.server_of(resource)?.get(path)?;
        serde_json::from_slice(&answer).with_context(|| {
            format!("unexpected response from {path}; is it the address of an admin server?")
        })
    }
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

const SOURCE_REQUIRED: &str = "no gateway given; use --local[=HOST:PORT] for the admin server of a \
    running one, or --file for a saved dump";

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
