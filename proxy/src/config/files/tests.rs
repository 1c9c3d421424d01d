use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use translate::files::{Listed, Source};

use super::{Files, Stamp};
use crate::limits::EMPTY_FILE_TIMEOUT;

/// Scans files and keeps their contents, as a configuration does.
struct Reader {
    files: Files,
    sources: BTreeMap<String, Source>,
    /// The files that were read in the last scan.
    read: usize,
}

impl Reader {
    fn new(paths: Vec<PathBuf>) -> Self {
        Self {
            files: Files::new(paths),
            sources: BTreeMap::new(),
            read: 0,
        }
    }

    fn scan(&mut self, written: &BTreeSet<PathBuf>) -> Vec<Source> {
        let listed = self.files.scan(written).into_iter();
        self.read = 0;
        let sources = listed.map(|listed| match listed {
            Listed::Unchanged(name) => self.sources[&name].clone(),
            Listed::Read(source) => {
                self.read += 1;
                self.sources.insert(source.name.clone(), source.clone());
                source
            }
        });
        sources.collect()
    }
}

fn read(files: &mut Reader) -> Vec<Source> {
    files.scan(&BTreeSet::new())
}

/// Sets the modification time of a file back; the change time cannot be set.
fn age(path: &Path, by: Duration) {
    let file = fs::File::options().write(true).open(path).expect("a file");
    let then = SystemTime::now() - by;
    file.set_modified(then).expect("our own file");
}

#[test]
fn a_directory_is_read_as_its_configuration_files_sorted_by_name() {
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
    let mut files = Reader::new(vec![path.to_owned(), path.join("b.yaml")]);
    let expected = ["a.yml", "b.yaml", "c.json"]
        .map(|name| Source::new(path.join(name).display().to_string(), name));
    assert_eq!(read(&mut files), expected);
    fs::remove_file(path.join("a.yml")).expect("it was there");
    assert_eq!(read(&mut files), expected[1..]);
}

#[test]
fn a_file_being_written_or_just_emptied_keeps_its_previous_content() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().canonicalize().expect("it is there");
    let (old, new) = (path.join("old.yaml"), path.join("new.yaml"));
    fs::write(&old, "whole").expect("a file");
    let mut files = Reader::new(vec![path]);
    let before = read(&mut files);

    fs::write(&old, "ha").expect("a file");
    fs::write(&new, "ha").expect("a file");
    let written = BTreeSet::from([old.clone(), new.clone()]);
    assert_eq!(files.scan(&written), before);
    assert_eq!(
        files.files.next_scan(),
        None,
        "the end of its writer is reported"
    );
    assert_eq!(read(&mut files).len(), 2);

    fs::write(&old, "").expect("a file");
    fs::remove_file(new).expect("it was there");
    let name = old.display().to_string();
    assert_eq!(read(&mut files), [Source::new(name.as_str(), "ha")]);
    assert!(files.files.next_scan().is_some());
    age(&old, EMPTY_FILE_TIMEOUT + Duration::from_secs(1));
    assert_eq!(read(&mut files), [Source::new(name, "")]);
    assert_eq!(files.files.next_scan(), None);
}

#[test]
fn a_removed_directory_is_unreadable_with_all_its_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("config");
    fs::create_dir(&path).expect("a folder");
    fs::write(path.join("a.yaml"), "").expect("a file");
    let mut files = Reader::new(vec![path.clone()]);
    assert_eq!(read(&mut files).len(), 1);
    fs::rename(&path, folder.path().join("away")).expect("it was there");
    for _ in 0..2 {
        let sources = read(&mut files).into_iter();
        let names: Vec<String> = sources.map(|source| source.name).collect();
        let expected = [path.clone(), path.join("a.yaml")];
        assert_eq!(names, expected.map(|path| path.display().to_string()));
    }
}

#[test]
fn a_stamp_is_reliable_only_after_the_file_system_clock_has_advanced() {
    let changed_at = |seconds, nanoseconds| Stamp {
        device: 1,
        inode: 1,
        size: 1,
        modified: (seconds, 0),
        changed: (seconds, nanoseconds),
    };
    let lasts = |stamp: Stamp, now| {
        let now = UNIX_EPOCH + Duration::from_millis(now);
        stamp.if_stable(now).is_some()
    };
    let precise = changed_at(100, 1_000_000);
    assert!(!lasts(precise, 100_050));
    assert!(lasts(precise, 100_200));
    let whole_seconds = changed_at(100, 0);
    assert!(!lasts(whole_seconds, 100_200));
    assert!(!lasts(whole_seconds, 102_000));
    assert!(lasts(whole_seconds, 102_001));
    assert!(!lasts(precise, 99_000), "a clock that was set back");
}
