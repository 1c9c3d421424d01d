//! Reports when files or folders may have changed, once for changes that occur together.
//!
//! Folders are watched rather than files, since editors and Kubernetes replace files: a new file is
//! renamed over the old one, or a link (`..data`) over the old link. The folders of all links on
//! the path are watched, and so is the parent of a watched folder. If the kernel's limit of watches
//! is reached, files are checked every two seconds.

#![expect(
    clippy::disallowed_methods,
    reason = "it runs on the configuration thread"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::time::Instant;

use notify::event::{AccessKind, AccessMode, CreateKind, ModifyKind};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tracing::warn;

use super::files::is_configuration;
use crate::limits::{CHANGE_QUIET, CHANGE_QUIET_MAX, FILE_POLL, MAX_LINKS, WRITE_TIMEOUT};

/// Watches the files and folders of a configuration.
pub struct Watch {
    paths: Vec<PathBuf>,
    /// None where files are polled.
    watcher: Option<RecommendedWatcher>,
    watched: BTreeSet<PathBuf>,
    interest: Interest,
    events: UnboundedReceiver<notify::Result<Event>>,
    sender: UnboundedSender<notify::Result<Event>>,
    burst: Option<Burst>,
    /// Files that are being written, with the time of the last write.
    written: BTreeMap<PathBuf, Instant>,
    last_look: Instant,
}

impl Watch {
    /// Watches from now on.
    #[must_use]
    pub fn new(paths: Vec<PathBuf>) -> Self {
        let (sender, events) = unbounded_channel();
        let mut watch = Self {
            paths,
            watcher: None,
            watched: BTreeSet::new(),
            interest: Interest::default(),
            events,
            sender,
            burst: None,
            written: BTreeMap::new(),
            last_look: Instant::now(),
        };
        if let Err(error) = watch.rewatch() {
            watch.poll(&error);
        }
        watch
    }

    /// The files that are being written: written to, not closed since, and without a long pause.
    #[must_use]
    pub fn written(&self) -> BTreeSet<PathBuf> {
        self.written.keys().cloned().collect()
    }

    /// Waits until something may have changed, and no further change followed for a while.
    /// Cancel-safe: the next call continues the wait.
    pub async fn changed(&mut self) {
        if self.watcher.is_some() {
            self.wait_until_quiet().await;
        } else {
            tokio::time::sleep_until((self.last_look + FILE_POLL).into()).await;
        }
        self.last_look = Instant::now();
        let polled = self.watcher.is_none();
        // Links may lead elsewhere now, and folders may be other ones of the same name.
        match self.rewatch() {
            Err(error) if !polled => self.poll(&error),
            _ => {}
        }
    }

    /// Waits for the end of a burst of events.
    async fn wait_until_quiet(&mut self) {
        loop {
            let event = match self.quiet_at() {
                None => self.events.recv().await,
                Some(quiet_at) => {
                    match tokio::time::timeout_at(quiet_at.into(), self.events.recv()).await {
                        Ok(event) => event,
                        Err(_) => break,
                    }
                }
            };
            // Where events were lost, anything may have changed.
            let touch = match event {
                Some(Ok(event)) => self.interest.classify(&event),
                Some(Err(_)) | None => Some(FileEvent::Anything),
            };
            if let Some(touch) = touch {
                self.record(touch);
            }
        }
        self.burst = None;
        self.written
            .retain(|_, last| last.elapsed() < WRITE_TIMEOUT);
    }

    fn record(&mut self, touch: FileEvent) {
        let now = Instant::now();
        let begin = || Burst {
            first: now,
            last: now,
        };
        self.burst.get_or_insert_with(begin).last = now;
        match touch {
            FileEvent::Written(path) => drop(self.written.insert(path, now)),
            FileEvent::Whole(path) => drop(self.written.remove(&path)),
            FileEvent::Anything => self.written.clear(),
        }
    }

    /// When to report, unless something else happens. A file that is being written is waited for,
    /// but does not delay other files.
    fn quiet_at(&self) -> Option<Instant> {
        let Some(burst) = &self.burst else {
            return self.written.values().min().map(|it| *it + WRITE_TIMEOUT);
        };
        let max = burst.first + CHANGE_QUIET_MAX;
        Some(if self.written.is_empty() {
            max.min(burst.last + CHANGE_QUIET)
        } else {
            max
        })
    }

    fn poll(&mut self, error: &notify::Error) {
        warn!(
            %error,
            "cannot watch the configuration files; they are read every {} s instead; raise \
             fs.inotify.max_user_watches or fs.inotify.max_user_instances",
            FILE_POLL.as_secs()
        );
        self.watcher = None;
        self.watched.clear();
        self.written.clear();
    }

    fn rewatch(&mut self) -> notify::Result<()> {
        self.interest = Interest::of(&self.paths);
        let mut watcher = if let Some(watcher) = self.watcher.take() {
            watcher
        } else {
            let sender = self.sender.clone();
            // The receiver may be gone already.
            notify::recommended_watcher(move |event| drop(sender.send(event)))?
        };
        for folder in self.watched.difference(&self.interest.folders) {
            // A removed folder has no watch any more.
            let _ = watcher.unwatch(folder);
        }
        // Also those that are watched already: a folder that was deleted and made again has the
        // old one's name, and not its watch.
        for folder in &self.interest.folders {
            match watcher.watch(folder, RecursiveMode::NonRecursive) {
                Err(error) if folder.is_dir() => return Err(error),
                // It was removed again; the watch of its parent reports that.
                _ => {}
            }
        }
        self.watched.clone_from(&self.interest.folders);
        self.watcher = Some(watcher);
        Ok(())
    }
}

/// Changes that come together.
struct Burst {
    first: Instant,
    last: Instant,
}

/// An event of inotify about a file.
enum FileEvent {
    /// It is being written.
    Written(PathBuf),
    /// It was written completely, created, removed or replaced.
    Whole(PathBuf),
    /// Events were lost, so anything may have changed.
    Anything,
}

/// Selects the relevant events.
#[derive(Debug, Default)]
struct Interest {
    /// Folders to watch; every one exists.
    folders: BTreeSet<PathBuf>,
    /// Files, folders and links whose creation and removal matter.
    names: BTreeSet<PathBuf>,
    /// Folders in which every configuration file matters.
    listed: BTreeSet<PathBuf>,
}

impl Interest {
    fn of(paths: &[PathBuf]) -> Self {
        let mut interest = Self::default();
        for path in paths {
            let real = interest.walk(path);
            if real.is_dir() {
                interest.list(real);
            }
        }
        interest
    }

    fn list(&mut self, folder: PathBuf) {
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()) {
            if is_configuration(&path) && path.is_symlink() {
                self.walk(&path);
            }
        }
        self.folders.insert(folder.clone());
        self.listed.insert(folder);
    }

    /// Resolves a path as the kernel does, and records each symbolic link on it, and its end.
    fn walk(&mut self, path: &Path) -> PathBuf {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let mut rest = path;
        let mut at = PathBuf::from("/");
        let mut links = MAX_LINKS;
        loop {
            let mut components = rest.components();
            let Some(component) = components.next() else {
                break;
            };
            let mut after = components.as_path().to_owned();
            match component {
                Component::Normal(name) => {
                    let next = at.join(name);
                    match std::fs::read_link(&next) {
                        Ok(target) if links > 0 => {
                            links -= 1;
                            self.watch_folder_of(&next);
                            after = target.join(after);
                        }
                        _ => at = next,
                    }
                }
                Component::ParentDir => drop(at.pop()),
                Component::RootDir => at = PathBuf::from("/"),
                Component::CurDir | Component::Prefix(_) => {}
            }
            rest = after;
        }
        self.watch_folder_of(&at);
        at
    }

    /// Watches the folder of a path; if it is missing, the nearest existing ancestor.
    fn watch_folder_of(&mut self, path: &Path) {
        let mut name = path;
        while let Some(folder) = name.parent() {
            self.names.insert(name.to_owned());
            if folder.is_dir() {
                self.folders.insert(folder.to_owned());
                break;
            }
            name = folder;
        }
    }

    fn classify(&self, event: &Event) -> Option<FileEvent> {
        if event.need_rescan() {
            return Some(FileEvent::Anything);
        }
        let path = event.paths.iter().find(|path| self.is_relevant(path))?;
        match event.kind {
            EventKind::Access(AccessKind::Close(AccessMode::Write)) => {
                Some(FileEvent::Whole(path.clone()))
            }
            // Our own reads.
            EventKind::Access(_) => None,
            EventKind::Modify(ModifyKind::Data(_)) => Some(FileEvent::Written(path.clone())),
            // The creator will write to it, and closing it is reported. A link, or a linked file,
            // is complete at once.
            EventKind::Create(CreateKind::File) if is_empty_file(path) => {
                Some(FileEvent::Written(path.clone()))
            }
            _ => Some(FileEvent::Whole(path.clone())),
        }
    }

    fn is_relevant(&self, path: &Path) -> bool {
        let listed = path
            .parent()
            .is_some_and(|folder| self.listed.contains(folder));
        self.names.contains(path)
            || self.folders.contains(path)
            || (listed && is_configuration(path))
    }
}

fn is_empty_file(path: &Path) -> bool {
    let metadata = std::fs::symlink_metadata(path);
    metadata.is_ok_and(|metadata| metadata.is_file() && metadata.len() == 0)
}

#[cfg(test)]
mod tests;
