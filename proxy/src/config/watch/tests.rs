//! What editors, people and Kubernetes do to files. Each change must be reported, once it is
//! complete.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use super::Watch;

struct Scene {
    root: TempDir,
    watch: Watch,
}

impl Scene {
    /// Makes a folder as `prepare` says, and watches `name` in it.
    fn watching(name: &str, prepare: impl FnOnce(&Path)) -> Self {
        let root = tempfile::tempdir().expect("a folder");
        prepare(root.path());
        let watch = Watch::new(vec![root.path().join(name)]);
        Self { root, watch }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    async fn expects_change(&mut self) {
        let changed = tokio::time::timeout(Duration::from_secs(10), self.watch.changed()).await;
        changed.expect("a change is reported");
    }
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).expect("a file");
}

fn in_a_folder(root: &Path) {
    fs::create_dir(root.join("config")).expect("a folder");
    write(&root.join("config/a.yaml"), "1");
}

#[tokio::test]
async fn a_rewritten_file_is_reported() {
    let mut scene = Scene::watching("a.yaml", |root| write(&root.join("a.yaml"), "1"));
    for text in ["2", "3"] {
        write(&scene.path("a.yaml"), text);
        scene.expects_change().await;
    }
}

#[tokio::test]
async fn a_file_replaced_by_rename_is_reported() {
    let mut scene = Scene::watching("a.yaml", |root| write(&root.join("a.yaml"), "1"));
    for text in ["2", "3"] {
        write(&scene.path(".a.yaml.tmp"), text);
        fs::rename(scene.path(".a.yaml.tmp"), scene.path("a.yaml")).expect("it was there");
        scene.expects_change().await;
    }
}

#[tokio::test]
async fn a_deleted_and_recreated_file_is_reported() {
    let mut scene = Scene::watching("a.yaml", |root| write(&root.join("a.yaml"), "1"));
    fs::remove_file(scene.path("a.yaml")).expect("it was there");
    scene.expects_change().await;
    write(&scene.path("a.yaml"), "2");
    scene.expects_change().await;
}

#[tokio::test]
async fn files_created_and_deleted_in_a_directory_are_reported() {
    let mut scene = Scene::watching("config", in_a_folder);
    write(&scene.path("config/b.yaml"), "1");
    scene.expects_change().await;
    fs::remove_file(scene.path("config/a.yaml")).expect("it was there");
    scene.expects_change().await;
}

#[tokio::test]
async fn a_deleted_and_recreated_directory_is_reported() {
    let mut scene = Scene::watching("config", in_a_folder);
    fs::remove_dir_all(scene.path("config")).expect("it was there");
    scene.expects_change().await;
    in_a_folder(scene.root.path());
    scene.expects_change().await;
    write(&scene.path("config/a.yaml"), "2");
    scene.expects_change().await;
}

#[tokio::test]
async fn a_directory_created_later_is_reported() {
    let mut scene = Scene::watching("far/config", |_| {});
    fs::create_dir(scene.path("far")).expect("a folder");
    scene.expects_change().await;
    in_a_folder(&scene.path("far"));
    scene.expects_change().await;
    write(&scene.path("far/config/b.yaml"), "1");
    scene.expects_change().await;
}

/// As the kubelet does: a directory for each version, a symlink to the current one, and files that
/// are symlinks through it.
fn mounted(root: &Path) {
    fs::create_dir(root.join("mount")).expect("a folder");
    version(root, 1);
    symlink("..1", root.join("mount/..data")).expect("a link");
    symlink("..data/a.yaml", root.join("mount/a.yaml")).expect("a link");
}

fn version(root: &Path, number: u32) {
    let folder = root.join(format!("mount/..{number}"));
    fs::create_dir(&folder).expect("a folder");
    write(&folder.join("a.yaml"), &number.to_string());
}

fn flip(root: &Path, number: u32) {
    version(root, number);
    symlink(format!("..{number}"), root.join("mount/..data_tmp")).expect("a link");
    fs::rename(root.join("mount/..data_tmp"), root.join("mount/..data")).expect("a link");
    fs::remove_dir_all(root.join(format!("mount/..{}", number - 1))).expect("it was there");
}

#[tokio::test]
async fn updates_of_a_mounted_config_map_are_reported() {
    for name in ["mount", "mount/a.yaml"] {
        let mut scene = Scene::watching(name, mounted);
        for number in [2, 3] {
            flip(scene.root.path(), number);
            scene.expects_change().await;
            let text = fs::read_to_string(scene.path("mount/a.yaml")).expect("a file");
            assert_eq!(text, number.to_string());
        }
    }
}

#[tokio::test]
async fn changes_behind_a_symlink_are_reported() {
    let mut scene = Scene::watching("a.yaml", |root| {
        in_a_folder(root);
        symlink("config/a.yaml", root.join("a.yaml")).expect("a link");
    });
    write(&scene.path("config/a.yaml"), "2");
    scene.expects_change().await;
}

#[tokio::test]
async fn reads_and_temporary_files_of_editors_are_ignored() {
    let mut scene = Scene::watching("config", in_a_folder);
    for name in [".a.yaml.swp", "4913", "a.yaml~", "notes.txt"] {
        write(&scene.path("config").join(name), "");
    }
    fs::read(scene.path("config/a.yaml")).expect("a file");
    // Events arrive in order: earlier ones are handled before this one.
    let (events, mut judged) = (&mut scene.watch.events, 0);
    write(&scene.root.path().join("config/a.yaml"), "2");
    loop {
        let event = events
            .recv()
            .await
            .expect("the watcher lives")
            .expect("no event is lost");
        judged += 1;
        let touch = scene.watch.interest.classify(&event);
        assert_eq!(
            touch.is_some(),
            event.paths[0].ends_with("config/a.yaml") && !event.kind.is_access()
        );
        if touch.is_some() {
            break;
        }
    }
    assert!(judged > 4);
}

#[tokio::test]
async fn simultaneous_changes_are_reported_once() {
    let mut scene = Scene::watching("config", in_a_folder);
    for number in 0..50 {
        write(&scene.path(&format!("config/{number}.yaml")), "1");
    }
    scene.expects_change().await;
    assert_eq!(
        fs::read_dir(scene.path("config"))
            .expect("a folder")
            .count(),
        51
    );
    while let Ok(event) = scene.watch.events.try_recv() {
        let event = event.expect("no event is lost");
        assert!(
            scene.watch.interest.classify(&event).is_none(),
            "everything was reported"
        );
    }
}

#[tokio::test]
async fn a_new_file_is_not_reported_before_it_is_written() {
    use std::io::Write as _;

    let mut scene = Scene::watching("config", in_a_folder);
    let mut file = fs::File::create(scene.path("config/b.yaml")).expect("a file");
    let early = tokio::time::timeout(Duration::from_millis(50), scene.watch.changed()).await;
    assert!(early.is_err(), "it is still empty");
    assert!(scene.watch.written().contains(&scene.path("config/b.yaml")));
    file.write_all(b"all").expect("it is written");
    drop(file);
    scene.expects_change().await;
    assert!(scene.watch.written().is_empty());
}

#[tokio::test]
async fn a_file_is_not_reported_while_it_is_being_written() {
    use std::io::Write as _;

    let mut scene = Scene::watching("a.yaml", |root| write(&root.join("a.yaml"), "1"));
    let mut file = fs::File::create(scene.path("a.yaml")).expect("a file");
    file.write_all(b"half").expect("it is written");
    let early = tokio::time::timeout(Duration::from_millis(50), scene.watch.changed()).await;
    assert!(early.is_err(), "it is still open");
    file.write_all(b" and half").expect("it is written");
    drop(file);
    scene.expects_change().await;
}
