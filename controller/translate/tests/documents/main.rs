//! The documents of this repository: links lead somewhere, and examples can be loaded.

mod commands;
mod examples;
mod figures;
mod links;

use std::fs;
use std::path::{Path, PathBuf};

/// Folders without documents of ours.
const SKIPPED: [&str; 3] = ["target", "node_modules", ".git"];

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the repository's folder")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All Markdown files of the repository.
fn documents() -> Vec<PathBuf> {
    files(|path| path.extension().is_some_and(|end| end == "md"))
}

/// All files of the repository with this name.
fn files_named(name: &str) -> Vec<PathBuf> {
    files(|path| path.file_name().is_some_and(|found| found == name))
}

fn files(is_wanted: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let entry = entry.expect("an entry");
            let (path, name) = (entry.path(), entry.file_name());
            let kind = entry.file_type().expect("a type");
            if kind.is_dir() && !SKIPPED.iter().any(|skipped| name == *skipped) {
                folders.push(path);
            } else if kind.is_file() && is_wanted(&path) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// A block of code: the line of its fence, its language, and its lines.
struct Block<'a> {
    line: usize,
    language: &'a str,
    lines: Vec<&'a str>,
}

/// Splits a document into its lines of text, with their numbers, and its blocks of code.
fn split(text: &str) -> (Vec<(usize, &str)>, Vec<Block<'_>>) {
    let (mut prose, mut blocks) = (Vec::new(), Vec::new());
    let mut open: Option<Block<'_>> = None;
    for (number, line) in (1..).zip(text.lines()) {
        match (line.trim_start().strip_prefix("```"), open.take()) {
            (Some(_), Some(block)) => blocks.push(block),
            (Some(language), None) => {
                open = Some(Block {
                    line: number,
                    language: language.trim(),
                    lines: Vec::new(),
                });
            }
            (None, Some(mut block)) => {
                block.lines.push(line);
                open = Some(block);
            }
            (None, None) => prose.push((number, line)),
        }
    }
    assert!(open.is_none(), "a block of code is not closed");
    (prose, blocks)
}
