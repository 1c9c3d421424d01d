//! The files of `cases/`: rules, requests, and which rule serves each.

use std::fs;
use std::path::Path;

use proxy::route::RegexCache;

use super::rules::{Request, Rule, compile, name};

#[test]
fn every_request_gets_the_rule_that_its_case_names() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/route/cases");
    let mut requests = 0;
    for file in fs::read_dir(folder).expect("the cases") {
        let file = file.expect("a case").path();
        let text = fs::read_to_string(&file).expect("a text");
        for section in text.split("\n\n") {
            requests += check(section, &file);
        }
    }
    assert!(
        requests > 100,
        "only {requests} requests: are the cases read?"
    );
}

/// Runs one section of a file, in both orders of its rules; returns the number of its requests.
fn check(section: &str, file: &Path) -> usize {
    let lines = || section.lines().filter(|line| !line.starts_with('#'));
    let mut rules: Vec<Rule> = Vec::new();
    for line in lines() {
        if let Some(words) = line.strip_prefix("rule ") {
            rules.push(Rule::parse(words));
        } else if let Some(words) = line.strip_prefix("or ") {
            rules.last_mut().expect("a rule before").add_match(words);
        }
    }
    let mut requests = 0;
    for _ in 0..2 {
        let (router, mut cache) = (compile(&rules), RegexCache::new());
        for line in lines() {
            if let Some((request, expected)) = line.split_once(" -> ") {
                let request = Request::parse(request);
                let selected = router
                    .select(&request.view(), &mut cache)
                    .expect("little work");
                assert_eq!(
                    name(selected, &rules),
                    expected,
                    "{line}\nof {}",
                    file.display()
                );
                requests += 1;
            }
        }
        rules.reverse();
    }
    requests / 2
}
