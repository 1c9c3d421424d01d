//! The session keys of this process: from files, or a random one. In a cluster, the controller's come instead of a
//! random one.
//!
//! Files are read again when they change. What one contained before stays accepted for the longest lifetime of a
//! session token, so that no session moves. A file that cannot be read, or contains no key, changes nothing.

#![expect(
    clippy::disallowed_types,
    reason = "it runs before the shards, and on the configuration thread"
)]

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ring::rand::{SecureRandom as _, SystemRandom};
use tracing::{error, info, warn};
use xds::model::{SessionKey, SessionKeyForm, SessionKeys};

use super::files::is_written;
use super::watch::Watch;
use crate::limits::{SESSION_KEY_FILE_BYTES, SESSION_KEY_FILES};

/// The session keys of a process when it starts.
#[derive(Debug, Clone)]
pub struct OwnSessionKeys {
    /// One for each file, or a random one.
    current: Vec<SessionKey>,
    files: Vec<PathBuf>,
}

impl OwnSessionKeys {
    /// The keys in these files, of which the first signs; a random one without files.
    ///
    /// # Errors
    /// There are more than four files, one cannot be read or contains no key, or the system has no random numbers.
    pub fn read(files: &[PathBuf]) -> io::Result<Self> {
        if files.len() > SESSION_KEY_FILES {
            let text = format!("--session-key-file: at most {SESSION_KEY_FILES} are allowed");
            return Err(io::Error::other(text));
        }
        let current = if files.is_empty() {
            vec![random()?]
        } else {
            files
                .iter()
                .map(|file| read(file))
                .collect::<Result<_, _>>()?
        };
        Ok(Self {
            current,
            files: files.to_vec(),
        })
    }
}

/// Follows the session keys of a process.
pub(super) struct SessionKeyFiles {
    own: OwnSessionKeys,
    /// What files contained before, the newest first, and until when it is accepted.
    former: Vec<(SessionKey, Instant)>,
    /// `None` without files.
    watch: Option<Watch>,
}

impl SessionKeyFiles {
    pub(super) fn new(own: OwnSessionKeys) -> Self {
        let has_files = !own.files.is_empty();
        Self {
            watch: has_files.then(|| Watch::new(own.files.clone())),
            own,
            former: Vec::new(),
        }
    }

    /// Whether they are from files, and so take precedence over the controller's.
    pub(super) fn are_of_files(&self) -> bool {
        self.watch.is_some()
    }

    /// The keys: the first signs.
    pub(super) fn keys(&self) -> Option<SessionKeys> {
        let former = self.former.iter().map(|(key, _)| key);
        let mut keys: Vec<SessionKey> = Vec::new();
        for key in self.own.current.iter().chain(former) {
            if !keys.contains(key) && keys.len() < SessionKeys::MAX {
                keys.push(key.clone());
            }
        }
        SessionKeys::new(keys, 0).ok()
    }

    /// Waits until files may have changed. Cancel-safe.
    pub(super) async fn changed(&mut self) {
        match &mut self.watch {
            Some(watch) => watch.changed().await,
            None => std::future::pending().await,
        }
    }

    /// Reads the files again; what they contained before stays accepted for this long. Returns whether the keys
    /// changed.
    pub(super) fn read_again(&mut self, lifetime: Duration, now: Instant) -> bool {
        let written = self.watch.as_ref().map(Watch::written).unwrap_or_default();
        let before = self.keys();
        let OwnSessionKeys { current, files } = &mut self.own;
        for (key, file) in current.iter_mut().zip(files) {
            let Some(new) = read_unless_written(file, &written).filter(|new| new != key) else {
                continue;
            };
            info!(
                file = %file.display(),
                id = %new.id(),
                former_is_accepted_for_seconds = lifetime.as_secs(),
                "a session key file has another key"
            );
            let former = std::mem::replace(key, new);
            self.former.insert(0, (former, now + lifetime));
        }
        self.former.truncate(SessionKeys::MAX);
        self.forget_expired(now);
        self.keys() != before
    }

    /// When a former key is forgotten next.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.former.iter().map(|(_, until)| *until).min()
    }

    /// Forgets former keys that are not accepted any longer. Returns whether there were any.
    pub(super) fn forget_expired(&mut self, now: Instant) -> bool {
        let before = self.former.len();
        self.former.retain(|(_, until)| *until > now);
        self.former.len() != before
    }
}

/// The new key of a file that is not being written.
fn read_unless_written(file: &Path, written: &BTreeSet<PathBuf>) -> Option<SessionKey> {
    if is_written(file, written) {
        return None;
    }
    let key = read(file);
    key.inspect_err(|error| error!("{error}; its previous key stays in use"))
        .ok()
}

fn read(path: &Path) -> io::Result<SessionKey> {
    let named = |error: &dyn std::fmt::Display| {
        io::Error::other(format!("--session-key-file {}: {error}", path.display()))
    };
    let file = File::open(path).map_err(|error| {
        named(&format_args!(
            "{error}; correct the path, or make a key by `openssl rand -base64 32`"
        ))
    })?;
    let mut content = Vec::new();
    let read = file.take(SESSION_KEY_FILE_BYTES).read_to_end(&mut content);
    read.map_err(|error| named(&error))?;
    let (key, form) = SessionKey::parse(&content).map_err(|error| named(&error))?;
    if form == SessionKeyForm::Raw {
        warn!(
            file = %path.display(),
            "the session key is not 32 bytes in base64, so the content of the file is taken as it is: make \
             sure that it is random, as of `openssl rand -base64 32`"
        );
    }
    Ok(key)
}

fn random() -> io::Result<SessionKey> {
    let mut bytes = [0; 32];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| io::Error::other("the system has no random numbers"))?;
    SessionKey::new(&bytes).map_err(io::Error::other)
}

#[cfg(test)]
mod tests;
