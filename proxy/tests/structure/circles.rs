//! Files that import each other in a circle cannot be understood one by one. A file that hands on the names of others
//! (`pub use`) is none of a circle: an import through it is one of the file that defines the name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::sources::{Source, sources};

/// A module of a crate: its names from the root on.
type Module = Vec<String>;

/// The modules of a crate, and where they import from.
#[derive(Default)]
struct Crate {
    modules: BTreeSet<Module>,
    /// The imports of each module.
    imports: BTreeMap<Module, Vec<Module>>,
    /// What modules hand on: the path behind a name of a module.
    handed_on: BTreeMap<Module, Module>,
}

#[test]
fn there_are_few_circles_of_files() {
    let mut circles = Vec::new();
    for folder in [
        "admin/gwctl/src",
        "admin/src",
        "admin/types/src",
        "controller/src",
        "controller/translate/src",
        "proxy/src",
        "xds/grpc/src",
        "xds/src",
    ] {
        let of_crate = Crate::read(folder, &sources(&[folder], &[".rs"])).circles();
        circles.extend(of_crate.into_iter().map(|circle| (folder, circle)));
    }
    // What there is, so that it does not become more. The goal is 14, none of them with files of several folders.
    assert!(circles.len() <= 41, "{}: {circles:#?}", circles.len());
}

/// A subject of the translation can be read without the others that depend on it.
#[test]
fn no_circle_of_the_translation_leads_through_several_subjects() {
    let folder = "controller/translate/src";
    let circles = Crate::read(folder, &sources(&[folder], &[".rs"])).circles();
    for circle in circles {
        let subjects = circle.iter().map(|module| module.split("::").next());
        let subjects: BTreeSet<_> = subjects.collect();
        assert!(subjects.len() == 1, "{circle:#?}");
    }
}

#[test]
fn imports_lead_to_the_file_that_defines_a_name() {
    let source = |path: &str, text: &str| Source {
        path: Path::new("a/src").join(path),
        text: text.to_owned(),
    };
    let files = [
        source("lib.rs", "mod one;\nmod two;\nmod three;"),
        source("one/mod.rs", "mod part;\npub use part::{Part, other};"),
        source("one/part.rs", "use crate::two::{self, Two};\nuse std::fmt;"),
        source("two.rs", "use super::one::Part;\nuse crate::three::*;"),
        source("three.rs", "use crate::{one::other};"),
    ];
    let circles = Crate::read("a/src", &files).circles();
    assert_eq!(circles, [["one::part", "three", "two"]]);
}

impl Crate {
    fn read(folder: &str, sources: &[Source]) -> Self {
        let mut of_crate = Self::default();
        let modules = sources.iter().map(|source| {
            let path = source
                .path
                .strip_prefix(folder)
                .expect("a file of the folder");
            let path = path.with_extension("");
            let names = path
                .iter()
                .map(|name| name.to_str().expect("UTF-8").to_owned());
            let names: Module = names.collect();
            let is_own = |name: &String| !["mod", "lib", "main"].contains(&&**name);
            (names.into_iter().filter(is_own).collect(), &*source.text)
        });
        let modules: Vec<(Module, &str)> = modules.collect();
        of_crate.modules = modules.iter().map(|(module, _)| module.clone()).collect();
        for (module, text) in modules {
            for (is_handed_on, path) in uses(text) {
                let Some(path) = of_crate.absolute(&module, &path) else {
                    continue;
                };
                let name = path.last().expect("a name").clone();
                if is_handed_on {
                    let alias = [&*module, &[name]].concat();
                    of_crate.handed_on.insert(alias, path);
                } else {
                    of_crate
                        .imports
                        .entry(module.clone())
                        .or_default()
                        .push(path);
                }
            }
        }
        of_crate
    }

    /// The path from the root of the crate; `None` in another crate.
    fn absolute(&self, module: &Module, path: &[String]) -> Option<Module> {
        let mut from = module.clone();
        let mut path = path.iter().peekable();
        match path.peek()?.as_str() {
            "crate" => {
                from.clear();
                path.next();
            }
            "self" => drop(path.next()),
            "super" => {
                while path.next_if(|name| *name == "super").is_some() {
                    from.pop();
                }
            }
            child => {
                let child = [&*from, &[child.to_owned()]].concat();
                self.modules.contains(&child).then_some(())?;
            }
        }
        from.extend(path.cloned());
        (!from.is_empty()).then_some(from)
    }

    /// The module that defines what a path names.
    fn defining(&self, path: &[String]) -> Module {
        let mut path = path.to_vec();
        // A name may be handed on from module to module.
        for _ in 0..8 {
            let longest = (0..=path.len()).rev();
            let mut longest = longest.filter(|length| self.modules.contains(&path[..*length]));
            let length = longest.next().unwrap_or_default();
            let handed_on = path
                .get(..=length)
                .and_then(|name| self.handed_on.get(name));
            let Some(behind) = handed_on else {
                path.truncate(length);
                return path;
            };
            path = [&**behind, &path[length + 1..]].concat();
        }
        path
    }

    /// Groups of modules that import each other, each by its names.
    fn circles(&self) -> Vec<Vec<String>> {
        let imports: BTreeMap<&Module, BTreeSet<Module>> = self
            .imports
            .iter()
            .map(|(module, paths)| {
                (
                    module,
                    paths.iter().map(|path| self.defining(path)).collect(),
                )
            })
            .collect();
        let reached: BTreeMap<&Module, BTreeSet<&Module>> = self
            .modules
            .iter()
            .map(|module| (module, reached(module, &imports)))
            .collect();
        let mut circles = BTreeSet::new();
        for (module, others) in &reached {
            let leads_back = |other: &&&Module| reached[**other].contains(module);
            let circle = others.iter().filter(leads_back);
            let circle: Vec<String> = circle.map(|other| other.join("::")).collect();
            if circle.len() > 1 {
                circles.insert(circle);
            }
        }
        circles.into_iter().collect()
    }
}

fn reached<'a>(
    module: &Module,
    imports: &'a BTreeMap<&Module, BTreeSet<Module>>,
) -> BTreeSet<&'a Module> {
    let mut reached = BTreeSet::new();
    let mut next = vec![module];
    while let Some(module) = next.pop() {
        for to in imports.get(module).into_iter().flatten() {
            if reached.insert(to) {
                next.push(to);
            }
        }
    }
    reached
}

/// The paths of the imports of a text, and whether they are handed on. Aliases are left out.
fn uses(text: &str) -> Vec<(bool, Module)> {
    let mut uses = Vec::new();
    for (at, _) in text.match_indices("use ") {
        let before = text[..at].rsplit('\n').next().unwrap_or_default().trim();
        let is_handed_on = before.starts_with("pub");
        if !before.is_empty() && !is_handed_on {
            continue;
        }
        let statement = text[at + 4..].split(';').next().unwrap_or_default();
        let mut paths = Vec::new();
        expand(&[], statement, &mut paths);
        uses.extend(paths.into_iter().map(|path| (is_handed_on, path)));
    }
    uses
}

/// The paths of a tree of imports.
fn expand(prefix: &[String], tree: &str, paths: &mut Vec<Module>) {
    let tree = tree.trim();
    let (first, group) = match tree.split_once('{') {
        Some((first, group)) => (first, group.trim_end().strip_suffix('}')),
        None => (tree, None),
    };
    let first = first.split(" as ").next().unwrap_or_default();
    let names = first.split("::").map(str::trim);
    let names = names
        .filter(|name| !["", "*"].contains(name))
        .map(str::to_owned);
    let mut path: Module = prefix.iter().cloned().chain(names).collect();
    let Some(group) = group else {
        if path.len() > 1 && path.last().is_some_and(|name| name == "self") {
            path.pop();
        }
        paths.extend((!path.is_empty()).then_some(path));
        return;
    };
    let (mut depth, mut begin) = (0_usize, 0);
    for (at, it) in group.char_indices() {
        match it {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                expand(&path, &group[begin..at], paths);
                begin = at + 1;
            }
            _ => {}
        }
    }
    expand(&path, &group[begin..], paths);
}
