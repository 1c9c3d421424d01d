//! Links between the documents: files and sections that they name exist.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use crate::{documents, read, root, split};

#[test]
fn every_relative_link_leads_to_a_file_and_a_section_that_exist() {
    let files = documents();
    assert!(files.len() > 15, "{files:?}");
    let mut sections = HashMap::new();
    let (mut links, mut broken) = (0, Vec::new());
    for file in &files {
        let text = read(file);
        for (line, target) in targets(&text) {
            links += 1;
            if let Err(why) = resolve(file, target, &mut sections) {
                let name = file.strip_prefix(root()).unwrap_or(file).display();
                broken.push(format!("{name}:{line}: {target}: {why}"));
            }
        }
    }
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
    assert!(links > 80, "{links} links");
}

#[test]
fn a_missing_file_or_section_is_found() {
    let readme = root().join("README.md");
    let mut sections = HashMap::new();
    let mut of = |target| resolve(&readme, target, &mut sections);
    assert_eq!(of("CONTRIBUTING.md#tests"), Ok(()));
    assert_eq!(of("#quickstart"), Ok(()));
    assert_eq!(
        of("CONTRIBUTING.md#no-such-section"),
        Err("no such section")
    );
    assert_eq!(of("NO-SUCH-FILE.md"), Err("no such file"));
}

#[test]
fn every_path_in_the_guide_for_contributors_exists() {
    let text = read(&root().join("CONTRIBUTING.md"));
    let (prose, _) = split(&text);
    let code = prose
        .iter()
        .flat_map(|(_, line)| line.split('`').skip(1).step_by(2));
    let crates = ["admin/", "controller/", "k8s/", "proxy/", "xds/"];
    let paths = code.filter(|code| crates.iter().any(|name| code.starts_with(name)));
    let paths: Vec<&str> = paths.filter(|path| !path.contains(' ')).collect();
    assert!(paths.len() > 20, "{paths:?}");
    for path in paths {
        assert!(root().join(path).exists(), "CONTRIBUTING.md names {path}");
    }
}

/// Targets of links that stay in the repository, with their lines.
fn targets(text: &str) -> Vec<(usize, &str)> {
    let (prose, _) = split(text);
    let mut targets = Vec::new();
    for (number, line) in prose {
        // The parts between pairs of backticks are code.
        for part in line.split('`').step_by(2) {
            let links = part.split("](").skip(1);
            let ends = links.filter_map(|rest| rest.split_once(')'));
            targets.extend(ends.map(|(target, _)| (number, target)));
        }
    }
    targets.retain(|(_, target)| !target.contains("://"));
    targets
}

/// Whether the file and the section of a link exist.
fn resolve(
    from: &Path,
    target: &str,
    sections: &mut HashMap<PathBuf, HashSet<String>>,
) -> Result<(), &'static str> {
    let (path, section) = target.split_once('#').unwrap_or((target, ""));
    let folder = from.parent().expect("a file is in a folder");
    let file = if path.is_empty() {
        from.to_owned()
    } else {
        let file = folder.join(path).canonicalize();
        file.map_err(|_| "no such file")?
    };
    if section.is_empty() {
        return Ok(());
    }
    let known = sections
        .entry(file.clone())
        .or_insert_with(|| anchors(&read(&file)));
    if known.contains(section) {
        Ok(())
    } else {
        Err("no such section")
    }
}

/// The anchors of the headings, as GitHub makes them.
fn anchors(text: &str) -> HashSet<String> {
    let (prose, _) = split(text);
    let headings = prose.into_iter().filter(|(_, line)| line.starts_with('#'));
    let mut anchors = HashSet::new();
    for (_, heading) in headings {
        let kept = heading.trim_start_matches('#').trim().chars();
        let kept = kept.filter(|char| char.is_alphanumeric() || " -_".contains(*char));
        let anchor: String = kept.collect::<String>().to_lowercase().replace(' ', "-");
        let repeated = (1..).map(|number| format!("{anchor}-{number}"));
        let free = std::iter::once(anchor.clone())
            .chain(repeated)
            .find(|candidate| !anchors.contains(candidate));
        anchors.extend(free);
    }
    anchors
}
