//! Examples of YAML: all can be loaded, and those of the guide to resources work together.

use std::fmt::Write as _;

use translate::Options;
use translate::check::{Slices, Verdict, check};
use translate::files::{Severity, Source, UnknownFields, admit};

use crate::{Block, documents, read, root, split};

/// Sections of the guide that explain rules instead of a capability.
const RULES: [&str; 4] = [
    "The order of policies",
    "What a policy may set where",
    "What a mistake in a policy closes",
    "Policies of many Gateways",
];

fn is_yaml(block: &Block<'_>) -> bool {
    block.language == "yaml"
}

/// The YAML of a document as one file in which every line has the number that it has there.
fn yaml(text: &str) -> String {
    let (_, blocks) = split(text);
    let (mut file, mut lines) = (String::new(), 1);
    for block in blocks.iter().filter(|block| is_yaml(block)) {
        file.push_str(&"\n".repeat(block.line - lines));
        file.push_str("---\n");
        for line in &block.lines {
            let _ = writeln!(file, "{line}");
        }
        lines = block.line + 1 + block.lines.len();
    }
    file
}

#[test]
fn the_examples_of_resources_are_valid_and_work_together() {
    let text = yaml(&read(&root().join("k8s/RESOURCES.md")));
    let sources = [Source::new("k8s/RESOURCES.md", &text)];
    let mut report = Vec::new();
    let options = |_: &_| Options::machine();
    let reading = (UnknownFields::Refuse, Slices::InFilesOrCluster);
    let verdict = check(&sources, reading, options, &mut report);
    let report = String::from_utf8(report).expect("text");
    let verdict = verdict.expect("memory can be written");
    assert_ne!(verdict, Verdict::Bad, "{report}");
}

#[test]
fn every_capability_has_an_example() {
    let text = read(&root().join("k8s/RESOURCES.md"));
    let sections = text.split("\n## ").skip(1);
    let without: Vec<&str> = sections
        .filter(|section| !split(section).1.iter().any(is_yaml))
        .filter_map(|section| section.lines().next())
        .collect();
    assert_eq!(without, RULES);
}

#[test]
fn examples_of_other_documents_can_be_loaded() {
    let mut refused = Vec::new();
    let mut examples = 0;
    for file in documents() {
        let text = yaml(&read(&file));
        examples += text.matches("---\n").count();
        let name = file.strip_prefix(root()).unwrap_or(&file);
        let name = name.display().to_string();
        let findings = admit(&[Source::new(&name, &text)]).findings;
        let errors = findings.iter().filter(|it| it.severity == Severity::Error);
        refused.extend(errors.map(ToString::to_string));
    }
    assert!(refused.is_empty(), "\n{}", refused.join("\n"));
    assert!(examples > 20, "{examples} examples");
}
