//! Where answers come from: the admin server of a gateway, or a saved dump.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use admin_types::dump::{Bind, Dump, Version};
use anyhow::{Context as _, Result, bail};
use serde::de::DeserializeOwned;

use crate::args;
use crate::client::{Client, TIMEOUT};
use crate::files;
use crate::resource::{self, Resource};

/// Where answers come from.
#[derive(Debug)]
pub(crate) struct Source {
    from: Place,
    /// Namespace of the Gateways that are meant, where the user names one.
    namespace: Option<String>,
    /// None where the user left it to us.
    timeout: Option<Duration>,
    /// The dump that is named last.
    other: Option<PathBuf>,
}

#[derive(Debug)]
enum Place {
    Server(String),
    File(PathBuf),
    Nowhere,
}

impl Source {
    /// What the user asked for.
    pub(crate) fn of(from: &args::From) -> Self {
        let place = match (&from.local, from.file.first()) {
            (Some(address), _) => Place::Server(address.clone()),
            (None, Some(path)) => Place::File(path.clone()),
            (None, None) => Place::Nowhere,
        };
        Self {
            from: place,
            namespace: from.namespace.clone(),
            timeout: from.timeout,
            other: from.file.last().cloned(),
        }
    }

    /// The dump that is named last, beside the first place.
    ///
    /// # Errors
    /// It cannot be had.
    pub(crate) fn other_dump(&self) -> Result<Dump> {
        let path = self.other.as_ref().context(NOWHERE)?;
        self.read(path)
    }

    /// Whether anything was named.
    pub(crate) fn is_somewhere(&self) -> bool {
        !matches!(self.from, Place::Nowhere)
    }

    /// A client of the admin server.
    ///
    /// # Errors
    /// There is none: a saved dump was given, or nothing.
    pub(crate) fn server(&self) -> Result<Client> {
        match &self.from {
            Place::Server(address) => Client::new(address, self.timeout),
            Place::File(_) => {
                bail!(
                    "a saved dump cannot answer this; name a running gateway with --local=HOST:PORT"
                )
            }
            Place::Nowhere => bail!(NOWHERE),
        }
    }

    /// A client of the admin server, once that has what is named.
    ///
    /// # Errors
    /// There is none, or it has no such Gateway.
    pub(crate) fn server_of(&self, resource: Option<&Resource>) -> Result<Client> {
        self.binds(resource)?;
        self.server()
    }

    /// The binds of the Gateways that are named, as the server has them; nothing where none is.
    ///
    /// # Errors
    /// It has no such Gateway, or cannot be asked.
    pub(crate) fn binds(&self, resource: Option<&Resource>) -> Result<Option<Vec<Bind>>> {
        let client = self.server()?;
        if resource.is_none() && self.namespace.is_none() {
            return Ok(None);
        }
        let mut binds = decode(&client.get("/config_dump?type=binds")?, "the gateway")?.binds;
        let named = self.gateways(&binds, resource)?;
        binds.retain(|bind| named.as_ref().is_none_or(|it| it.contains(&bind.gateway)));
        Ok(Some(binds))
    }

    /// Those of the Gateways with these binds that are named; nothing where none is, and all are meant.
    ///
    /// # Errors
    /// There is none of them.
    pub(crate) fn gateways<'a>(
        &self,
        binds: impl IntoIterator<Item = &'a Bind>,
        resource: Option<&Resource>,
    ) -> Result<Option<BTreeSet<String>>> {
        resource::gateways(binds, resource, self.namespace.as_deref())
    }

    /// The configuration, and how it fares.
    ///
    /// # Errors
    /// It cannot be had, or is of a form that this version does not read.
    pub(crate) fn dump(&self) -> Result<Dump> {
        match &self.from {
            Place::Server(_) => decode(&self.server()?.get("/config_dump")?, "the gateway"),
            Place::File(path) => self.read(path),
            Place::Nowhere => bail!(NOWHERE),
        }
    }

    /// Reads a saved dump.
    fn read(&self, path: &Path) -> Result<Dump> {
        let timeout = self.timeout.unwrap_or(TIMEOUT);
        let bytes = files::whole(path, DUMP_BYTES, timeout)?;
        decode(&bytes, &path.display().to_string())
    }

    /// An answer in JSON, of a server that has what is named.
    ///
    /// # Errors
    /// It cannot be had, or is something else.
    pub(crate) fn json<T: DeserializeOwned>(
        &self,
        resource: Option<&Resource>,
        path: &str,
    ) -> Result<T> {
        let answer = self.server_of(resource)?.get(path)?;
        serde_json::from_slice(&answer)
            .with_context(|| format!("the answer of {path} is not what a gateway says; is it one?"))
    }
}

/// Larger than any dump: 1 GiB.
const DUMP_BYTES: u64 = 1 << 30;

/// Only the version of a dump, which is there whatever else has changed.
#[derive(serde::Deserialize)]
struct VersionAlone {
    version: Version,
}

pub(crate) fn decode(bytes: &[u8], from: &str) -> Result<Dump> {
    let alone: VersionAlone = serde_json::from_slice(bytes).with_context(|| {
        format!("{from}: not a configuration dump; save one with `gwctl config all -o json`, or from /config_dump")
    })?;
    let format = alone.version.format;
    if format != Version::FORMAT {
        bail!(
            "{from}: a dump of form {format}, written by version {}; this gwctl reads form {}: use \
             the gwctl of that version",
            alone.version.gateway,
            Version::FORMAT
        );
    }
    serde_json::from_slice(bytes).with_context(|| format!("{from}: a dump that is damaged"))
}

const NOWHERE: &str = "which gateway? name one that can be reached from here with \
    --local[=HOST:PORT], or a saved dump with --file";

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn what_is_no_dump_is_refused_with_what_to_do() {
        for (text, expected) in [
            ("", "not a configuration dump"),
            ("[]", "not a configuration dump"),
            (
                r#"{"version":{"gateway":"9.0.0","format":7}}"#,
                "use the gwctl of that version",
            ),
            (
                r#"{"version":{"gateway":"0.1.0","format":1},"routes":7}"#,
                "damaged",
            ),
        ] {
            let error = decode(text.as_bytes(), "dump.json").expect_err(text);
            assert!(format!("{error:#}").contains(expected), "{error:#}");
        }
        let whole = r#"{"version":{"gateway":"0.1.0","format":1},"novel":true}"#;
        decode(whole.as_bytes(), "dump.json").expect("a field of a newer version is passed over");
    }
}
