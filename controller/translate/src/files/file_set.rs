//! All files of a configuration, in order. Unchanged files are not read again.

use std::collections::HashMap;
use std::sync::Arc;

use super::documents::Documents;
use super::file::File;
use super::source::Source;
use super::unknown_fields::UnknownFields;

/// A file found by the watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listed {
    /// The file of this name is unchanged.
    Unchanged(String),
    /// It may have changed.
    Read(Source),
}

impl Listed {
    fn name(&self) -> &str {
        match self {
            Self::Unchanged(name) => name,
            Self::Read(source) => &source.name,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct FileSet {
    documents: Documents,
    files: HashMap<Arc<str>, File>,
}

#[derive(Debug)]
pub(crate) struct FileChange {
    /// Its previous content; `None` for a new file.
    pub(crate) old: Option<File>,
    /// Its name; `None` for a deleted file.
    pub(crate) new: Option<Arc<str>>,
}

impl FileSet {
    pub(crate) fn new(unknown_fields: UnknownFields) -> Self {
        Self {
            documents: Documents::new(unknown_fields),
            ..Self::default()
        }
    }

    /// Takes the list of all files, and returns the changed ones. One listed twice is read once.
    pub(crate) fn take(&mut self, listed: Vec<Listed>) -> Vec<FileChange> {
        let mut before = std::mem::take(&mut self.files);
        let mut changes = Vec::new();
        for (rank, listed) in listed.into_iter().enumerate() {
            if self.files.contains_key(listed.name()) {
                continue;
            }
            let old = before.remove(listed.name());
            let file = match (old, listed) {
                (None, Listed::Unchanged(_)) => continue,
                (Some(old), Listed::Unchanged(_)) => old.at(rank),
                (Some(old), Listed::Read(source)) if old.is_unchanged(&source, &self.documents) => {
                    old.at(rank)
                }
                (old, Listed::Read(source)) => {
                    let file = File::read(&source, rank, old.as_ref(), &mut self.documents);
                    let new = Some(Arc::clone(&file.name));
                    changes.push(FileChange { old, new });
                    file
                }
            };
            self.files.insert(Arc::clone(&file.name), file);
        }
        let gone = before.into_values();
        changes.extend(gone.map(|old| FileChange {
            old: Some(old),
            new: None,
        }));
        changes
    }

    /// The file of this name.
    pub(crate) fn file(&self, name: &str) -> Option<&File> {
        self.files.get(name)
    }

    /// The position of a file among all.
    pub(crate) fn rank(&self, name: &str) -> Option<usize> {
        Some(self.files.get(name)?.rank)
    }

    /// All files, in order.
    pub(crate) fn in_order(&self) -> Vec<&File> {
        let mut files: Vec<&File> = self.files.values().collect();
        files.sort_by_key(|file| file.rank);
        files
    }

    /// All files, in any order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &File> {
        self.files.values()
    }

    /// Number of documents parsed since the last call.
    pub(crate) fn take_parsed(&mut self) -> usize {
        self.documents.take_parsed()
    }
}
