//! Every document of `tests/admit/*.yaml` is a case. A comment `#~ severity field: text` names a
//! finding of its line by the start of its message; a line may have several. Findings without a
//! comment fail the test.

use std::fs;
use std::path::Path;

use translate::files::{Finding, Severity, Source, admit};

#[test]
fn findings_match_the_annotations_of_the_cases() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/admit");
    let mut wrong = Vec::new();
    let mut cases = 0;
    for entry in fs::read_dir(folder).expect("the folder of cases") {
        let path = entry.expect("an entry").path();
        let name = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let text = fs::read_to_string(&path).expect("a text file");
        cases += 1 + text.lines().filter(|line| line.starts_with("---")).count();
        let findings = admit(&[Source::new(&name, &text)]).findings;
        wrong.extend(differences(&name, &announced(&text), &findings));
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(cases > 100, "{cases} cases");
}

/// Line and start of each finding that a text announces.
fn announced(text: &str) -> Vec<(u32, String)> {
    let lines = (1..).zip(text.lines());
    let of_line = |(number, line): (u32, &str)| {
        let announced = line.split("#~ ").skip(1);
        announced
            .map(|start| (number, start.trim().to_owned()))
            .collect::<Vec<_>>()
    };
    lines.flat_map(of_line).collect()
}

fn differences(file: &str, announced: &[(u32, String)], findings: &[Finding]) -> Vec<String> {
    let actual: Vec<_> = findings
        .iter()
        .map(|finding| (finding.line, in_short(finding)))
        .collect();
    let same = |(line, start): &(u32, String), (at, text): &(u32, String)| {
        line == at && text.starts_with(start.as_str())
    };
    let absent = announced
        .iter()
        .filter(|start| !actual.iter().any(|text| same(start, text)));
    let surplus = actual
        .iter()
        .filter(|text| !announced.iter().any(|start| same(start, text)));
    absent
        .map(|(line, start)| format!("{file}:{line}: not found: {start}"))
        .chain(surplus.map(|(line, text)| format!("{file}:{line}: not announced: {text}")))
        .collect()
}

fn in_short(finding: &Finding) -> String {
    let severity = match finding.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "info",
    };
    let field = finding
        .field
        .as_ref()
        .map_or(String::new(), |field| format!(" {field}:"));
    format!("{severity}{field} {}", finding.text)
}
