//! The last applied configuration, saved for the next process.
//!
//! A file with a header line that names the format and the Gateway, the SHA-256 of the rest, and
//! the resources in their wire format. It holds private keys, so only its owner may read it, and it
//! is meant for a volume in memory. It is replaced atomically, so that a crash leaves the previous
//! one. Versions are not saved: they are hashes of the wire format. A resource from a newer
//! controller with fields that this version does not know then has another version, and is sent
//! again. What refuses requests in the place of a rejected resource is marked as such: otherwise the next
//! process would take it for a previous version, and keep it when it is rejected with other matches.

#![expect(
    clippy::disallowed_types,
    reason = "it runs on the configuration thread, or off it"
)]

use std::collections::BTreeSet;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::sync::Arc;

use bytes::{Buf as _, Bytes};
use prost::Message as _;
use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use thiserror::Error;
use xds::delta::{Encoded, Version};
use xds::discovery::{self, Any};
use xds::model::{Kind, Model, ObjectName, Resource, ResourceKey, SharedLists};

use crate::limits::LAST_GOOD_BYTES;

/// Location and owner of the file.
#[derive(Debug, Clone)]
pub(super) struct LastGoodFile {
    folder: PathBuf,
    gateway: ObjectName,
}

/// What is saved.
#[derive(Debug, Default)]
pub(super) struct SavedConfig {
    pub(super) model: Arc<Model>,
    /// Which of its resources refuse requests in the place of rejected ones.
    pub(super) substituted: BTreeSet<ResourceKey>,
}

/// A saved resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SavedResource {
    pub(super) resource: Resource,
    pub(super) version: Version,
    /// Whether it refuses requests in the place of a rejected one.
    pub(super) is_substitute: bool,
}

/// The version of what refuses requests in the place of a rejected resource.
const SUBSTITUTE: &str = "substitute";

/// Why a file is not used.
#[derive(Debug, Error)]
pub(super) enum Unusable {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("it belongs to another Gateway than {0}, or to another version of this program")]
    Foreign(ObjectName),
    #[error("it is corrupt")]
    Damaged,
    #[error("{kind} `{key}` in it cannot be read: {why}")]
    Resource {
        kind: Kind,
        key: String,
        why: String,
    },
}

impl LastGoodFile {
    pub(super) fn new(folder: PathBuf, gateway: ObjectName) -> Self {
        Self { folder, gateway }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.folder.join("last-good")
    }

    /// The saved resources; `None` if there is no file.
    pub(super) fn read(&self) -> Result<Option<Vec<SavedResource>>, Unusable> {
        let file = match File::open(self.path()) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let mut content = Vec::new();
        file.take(LAST_GOOD_BYTES).read_to_end(&mut content)?;
        self.parse(&content).map(Some)
    }

    fn parse(&self, content: &[u8]) -> Result<Vec<SavedResource>, Unusable> {
        let rest = content.strip_prefix(self.header().as_bytes());
        let rest = rest.ok_or_else(|| Unusable::Foreign(self.gateway.clone()))?;
        let (hash, body) = rest
            .split_at_checked(SHA256_OUTPUT_LEN)
            .ok_or(Unusable::Damaged)?;
        if digest(&SHA256, body).as_ref() != hash {
            return Err(Unusable::Damaged);
        }
        let mut body = Bytes::copy_from_slice(body);
        let (mut resources, mut lists) = (Vec::new(), SharedLists::default());
        while body.has_remaining() {
            let kept = discovery::Resource::decode_length_delimited(&mut body);
            let mut saved = resource(kept.map_err(|_| Unusable::Damaged)?)?;
            lists.share(&mut saved.resource);
            resources.push(saved);
        }
        Ok(resources)
    }

    /// Saves a configuration in place of the previous one.
    pub(super) fn write(&self, saved: &SavedConfig) -> io::Result<()> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.folder)?;
        let fresh = self.folder.join("last-good.new");
        // Left by a process that ended while writing.
        match std::fs::remove_file(&fresh) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let body = body(saved)?;
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&fresh)?;
        file.write_all(self.header().as_bytes())?;
        file.write_all(digest(&SHA256, &body).as_ref())?;
        file.write_all(&body)?;
        file.sync_all()?;
        std::fs::rename(&fresh, self.path())
    }

    fn header(&self) -> String {
        format!("gateway last-good 1 {}\n", self.gateway)
    }
}

fn body(saved: &SavedConfig) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    for resource in saved.model.resources() {
        let encoded = Encoded::new(&resource);
        let is_substitute = saved.substituted.contains(&encoded.key);
        let kept = discovery::Resource {
            name: encoded.key.key.to_string(),
            version: if is_substitute { SUBSTITUTE } else { "" }.to_owned(),
            resource: Some(Any {
                type_url: encoded.key.kind.type_url().to_owned(),
                value: encoded.bytes,
            }),
        };
        kept.encode_length_delimited(&mut body)
            .map_err(io::Error::other)?;
    }
    Ok(body)
}

fn resource(kept: discovery::Resource) -> Result<SavedResource, Unusable> {
    let content = kept.resource.ok_or(Unusable::Damaged)?;
    let kind = Kind::from_type_url(&content.type_url).ok_or(Unusable::Damaged)?;
    let decoded = xds::decode::resource(kind, &content.value);
    let decoded = decoded.map_err(|problems| Unusable::Resource {
        kind,
        key: kept.name,
        why: problems.to_string(),
    })?;
    Ok(SavedResource {
        resource: decoded,
        version: Version::of(&content.value),
        is_substitute: kept.version == SUBSTITUTE,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use tempfile::TempDir;
    use xds::model::{Service, ServiceKey, SessionAffinity};

    use super::*;

    fn saved(services: usize) -> SavedConfig {
        let mut model = Model::default();
        for number in 0..services {
            model.insert(Resource::from(Service {
                key: ServiceKey::new(&ObjectName::new("a", &number.to_string())),
                vips: Vec::new(),
                ports: Vec::new(),
                session_affinity: SessionAffinity::None,
            }));
        }
        SavedConfig {
            model: Arc::new(model),
            substituted: BTreeSet::new(),
        }
    }

    fn last_good_file(folder: &TempDir) -> LastGoodFile {
        let folder = folder.path().join("cache");
        LastGoodFile::new(folder, ObjectName::new("infra", "web"))
    }

    #[test]
    fn a_saved_configuration_is_read_back_with_its_versions() {
        let folder = TempDir::new().expect("a temporary folder");
        let kept = last_good_file(&folder);
        assert!(kept.read().expect("there is none").is_none());
        for services in [3, 2] {
            let mut saved = saved(services);
            let first = saved.model.resources().next().expect("there are some");
            saved.substituted.insert(first.resource_key());
            kept.write(&saved).expect("our own folder");
            let read = kept.read().expect("a whole file").expect("a file");
            let expected = saved.model.resources().map(|resource| SavedResource {
                version: Encoded::new(&resource).version,
                is_substitute: resource == first,
                resource,
            });
            assert_eq!(read, expected.collect::<Vec<_>>());
        }
        let mode = std::fs::metadata(kept.path())
            .expect("the file")
            .permissions();
        assert_eq!(mode.mode() & 0o777, 0o600, "it may hold private keys");
    }

    #[test]
    fn a_file_that_is_damaged_or_of_another_gateway_is_not_used() {
        let folder = TempDir::new().expect("a temporary folder");
        let kept = last_good_file(&folder);
        kept.write(&saved(2)).expect("our own folder");
        let saved = std::fs::read(kept.path()).expect("the file");
        for end in 0..saved.len() {
            std::fs::write(kept.path(), &saved[..end]).expect("our own folder");
            assert!(kept.read().is_err(), "cut at {end}");
        }
        for at in 0..saved.len() {
            let mut spoiled = saved.clone();
            spoiled[at] ^= 1;
            std::fs::write(kept.path(), &spoiled).expect("our own folder");
            assert!(kept.read().is_err(), "another bit at {at}");
        }
        std::fs::write(kept.path(), &saved).expect("our own folder");
        let other = LastGoodFile::new(kept.folder.clone(), ObjectName::new("infra", "other"));
        let error = other.read().expect_err("it is not its own");
        assert!(matches!(error, Unusable::Foreign(_)), "{error}");
    }

    #[test]
    fn a_leftover_temporary_file_is_overwritten() {
        let folder = TempDir::new().expect("a temporary folder");
        let kept = last_good_file(&folder);
        kept.write(&saved(1)).expect("our own folder");
        std::fs::write(kept.folder.join("last-good.new"), "half").expect("our own folder");
        kept.write(&saved(2)).expect("it is replaced");
        let read = kept.read().expect("a whole file").expect("a file");
        assert_eq!(read.len(), 2);
    }
}
