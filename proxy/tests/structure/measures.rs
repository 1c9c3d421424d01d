//! How many files a change touches. The limits are what there is, so that it does not become more; whoever makes it
//! less lowers them. The goals: 9 files for a field of a policy, 10 for a kind, 4 lists of the limits.

use std::collections::BTreeSet;

use crate::sources::{Source, sources};

/// The files from which programs and charts are made.
fn production() -> Vec<Source> {
    let folders = ["admin", "controller", "k8s/crds", "proxy/src", "xds"];
    sources(&folders, &[".rs", ".proto", ".yaml"])
}

/// The files that have this name, as a type, a field or a module. What only ends with it is another one.
fn naming(sources: &[Source], name: &str) -> BTreeSet<String> {
    let name = name.to_lowercase();
    let naming = sources.iter().filter(|source| {
        let text = source.text.replace('_', "").to_lowercase();
        let mut found = text.match_indices(&name);
        found.any(|(at, _)| !text[..at].ends_with(char::is_alphanumeric))
    });
    naming
        .map(|source| source.path.display().to_string())
        .collect()
}

#[track_caller]
fn at_most(limit: usize, files: &BTreeSet<String>) {
    assert!(
        files.len() <= limit,
        "{} files, not {limit}: {files:#?}",
        files.len()
    );
}

#[test]
fn a_field_of_a_policy_is_in_few_files() {
    let sources = production();
    // A structure of its own, and a number of an issuer of tokens.
    for (field, limit) in [("retryBudget", 15), ("clockSkew", 9)] {
        at_most(limit, &naming(&sources, field));
    }
}

#[test]
fn a_kind_is_in_few_files() {
    let sources = sources(&["controller/translate/src"], &[".rs"]);
    for (kind, limit) in [
        ("ListenerSet", 41),
        ("TrafficPolicy", 22),
        ("BackendTLSPolicy", 18),
        ("XBackendTrafficPolicy", 12),
    ] {
        at_most(limit, &naming(&sources, kind));
    }
}

/// A list is a file that names most of the limits: a new one has to be added to each.
#[test]
fn limits_are_listed_in_few_files() {
    let sources = production();
    let table = sources
        .iter()
        .find(|source| source.path.ends_with("xds/src/model/limits.rs"));
    let rows = table.expect("the table of limits").text.lines();
    let names: Vec<String> = rows
        .filter_map(|row| {
            let (_, rest) = row.trim_start().split_once(" \"")?;
            let (name, rest) = rest.split_once('"')?;
            rest.starts_with(':').then(|| name.to_lowercase())
        })
        .collect();
    assert!(names.len() > 20, "{names:?}");
    let lists = sources.iter().filter(|source| {
        let text = source.text.replace('_', "").to_lowercase();
        let named = names.iter().filter(|name| text.contains(&***name));
        2 * named.count() > names.len()
    });
    at_most(
        3,
        &lists
            .map(|source| source.path.display().to_string())
            .collect(),
    );
}
