//! Commands of the documents: the packages, tests, benches and examples that they name exist.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::{documents, files_named, read, root, split};

#[test]
fn cargo_commands_name_packages_and_targets_that_exist() {
    let packages = packages();
    let (mut commands, mut wrong) = (0, Vec::new());
    for file in documents() {
        let text = read(&file);
        for (number, line) in (1..).zip(text.lines()) {
            // A line may have several, in a table or one after the other.
            for command in line.split("cargo ").skip(1) {
                let command = command.split(['`', '#', ';']).next().unwrap_or(command);
                commands += 1;
                if let Err(why) = check(command, &packages) {
                    let name = file.strip_prefix(root()).unwrap_or(&file).display();
                    wrong.push(format!("{name}:{number}: cargo {command}: {why}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(commands > 40, "{commands} commands");
}

#[test]
fn a_missing_package_or_target_is_found() {
    let packages = packages();
    assert_eq!(
        check("test -p translate --test documents", &packages),
        Ok(())
    );
    assert!(check("test -p translate --test no_such", &packages).is_err());
    assert!(check("test -p no_such", &packages).is_err());
}

/// The folder of each package of the workspace.
fn packages() -> HashMap<String, PathBuf> {
    let manifests = files_named("Cargo.toml");
    let named = manifests.into_iter().filter_map(|manifest| {
        let text = read(&manifest);
        let (_, package) = text.split_once("[package]\nname = \"")?;
        let name = package.split('"').next()?.to_owned();
        Some((name, manifest.parent()?.to_owned()))
    });
    named.collect()
}

fn check(command: &str, packages: &HashMap<String, PathBuf>) -> Result<(), String> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let after = |options: &[&str]| {
        let pair = words.windows(2).find(|pair| options.contains(&pair[0]));
        pair.map(|pair| pair[1])
    };
    let Some(package) = after(&["-p", "--package"]) else {
        return Ok(());
    };
    let folder = packages.get(package);
    let folder = folder.ok_or_else(|| format!("there is no package {package}"))?;
    for (option, kind) in [
        ("--test", "test"),
        ("--bench", "bench"),
        ("--example", "example"),
    ] {
        let Some(name) = after(&[option]) else {
            continue;
        };
        if !has_target(folder, kind, name) {
            return Err(format!("{package} has no {kind} {name}"));
        }
    }
    Ok(())
}

/// Whether Cargo finds the target, or the manifest names it.
fn has_target(package: &Path, kind: &str, name: &str) -> bool {
    let folder = package.join(format!(
        "{kind}{}",
        if kind == "bench" { "es" } else { "s" }
    ));
    let found = [format!("{name}.rs"), format!("{name}/main.rs")];
    let manifest = fs::read_to_string(package.join("Cargo.toml")).unwrap_or_default();
    found.iter().any(|file| folder.join(file).is_file())
        || manifest.contains(&format!("[[{kind}]]\nname = \"{name}\""))
}

#[test]
fn ci_repeats_the_requests_of_the_quickstart() {
    let readme = read(&root().join("README.md"));
    let ci = read(&root().join(".ci/run"));
    let requests = readme
        .lines()
        .filter_map(|line| line.strip_prefix("$ curl "));
    let mut repeated = 0;
    for request in requests {
        let request = request.split("  #").next().unwrap_or(request).trim();
        let arguments = request.strip_prefix("-i ").unwrap_or(request);
        assert!(
            ci.contains(&format!(" {arguments}\n")),
            ".ci/run lacks curl {arguments}"
        );
        repeated += 1;
    }
    assert!(repeated >= 5, "{repeated} requests");
}

#[test]
fn files_of_this_repository_that_commands_name_exist() {
    let mut paths = 0;
    for file in documents() {
        let text = read(&file);
        let (_, blocks) = split(&text);
        let commands = blocks
            .iter()
            .filter(|block| ["sh", "console"].contains(&block.language))
            .flat_map(|block| &block.lines);
        let words = commands.flat_map(|line| line.split_whitespace());
        let ours = [
            "k8s/",
            "examples/",
            "bench/",
            "admin/",
            "proxy/",
            "controller/",
        ];
        for path in words.filter(|word| ours.iter().any(|folder| word.starts_with(folder))) {
            let name = file.strip_prefix(root()).unwrap_or(&file).display();
            assert!(root().join(path).exists(), "{name}: {path} does not exist");
            paths += 1;
        }
    }
    assert!(paths >= 5, "{paths} paths");
}
