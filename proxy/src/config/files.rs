//! Reads the files and folders of a configuration.
//!
//! A folder means the `.yaml`, `.yml` and `.json` files directly in it, by name, as `kubectl apply
//! -f` has it: not those in folders below. A file or folder that was named and is not there counts
//! as unreadable, so that what it held stays in force; a file that goes from a folder takes its
//! objects with it.

#![expect(
    clippy::disallowed_methods,
    reason = "it runs on the configuration thread"
)]

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use translate::admit::Source;

use crate::limits::CONFIGURATION_FILE_BYTES;

/// The files and folders that the user named.
#[derive(Debug, Clone, Default)]
pub struct Files {
    paths: Vec<PathBuf>,
    /// The files of the last look.
    seen: BTreeSet<PathBuf>,
}

impl Files {
    /// These files and folders.
    #[must_use]
    pub fn new(paths: Vec<PathBuf>) -> Self {
        let seen = BTreeSet::new();
        Self { paths, seen }
    }

    /// What the user named.
    #[must_use]
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Reads all of them. A file that is named twice is read once.
    pub fn read(&mut self) -> Vec<Source> {
        let mut found = Found::default();
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
        self.seen = found.seen;
        found.sources
    }
}

#[derive(Default)]
struct Found {
    sources: Vec<Source>,
    seen: BTreeSet<PathBuf>,
}

impl Found {
    fn read(&mut self, file: PathBuf) {
        if self.seen.contains(&file) {
            return;
        }
        let name = file.display().to_string();
        self.sources.push(match contents(&file) {
            Ok(bytes) => Source::from_bytes(name, bytes),
            Err(error) => Source::unreadable(name, why(&error)),
        });
        self.seen.insert(file);
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
    use std::fs;

    use translate::admit::Source;

    use super::Files;

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
        assert_eq!(files.read(), expected);
        fs::remove_file(path.join("a.yml")).expect("it was there");
        assert_eq!(files.read(), expected[1..]);
    }

    #[test]
    fn what_was_named_and_is_gone_is_unreadable_with_all_that_was_in_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("config");
        fs::create_dir(&path).expect("a folder");
        fs::write(path.join("a.yaml"), "").expect("a file");
        let mut files = Files::new(vec![path.clone()]);
        assert_eq!(files.read().len(), 1);
        fs::rename(&path, folder.path().join("away")).expect("it was there");
        for _ in 0..2 {
            let names: Vec<String> = files.read().into_iter().map(|source| source.name).collect();
            let expected = [path.clone(), path.join("a.yaml")];
            assert_eq!(names, expected.map(|path| path.display().to_string()));
        }
    }
}
