//! Images are reproducible: building one from the same commit gives the same digest, so that anyone
//! can verify a published image.
//!
//! Needs root: `cargo test -p e2e --test image -- --ignored --test-threads=1`. The first test takes
//! seconds where the program is built already, the second builds everything again.

mod home;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use home::default_home;

/// The root of this repository.
const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

#[test]
#[ignore = "needs root"]
fn the_same_program_makes_the_same_image() {
    let home = default_home();
    let first = digest_of_image(&home);
    let other = tempfile::tempdir().expect("a folder");
    std::os::unix::fs::symlink(target(&home), other.path().join("target")).expect("a link");
    // As the linker leaves it where the umask is 077: not executable for the image's user.
    let program = program(&home);
    set_mode(&program, 0o700);
    let second = digest_of_image(other.path());
    set_mode(&program, 0o755);
    assert_eq!(second, first);
}

#[test]
#[ignore = "builds the gateway, the controller and all of their dependencies"]
fn clones_in_two_folders_make_the_same_images() {
    // Paths of different lengths.
    let (one, two) = (Clone::at("gateway"), Clone::at("src/of/another/user"));
    let other = tempfile::tempdir().expect("a folder");
    for program in ["gateway", "controller"] {
        let first = digest_of_clone(&one, &default_home(), program);
        let second = digest_of_clone(&two, other.path(), program);
        assert_eq!(second, first, "{program}");
    }
}

/// A clone of the current commit.
struct Clone {
    folder: tempfile::TempDir,
    path: &'static str,
}

impl Clone {
    /// Makes one at this path of a new folder.
    fn at(path: &'static str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut git = Command::new("git");
        git.args(["clone", "--quiet", "--shared", REPOSITORY]);
        git.arg(folder.path().join(path));
        assert!(git.status().expect("git runs").success(), "no clone");
        Self { folder, path }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join(self.path)
    }
}

/// Builds an image from a clone, and returns the checksum of its archive.
fn digest_of_clone(clone: &Clone, home: &Path, program: &str) -> String {
    let path = clone.path();
    let from = path.to_str().expect("a path in UTF-8");
    let words = ["image", program, "--profile", "e2e", "--from", from];
    digest(home, &words)
}

/// Builds the gateway's image, and returns the checksum of its archive.
fn digest_of_image(home: &Path) -> String {
    let digest = digest(home, &["image", "gateway", "--profile", "e2e"]);
    let archive = fs::metadata(home.join("images/gateway-e2e.tar")).expect("an archive");
    let size = fs::metadata(program(home)).expect("a program").len();
    assert!(archive.len() > size, "the program is not in the archive");
    digest
}

/// Runs `e2e image`, and returns the checksum that it prints.
fn digest(home: &Path, words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_e2e"))
        .args(words)
        .env("E2E_HOME", home)
        .output()
        .expect("it runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let summary = String::from_utf8_lossy(&output.stdout);
    let (_, digest) = summary.trim().rsplit_once("sha256 ").expect("a checksum");
    digest.to_owned()
}

/// The folder that the program is built in, which may be a symlink.
fn target(home: &Path) -> PathBuf {
    fs::canonicalize(home.join("target")).expect("it was built")
}

fn program(home: &Path) -> PathBuf {
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    target(home).join(triple).join("e2e/gateway")
}

fn set_mode(file: &Path, mode: u32) {
    fs::set_permissions(file, fs::Permissions::from_mode(mode)).expect("its mode is changed");
}
