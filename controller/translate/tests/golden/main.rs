//! Input is objects, output is model and statuses: `NAME.yaml` beside `NAME.out` for each case.
//!
//! Lines `#! …` at the head of a case set the options. `UPDATE_GOLDEN=1` writes the actual output,
//! to be reviewed before it is committed.

mod debug_text;
mod load;
mod options;
mod render;
mod yaml;

use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use translate::{Event, Object, Store, Translator, translate};
use xds::{decode, encode};

#[test]
fn golden_cases_match_the_expected_output() {
    let cases = cases();
    assert!(!cases.is_empty(), "there are no cases");
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut failures = Vec::new();
    for input in cases {
        let expected = input.with_extension("out");
        let text = outcome(&input);
        if update {
            fs::write(&expected, text).expect("the expectation can be written");
        } else if let Some(difference) = difference(&read(&expected), &text) {
            failures.push(format!("{}:\n{difference}", input.display()));
        }
    }
    assert!(
        failures.is_empty(),
        "{} cases differ; UPDATE_GOLDEN=1 accepts what came out\n\n{}",
        failures.len(),
        failures.join("\n")
    );
}

#[test]
fn translation_does_not_depend_on_the_order_of_objects() {
    for input in cases() {
        let text = read(&input);
        let options = options::of(&text);
        let apply = |objects: Vec<Object>| {
            let events = objects.into_iter().map(Event::Upsert);
            let batch = events.chain([Event::Start]).collect();
            let now = options.now.unwrap_or(Timestamp::MIN);
            Translator::new(options.clone()).apply(batch, now)
        };
        let forwards = load::objects(&text);
        let backwards = forwards.iter().rev().cloned().collect();
        assert_eq!(apply(forwards), apply(backwards), "{}", input.display());
    }
}

#[test]
fn encoded_resources_of_golden_cases_decode() {
    for input in cases() {
        let text = read(&input);
        let store: Store = load::objects(&text).into_iter().collect();
        let model = translate(&store, &options::of(&text)).model;
        assert_eq!(model.dangling(), [], "{}", input.display());
        for resource in model.resources() {
            let bytes = encode::resource(&resource);
            let decoded = decode::resource(resource.kind(), &bytes);
            assert_eq!(decoded, Ok(resource), "{}", input.display());
        }
    }
}

fn cases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let entries = fs::read_dir(folder).expect("the folder of cases exists");
    let mut cases: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry can be read").path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "yaml")
        })
        .collect();
    cases.sort();
    cases
}

fn outcome(input: &Path) -> String {
    let text = read(input);
    let store: Store = load::objects(&text).into_iter().collect();
    render::translation(&translate(&store, &options::of(&text)))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The first line that differs, with its neighbours.
fn difference(expected: &str, actual: &str) -> Option<String> {
    if expected == actual {
        return None;
    }
    let (old, new): (Vec<_>, Vec<_>) = (expected.lines().collect(), actual.lines().collect());
    let same = old
        .iter()
        .zip(&new)
        .take_while(|(old, new)| old == new)
        .count();
    let window = |lines: &[&str], sign: &str| {
        let start = same.saturating_sub(3).min(lines.len());
        let lines = lines[start..].iter().take(10);
        let lines: Vec<String> = lines.map(|line| format!("{sign} {line}")).collect();
        lines.join("\n")
    };
    Some(format!(
        "from line {}:\n{}\n{}",
        same + 1,
        window(&old, "-"),
        window(&new, "+")
    ))
}
