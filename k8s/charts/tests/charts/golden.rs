//! The rendered objects of whole sets of values: `NAME.values.yaml` and `NAME.yaml` in
//! `tests/golden`.

use std::fs;

use charts::{CHARTS, Helm, path};

use crate::{check_file, read};

/// The names of the cases, and their values.
fn golden() -> Vec<(String, String)> {
    let folder = fs::read_dir(path("tests/golden")).expect("a folder");
    let files = folder.map(|entry| entry.expect("a file").path());
    let named = files.filter_map(|file| {
        let name = file.file_name()?.to_str()?.strip_suffix(".values.yaml")?;
        Some((name.to_owned(), read(&file)))
    });
    let cases: Vec<_> = named.collect();
    assert!(!cases.is_empty(), "there are no cases");
    cases
}

#[test]
fn cases_render_as_expected() {
    let Some(helm) = Helm::find() else { return };
    for (name, values) in golden() {
        let text = helm.template("gateway", &values).expect(&name);
        check_file(&path(&format!("tests/golden/{name}.yaml")), &text);
    }
}

#[test]
fn lint_finds_nothing() {
    let Some(helm) = Helm::find() else { return };
    for chart in CHARTS {
        helm.lint(chart, "{}").expect(chart);
    }
    for (name, values) in golden() {
        helm.lint("gateway", &values).expect(&name);
    }
}
