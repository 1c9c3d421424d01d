//! Reads the files and folders of a configuration.
//!
//! A folder means the `.yaml`, `.yml` and `.json` files directly in it, by name, as `kubectl apply
//! -f` has it: not those in folders below. A file or folder that was named and is not there counts
//! as unreadable, so that what it held stays in force; a file that goes from a folder takes its
//! objects with it. A file that somebody is still writing, or has emptied a moment ago, says what it
//! said before: the half of a file can be good YAML, and would take the other half's objects away.

#![expect(
    clippy::disallowed_methods,
    reason = "it runs on the configuration thread"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use translate::admit::Source;

use crate::limits::{CONFIGURATION_FILE_BYTES, EMPTY_PATIENCE};

/// The files and folders that the user named.
#[derive(Debug, Clone, Default)]
pub struct Files {
    paths: Vec<PathBuf>,
    /// The files of the last look.
    seen: BTreeSet<PathBuf>,
    /// What each said when it was last whole; nothing of those that were empty.
    whole: BTreeMap<PathBuf, Source>,
    look_again: Option<Instant>,
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

    /// What the user named.
    #[must_use]
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// When to read again although nobody touches a file: one that is empty now may stay so.
    #[must_use]
    pub fn look_again(&self) -> Option<Instant> {
        self.look_again
    }

    /// Reads all of them, but for those that are being `written`. A file that is named twice is read
    /// once.
    pub fn read(&mut self, written: &BTreeSet<PathBuf>) -> Vec<Source> {
        let mut found = Found {
            sources: Vec::new(),
            seen: BTreeSet::new(),
            whole: &mut self.whole,
            written,
            look_again: None,
        };
        for path in &self.paths {
            match std::fs::metadata(path) {
                Ok(metadata) if metadata.is_dir() => match list(path) {
                    Ok(files) => files.into_iter().for_each(|file| found.read(file)),
                    Err(error) => found.unreadable(path, &error, &self.seen),
                },
                Ok(_) => found.read(path.clone()),
                Err(error) => found.unreadable(path, &error, &self.seen),
            }
        }
        self.look_again = found.look_again;
        let (seen, sources) = (found.seen, found.sources);
        self.whole.retain(|file, _| seen.contains(file));
        self.seen = seen;
        sources
    }
}

struct Found<'a> {
    sources: Vec<Source>,
    seen: BTreeSet<PathBuf>,
    whole: &'a mut BTreeMap<PathBuf, Source>,
    written: &'a BTreeSet<PathBuf>,
    look_again: Option<Instant>,
}

impl Found<'_> {
    fn read(&mut self, file: PathBuf) {
        if self.seen.contains(&file) {
            return;
        }
        let source = if self.is_written(&file) {
            // One that was never whole has said nothing yet.
            self.whole.get(&file).cloned()
        } else {
            Some(self.source(&file))
        };
        self.sources.extend(source);
        self.seen.insert(file);
    }

    fn is_written(&self, file: &Path) -> bool {
        let written = self.written;
        !written.is_empty() && std::fs::canonicalize(file).is_ok_and(|it| written.contains(&it))
    }

    fn source(&mut self, file: &Path) -> Source {
        let name = file.display().to_string();
        let bytes = match contents(file) {
            Ok(bytes) => bytes,
            Err(error) => return Source::unreadable(name, why(&error)),
        };
        if !bytes.is_empty() {
            let source = Source::from_bytes(name, bytes);
            self.whole.insert(file.to_owned(), source.clone());
            return source;
        }
        if let Some(before) = self.whole.get(file)
            && let Some(left) = age(file).and_then(|age| EMPTY_PATIENCE.checked_sub(age))
        {
            let again = Instant::now() + left;
            let earliest = self.look_again.map_or(again, |other| other.min(again));
            self.look_again = Some(earliest);
            return before.clone();
        }
        self.whole.remove(file);
        Source::new(name, "")
    }

    /// What could not be looked at, and every file that was in it before.
    fn unreadable(&mut self, path: &Path, error: &io::Error, before: &BTreeSet<PathBuf>) {
        let why = why(error);
        let name = path.display().to_string();
        self.sources.push(Source::unreadable(name, why.as_str()));
        for file in before.iter().filter(|file| file.parent() == Some(path)) {
            if self.seen.insert(file.clone()) {
                let name = file.display().to_string();
                self.sources.push(Source::unreadable(name, why.as_str()));
            }
        }
    }
}

/// Opening a pipe would wait for its writer, and a device may have no end, so neither is read.
fn contents(file: &Path) -> io::Result<Vec<u8>> {
    let mut options = std::fs::OpenOptions::new();
    let file = options
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(file)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(CONFIGURATION_FILE_BYTES + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > CONFIGURATION_FILE_BYTES {
        return Err(io::Error::other("it is larger than 64 MiB"));
    }
    Ok(bytes)
}

/// Since it was changed; none where the clock says that this is yet to come.
fn age(file: &Path) -> Option<Duration> {
    let changed = std::fs::metadata(file).ok()?.modified().ok()?;
    changed.elapsed().ok()
}

fn why(error: &io::Error) -> String {
    let next = match error.kind() {
        io::ErrorKind::NotFound => "check the path",
        io::ErrorKind::PermissionDenied => "let this user read it",
        _ => "it is tried again when it changes",
    };
    format!("cannot be read ({error}): {next}")
}

fn list(folder: &Path) -> io::Result<BTreeSet<PathBuf>> {
    let mut files = BTreeSet::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        // Through links: the files of a mounted ConfigMap are links.
        if is_configuration(&path) && !path.is_dir() {
            files.insert(path);
        }
    }
    Ok(files)
}

/// Whether a file in a folder is meant: editors leave `.name.yaml.swp` and `.#name.yaml` beside it.
pub(super) fn is_configuration(path: &Path) -> bool {
    let hidden = path
        .file_name()
        .is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
    let extension = path.extension().and_then(|extension| extension.to_str());
    !hidden && matches!(extension, Some("yaml" | "yml" | "json"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::time::{Duration, SystemTime};

    use translate::admit::Source;

    use super::Files;
    use crate::limits::EMPTY_PATIENCE;

    fn read(files: &mut Files) -> Vec<Source> {
        files.read(&BTreeSet::new())
    }

    #[test]
    fn a_folder_means_the_configuration_files_in_it_by_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path();
        fs::create_dir(path.join("below.yaml")).expect("a folder");
        for name in [
            "b.yaml",
            "a.yml",
            "c.json",
            "d.txt",
            ".b.yaml.swp",
            ".#b.yaml",
            "b.yaml~",
        ] {
            fs::write(path.join(name), name).expect("a file");
        }
        let mut files = Files::new(vec![path.to_owned(), path.join("b.yaml")]);
        let expected = ["a.yml", "b.yaml", "c.json"]
            .map(|name| Source::new(path.join(name).display().to_string(), name));
        assert_eq!(read(&mut files), expected);
        fs::remove_file(path.join("a.yml")).expect("it was there");
        assert_eq!(read(&mut files), expected[1..]);
    }

    #[test]
    fn a_file_that_is_written_or_was_just_emptied_says_what_it_said() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().canonicalize().expect("it is there");
        let (old, new) = (path.join("old.yaml"), path.join("new.yaml"));
        fs::write(&old, "whole").expect("a file");
        let mut files = Files::new(vec![path]);
        let before = read(&mut files);

        fs::write(&old, "ha").expect("a file");
        fs::write(&new, "ha").expect("a file");
        let written = BTreeSet::from([old.clone(), new.clone()]);
        assert_eq!(files.read(&written), before);
        assert_eq!(files.look_again(), None, "its writer's end is told");
        assert_eq!(read(&mut files).len(), 2);

        fs::write(&old, "").expect("a file");
        fs::remove_file(new).expect("it was there");
        let name = old.display().to_string();
        assert_eq!(read(&mut files), [Source::new(name.as_str(), "ha")]);
        assert!(files.look_again().is_some());
        let long_ago = SystemTime::now() - EMPTY_PATIENCE - Duration::from_secs(1);
        let file = fs::File::options().write(true).open(&old).expect("a file");
        file.set_modified(long_ago).expect("our own file");
        assert_eq!(read(&mut files), [Source::new(name, "")]);
        assert_eq!(files.look_again(), None);
    }

    #[test]
    fn what_was_named_and_is_gone_is_unreadable_with_all_that_was_in_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("config");
        fs::create_dir(&path).expect("a folder");
        fs::write(path.join("a.yaml"), "").expect("a file");
        let mut files = Files::new(vec![path.clone()]);
        assert_eq!(read(&mut files).len(), 1);
        fs::rename(&path, folder.path().join("away")).expect("it was there");
        for _ in 0..2 {
            let sources = read(&mut files).into_iter();
            let names: Vec<String> = sources.map(|source| source.name).collect();
            let expected = [path.clone(), path.join("a.yaml")];
            assert_eq!(names, expected.map(|path| path.display().to_string()));
        }
    }
}
