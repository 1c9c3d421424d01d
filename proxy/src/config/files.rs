//! Reads the files and folders of a configuration.
//!
//! As with `kubectl apply -f`, a folder stands for its `.yaml`, `.yml` and `.json` files, by name,
//! without subfolders. A named file or folder that is missing counts as unreadable, so that its
//! objects stay in effect; a file that is removed from a folder takes its objects with it. A file
//! is read only if its metadata may have changed, and its text is not kept.
//!
//! A file that is being written, or was emptied a moment ago, keeps its previous objects: half of a
//! file can be valid YAML, and would remove the objects of the other half.

#![expect(
    clippy::disallowed_methods,
    reason = "it runs on the configuration thread"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use translate::files::{Listed, Source};

use crate::limits::{
    CONFIGURATION_FILE_BYTES, EMPTY_FILE_TIMEOUT, FILE_TIME_GRANULARITY,
    FILE_TIME_GRANULARITY_SECONDS,
};

/// The files and folders that the user named.
#[derive(Debug, Clone, Default)]
pub struct Files {
    paths: Vec<PathBuf>,
    /// The files of the last load.
    seen: BTreeSet<PathBuf>,
    /// Files that were complete when last read, with a stamp unless they may have changed since;
    /// without those that were empty.
    whole: BTreeMap<PathBuf, Option<Stamp>>,
    next_scan: Option<Instant>,
}

impl Files {
    /// These files and folders.
    #[must_use]
    pub fn new(paths: Vec<PathBuf>) -> Self {
        Self {
            paths,
            ..Self::default()
        }
    }

    /// Files and directories, as given by the user.
    #[must_use]
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// When to read again without an event: a file that is empty now may stay empty.
    #[must_use]
    pub fn next_scan(&self) -> Option<Instant> {
        self.next_scan
    }

    /// Lists all files, and reads those that may have changed, except those in `written`. A file
    /// that is named twice is read once.
    pub fn scan(&mut self, written: &BTreeSet<PathBuf>) -> Vec<Listed> {
        let mut found = DirectoryScan {
            listed: Vec::new(),
            seen: BTreeSet::new(),
            whole: &mut self.whole,
            written,
            next_scan: None,
        };
        for path in &self.paths {
            match std::fs::metadata(path) {
                Ok(metadata) if metadata.is_dir() => match list(path) {
                    Ok(files) => files
                        .into_iter()
                        .for_each(|file| found.read_if_changed(file)),
                    Err(error) => found.unreadable(path, &error, &self.seen),
                },
                Ok(_) => found.read_if_changed(path.clone()),
                Err(error) => found.unreadable(path, &error, &self.seen),
            }
        }
        self.next_scan = found.next_scan;
        let (seen, listed) = (found.seen, found.listed);
        self.whole.retain(|file, _| seen.contains(file));
        self.seen = seen;
        listed
    }
}

struct DirectoryScan<'a> {
    listed: Vec<Listed>,
    seen: BTreeSet<PathBuf>,
    whole: &'a mut BTreeMap<PathBuf, Option<Stamp>>,
    written: &'a BTreeSet<PathBuf>,
    next_scan: Option<Instant>,
}

impl DirectoryScan<'_> {
    fn read_if_changed(&mut self, file: PathBuf) {
        if self.seen.contains(&file) {
            return;
        }
        let listed = if is_written(&file, self.written) {
            // A file that was never complete has no objects yet.
            let whole = self.whole.contains_key(&file);
            whole.then(|| Listed::Unchanged(name(&file)))
        } else if self.is_unchanged(&file) {
            Some(Listed::Unchanged(name(&file)))
        } else {
            Some(self.read(&file))
        };
        self.listed.extend(listed);
        self.seen.insert(file);
    }

    fn is_unchanged(&self, file: &Path) -> bool {
        let stamp = self.whole.get(file).copied().flatten();
        let now = std::fs::metadata(file);
        stamp.is_some_and(|stamp| now.is_ok_and(|now| stamp == Stamp::of(&now)))
    }

    fn read(&mut self, file: &Path) -> Listed {
        let name = name(file);
        let (bytes, stamp) = match contents(file) {
            Ok(contents) => contents,
            Err(error) => {
                self.invalidate(file);
                return Listed::Read(Source::unreadable(name, why(&error)));
            }
        };
        if !bytes.is_empty() {
            self.whole.insert(file.to_owned(), stamp);
            return Listed::Read(Source::from_bytes(name, bytes));
        }
        if self.whole.contains_key(file)
            && let Some(left) = age(file).and_then(|age| EMPTY_FILE_TIMEOUT.checked_sub(age))
        {
            let again = Instant::now() + left;
            let earliest = self.next_scan.map_or(again, |other| other.min(again));
            self.next_scan = Some(earliest);
            return Listed::Unchanged(name);
        }
        self.whole.remove(file);
        Listed::Read(Source::new(name, ""))
    }

    /// An unreadable path, with every file that was in it before.
    fn unreadable(&mut self, path: &Path, error: &io::Error, before: &BTreeSet<PathBuf>) {
        let why = why(error);
        let unreadable = |file: &Path| Listed::Read(Source::unreadable(name(file), why.as_str()));
        self.listed.push(unreadable(path));
        self.invalidate(path);
        for file in before.iter().filter(|file| file.parent() == Some(path)) {
            if self.seen.insert(file.clone()) {
                self.listed.push(unreadable(file));
                self.invalidate(file);
            }
        }
    }

    /// Forces a file to be read again once it can be.
    fn invalidate(&mut self, file: &Path) {
        if let Some(stamp) = self.whole.get_mut(file) {
            *stamp = None;
        }
    }
}

/// Identifies the content of a file without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    /// Seconds and nanoseconds of the last write.
    modified: (i64, i64),
    /// Time of the last change of content or attributes, which cannot be set by programs.
    changed: (i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// The stamp of a file that was just opened. `None` if it is so young that another write may
    /// leave the same stamp.
    fn of_opened(metadata: &Metadata) -> Option<Self> {
        Self::of(metadata).if_stable(SystemTime::now())
    }

    /// It, if no write after `now` can leave the same.
    fn if_stable(self, now: SystemTime) -> Option<Self> {
        let now = now.duration_since(UNIX_EPOCH).ok()?;
        let (seconds, nanoseconds) = self.changed.max(self.modified);
        let changed = u64::try_from(seconds).ok()?;
        let changed = Duration::new(changed, u32::try_from(nanoseconds).ok()?);
        let grain = match nanoseconds {
            0 => FILE_TIME_GRANULARITY_SECONDS,
            _ => FILE_TIME_GRANULARITY,
        };
        (now.checked_sub(changed)? > grain).then_some(self)
    }
}

/// Whether a file, as the user named it, is one of those that are being written, which have canonical paths.
pub(super) fn is_written(file: &Path, written: &BTreeSet<PathBuf>) -> bool {
    !written.is_empty() && std::fs::canonicalize(file).is_ok_and(|it| written.contains(&it))
}

/// The file name in findings.
fn name(file: &Path) -> String {
    file.display().to_string()
}

/// The content of a regular file. Opening a pipe would wait for its writer, and a device may be
/// endless, so neither is read.
fn contents(file: &Path) -> io::Result<(Vec<u8>, Option<Stamp>)> {
    let mut options = std::fs::OpenOptions::new();
    let file = options
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(file)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    // The stamp from before reading: a write meanwhile changes it.
    let stamp = Stamp::of_opened(&metadata);
    let mut bytes = Vec::new();
    file.take(CONFIGURATION_FILE_BYTES + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > CONFIGURATION_FILE_BYTES {
        return Err(io::Error::other("it is larger than 64 MiB"));
    }
    Ok((bytes, stamp))
}

/// Time since the last change; `None` if the clock says that it lies in the future.
fn age(file: &Path) -> Option<Duration> {
    let changed = std::fs::metadata(file).ok()?.modified().ok()?;
    changed.elapsed().ok()
}

fn why(error: &io::Error) -> String {
    let next = match error.kind() {
        io::ErrorKind::NotFound => "check the path",
        io::ErrorKind::PermissionDenied => "grant this user read access",
        _ => "it is read again when it changes",
    };
    format!("cannot be read ({error}): {next}")
}

fn list(folder: &Path) -> io::Result<BTreeSet<PathBuf>> {
    let mut files = BTreeSet::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        // Follows links: the files of a mounted ConfigMap are links.
        let is_file = || entry.file_type().is_ok_and(|kind| kind.is_file()) || !path.is_dir();
        if is_configuration(&path) && is_file() {
            files.insert(path);
        }
    }
    Ok(files)
}

/// Whether a file in a folder is configuration: editors leave `.name.yaml.swp` and `.#name.yaml`
/// beside it.
pub(super) fn is_configuration(path: &Path) -> bool {
    let hidden = path
        .file_name()
        .is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
    let extension = path.extension().and_then(|extension| extension.to_str());
    !hidden && matches!(extension, Some("yaml" | "yml" | "json"))
}

#[cfg(test)]
mod tests;
