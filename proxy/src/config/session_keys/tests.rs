use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use xds::model::SessionKey;

use super::{OwnSessionKeys, SessionKeyFiles};

const HOUR: Duration = Duration::from_hours(1);

struct Scene {
    folder: TempDir,
    keys: SessionKeyFiles,
}

impl Scene {
    /// Files with keys of these bytes.
    fn new(bytes: &[u8]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let files = (0..bytes.len()).map(|number| folder.path().join(number.to_string()));
        let files: Vec<PathBuf> = files.collect();
        for (file, byte) in files.iter().zip(bytes) {
            write(file, &[*byte; 32]);
        }
        let own = OwnSessionKeys::read(&files).expect("keys");
        let keys = SessionKeyFiles::new(own);
        Self { folder, keys }
    }

    fn write(&self, number: usize, content: &[u8]) {
        write(&self.folder.path().join(number.to_string()), content);
    }

    /// The first byte of each accepted key.
    fn accepted(&self) -> Vec<u8> {
        let keys = self.keys.keys().expect("keys");
        assert_eq!(keys.signing(), 0);
        keys.accepted().iter().map(|it| it.secret()[0]).collect()
    }
}

fn write(file: &Path, content: &[u8]) {
    fs::write(file, content).expect("a file");
}

#[test]
fn without_files_each_process_has_a_key_of_its_own() {
    let key = || OwnSessionKeys::read(&[]).expect("a key").current.remove(0);
    let (one, other): (SessionKey, SessionKey) = (key(), key());
    assert_ne!(one, other);
    assert_eq!(one.secret().len(), 32);
}

#[test]
fn what_a_file_contained_before_is_accepted_for_the_lifetime_of_sessions() {
    let (mut scene, now) = (Scene::new(b"ab"), Instant::now());
    assert_eq!(scene.accepted(), b"ab");
    scene.write(0, &[b'c'; 32]);
    assert!(scene.keys.read_again(HOUR, now));
    assert_eq!(scene.accepted(), b"cba");
    assert_eq!(scene.keys.next_due(), Some(now + HOUR));
    assert!(!scene.keys.read_again(HOUR, now), "nothing has changed");
    assert!(!scene.keys.forget_expired(now + HOUR / 2));
    assert!(scene.keys.forget_expired(now + HOUR));
    assert_eq!(scene.accepted(), b"cb");
    assert_eq!(scene.keys.next_due(), None);
}

#[test]
fn a_key_that_moves_to_another_file_is_accepted_once() {
    let (mut scene, now) = (Scene::new(b"ab"), Instant::now());
    scene.write(0, &[b'b'; 32]);
    scene.write(1, &[b'a'; 32]);
    assert!(scene.keys.read_again(HOUR, now));
    assert_eq!(scene.accepted(), b"ba");
}

#[test]
fn at_most_eight_keys_are_accepted() {
    let (mut scene, now) = (Scene::new(b"a"), Instant::now());
    for byte in b'b'..=b'z' {
        scene.write(0, &[byte; 32]);
        assert!(scene.keys.read_again(HOUR, now));
    }
    assert_eq!(scene.accepted(), b"zyxwvuts");
}

#[test]
fn a_file_without_a_key_changes_nothing() {
    let (mut scene, now) = (Scene::new(b"a"), Instant::now());
    for content in [&[][..], b"short", &[b'x'; 5000]] {
        scene.write(0, content);
        assert!(!scene.keys.read_again(HOUR, now));
        assert_eq!(scene.accepted(), b"a");
    }
    fs::remove_file(scene.folder.path().join("0")).expect("it was there");
    assert!(!scene.keys.read_again(HOUR, now));
    assert_eq!(scene.accepted(), b"a");
}

#[test]
fn errors_name_the_file_and_never_its_content() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("key");
    write(&file, b"hunter2");
    let error = OwnSessionKeys::read(std::slice::from_ref(&file)).expect_err("it is too short");
    let text = format!("{error} {error:?}");
    assert!(
        text.contains(&file.display().to_string()) && text.contains("has 7"),
        "{text}"
    );
    assert!(!text.contains("hunter2"), "{text}");
    let many = vec![file; 5];
    let error = OwnSessionKeys::read(&many).expect_err("there are too many");
    assert!(error.to_string().contains("at most 4"), "{error}");
}

/// Half of a file is long enough to be taken as a key.
#[tokio::test]
async fn a_file_that_is_being_written_has_no_key_yet() {
    let (folder, now) = (tempfile::tempdir().expect("a folder"), Instant::now());
    let (file, link) = (folder.path().join("key"), folder.path().join("link"));
    write(&file, &[b'a'; 32]);
    symlink("key", &link).expect("a link");
    let own = OwnSessionKeys::read(&[link]).expect("a key");
    let mut scene = Scene {
        folder,
        keys: SessionKeyFiles::new(own),
    };
    let mut writer = fs::File::create(&file).expect("a file");
    writer.write_all(&[b'b'; 40]).expect("it is written");
    // The other half does not come for so long that the files are read.
    let early = tokio::time::timeout(Duration::from_millis(50), scene.keys.changed()).await;
    assert!(early.is_err(), "it is still open");
    assert!(!scene.keys.read_again(HOUR, now));
    assert_eq!(scene.accepted(), b"a");
    writer.write_all(&[b'b'; 40]).expect("it is written");
    drop(writer);
    scene.keys.changed().await;
    assert!(scene.keys.read_again(HOUR, now));
    assert_eq!(
        scene.keys.keys().expect("keys").accepted()[0].secret(),
        [b'b'; 80]
    );
}
