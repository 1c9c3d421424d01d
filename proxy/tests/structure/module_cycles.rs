//! The top-level modules of `proxy/src` have no dependency cycle. A cycle fails here, with the lines
//! that create it. Tests and documentation may refer to any module.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The lines of one module that refer to another, by both modules.
type Uses = BTreeMap<String, BTreeMap<String, Vec<String>>>;

#[test]
fn top_level_modules_have_no_dependency_cycle() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let uses = uses(&source);
    assert!(uses.len() > 10, "no modules in {}", source.display());
    let cycle = cycle(&uses);
    assert!(cycle.is_empty(), "{}", report(&cycle, &uses));
}

#[test]
fn a_cycle_is_reported_with_the_lines_that_create_it() {
    let mut uses = Uses::new();
    for (file, text) in [
        ("http/mod.rs", "use crate::limits::MOST;\n"),
        ("net/stream.rs", "use crate::{http::h1, tls::Session};\n"),
        (
            "tls/mod.rs",
            "//! See [`crate::shard`].\nfn of(it: &super::names::Id) {}\n",
        ),
        (
            "names/ids.rs",
            "use super::super::limits::MOST;\nfn at() -> crate::net::Stream {}\n",
        ),
        (
            "limits.rs",
            "#[cfg(test)]\nmod tests {\n    use crate::http::h1;\n}\n",
        ),
    ] {
        read(Path::new(file), text, &mut uses);
    }
    let cycle = cycle(&uses);
    assert_eq!(
        cycle,
        BTreeSet::from(["names", "net", "tls"].map(String::from))
    );
    let report = report(&cycle, &uses);
    for line in [
        "net -> tls: net/stream.rs:1: use crate::{http::h1, tls::Session};",
        "tls -> names: tls/mod.rs:2: fn of(it: &super::names::Id) {}",
        "names -> net: names/ids.rs:2: fn at() -> crate::net::Stream {}",
    ] {
        assert!(report.contains(line), "{report}");
    }
}

fn report(cycle: &BTreeSet<String>, uses: &Uses) -> String {
    let mut text = format!("these modules of proxy/src are in a dependency cycle: {cycle:?}\n");
    for (from, uses) in uses.iter().filter(|(from, _)| cycle.contains(*from)) {
        for (to, lines) in uses.iter().filter(|(to, _)| cycle.contains(*to)) {
            for line in lines {
                writeln!(text, "{from} -> {to}: {line}").expect("a string");
            }
        }
    }
    text
}

/// The modules that depend on themselves through others.
fn cycle(uses: &Uses) -> BTreeSet<String> {
    let modules = uses.keys().cloned();
    modules
        .filter(|module| reached(module, uses).contains(module))
        .collect()
}

fn reached(module: &str, uses: &Uses) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut next = vec![module.to_owned()];
    while let Some(module) = next.pop() {
        for to in uses.get(&module).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(to.clone()) {
                next.push(to.clone());
            }
        }
    }
    reached
}

fn uses(source: &Path) -> Uses {
    let mut uses = Uses::new();
    let mut folders = vec![source.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder).expect("a readable folder");
        let entries: Vec<PathBuf> = entries
            .map(|entry| entry.expect("a readable folder").path())
            .collect();
        let tests = tests(&entries);
        for path in entries {
            if tests.contains(&path.with_extension("")) {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let file = path.strip_prefix(source).expect("a file of the folder");
            // The crate roots compose all modules.
            if ["lib.rs", "main.rs"].map(Path::new).contains(&file) {
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("a readable file");
            read(file, &text, &mut uses);
        }
    }
    uses
}

/// The modules among the entries of a folder, without extension, that are compiled for tests alone.
fn tests(entries: &[PathBuf]) -> BTreeSet<PathBuf> {
    let mut tests = BTreeSet::new();
    let folder = entries.first().and_then(|first| first.parent());
    let parent = folder.map(|folder| folder.with_extension("rs"));
    let files = entries.iter().cloned().chain(parent);
    for file in files.filter(|file| file.extension().is_some_and(|it| it == "rs")) {
        let Ok(text) = std::fs::read_to_string(&file) else {
            continue;
        };
        let mut for_tests = false;
        for line in text.lines() {
            let module = line.trim_start_matches("pub").trim_start_matches("(super)");
            let module = module.trim_start().strip_prefix("mod ");
            match module.and_then(|module| module.strip_suffix(';')) {
                Some(name) if for_tests => {
                    let own = file.with_extension("").join(name);
                    tests.extend([own, file.with_file_name(name)]);
                }
                _ => {}
            }
            for_tests = line == "#[cfg(test)]" || (for_tests && line.starts_with("#["));
        }
    }
    tests
}

/// Adds the text of a file, named relative to `src`.
fn read(file: &Path, text: &str, uses: &mut Uses) {
    let path = file.with_extension("");
    let path: Vec<_> = path
        .iter()
        .map(|name| name.to_str().expect("a name of Rust's"))
        .filter(|name| *name != "mod")
        .collect();
    let module = *path.first().expect("a file has a name");
    let used = uses.entry(module.to_owned()).or_default();
    // Tests come last in a file, and may use any module.
    let text = text
        .split("#[cfg(test)]\nmod tests")
        .next()
        .unwrap_or_default();
    let root = "super::".repeat(path.len());
    for prefix in ["crate::", &root] {
        for (at, _) in text.match_indices(prefix) {
            let (before, after) = (&text[..at], &text[at + prefix.len()..]);
            let begins = before.rfind('\n').map_or(0, |end| end + 1);
            let line = text[begins..].lines().next().unwrap_or_default().trim();
            let goes_on = |it: char| it.is_alphanumeric() || "_:".contains(it);
            if line.starts_with("//") || before.ends_with(goes_on) {
                continue;
            }
            let number = before.matches('\n').count() + 1;
            for to in names(after) {
                // `super` stays within the module.
                if to != module && to != "super" {
                    let line = format!("{}:{number}: {line}", file.display());
                    used.entry(to.to_owned()).or_default().push(line);
                }
            }
        }
    }
}

/// The first names of a path, or of the paths of a group.
fn names(path: &str) -> Vec<&str> {
    let end = |text: &str| {
        text.find(|it: char| !(it.is_alphanumeric() || it == '_'))
            .unwrap_or(text.len())
    };
    let Some(group) = path.strip_prefix('{') else {
        return vec![&path[..end(path)]];
    };
    let (mut depth, mut begins, mut names) = (0_usize, true, Vec::new());
    for (at, it) in group.char_indices() {
        match it {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => begins = true,
            _ if begins && it.is_alphabetic() => {
                names.push(&group[at..at + end(&group[at..])]);
                begins = false;
            }
            _ => {}
        }
    }
    names
}
