//! The files that users build from, without tests.

use std::path::{Path, PathBuf};

/// A file of the repository.
pub(crate) struct Source {
    /// Relative to the root of the repository.
    pub(crate) path: PathBuf,
    /// Without comments that take a whole line, and without its module of tests.
    pub(crate) text: String,
}

/// The files below these folders whose names end like this.
pub(crate) fn sources(folders: &[&str], endings: &[&str]) -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut sources = Vec::new();
    let mut folders: Vec<PathBuf> = folders.iter().map(|folder| root.join(folder)).collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder of the repository") {
            let path = entry.expect("a readable folder").path();
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_str()
                .expect("UTF-8");
            if path.is_dir() {
                if !["tests", "testing", "benches", "examples", "fuzz", "target"].contains(&name) {
                    folders.push(path);
                }
            } else if endings.iter().any(|ending| name.ends_with(ending)) && name != "tests.rs" {
                let text = std::fs::read_to_string(&path).expect("a text");
                let relative = path.strip_prefix(&root).expect("it is below the root");
                sources.push(Source {
                    path: relative.to_owned(),
                    text: without_tests_and_comments(&text),
                });
            }
        }
    }
    assert!(!sources.is_empty(), "no files below {folders:?}");
    sources
}

fn without_tests_and_comments(text: &str) -> String {
    let own = text
        .split("#[cfg(test)]\nmod tests")
        .next()
        .unwrap_or_default();
    let lines = own.lines().filter(|line| {
        let line = line.trim_start();
        !line.starts_with("//") && !line.starts_with('#')
    });
    lines.collect::<Vec<_>>().join("\n")
}
