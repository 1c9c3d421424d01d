//! The HTTP/1 corpus: every case of `corpus/h1` against the gateway and through it to an origin that
//! records. `README.md` beside this file is the format of a case.

mod case;
mod compare;
mod escape;
mod run;
#[expect(
    dead_code,
    unused_imports,
    reason = "each test crate speaks a part of the language"
)]
#[path = "../support/mod.rs"]
mod support;

use case::Case;
use run::{Run, SHORT_HEAD_DEADLINE, Track, splits};
use support::{Driver, on_both_drivers};

on_both_drivers! {
    fn every_case_has_its_expected_result(driver) {
        let (slow, quick): (Vec<Case>, Vec<Case>) = case::all().into_iter().partition(is_slow);
        assert!(quick.len() >= 170, "the corpus is not where it should be");
        expect_none(run_whole(driver, "", &quick));
        let deadline = format!(", headTimeout: {}ms", SHORT_HEAD_DEADLINE.as_millis());
        expect_none(run_whole(driver, &deadline, &slow));
    }

    fn every_case_has_the_same_result_when_split_at_every_byte(driver) {
        let cases: Vec<Case> = case::all().into_iter().filter(|case| !is_slow(case)).collect();
        let runs: Vec<Run<'_>> = cases
            .iter()
            .flat_map(|case| splits(case).into_iter().map(move |at| Run { case, split: Some(at) }))
            .collect();
        expect_none(Track::start(driver, "").run(&runs));
    }
}

fn run_whole(driver: Driver, limits: &str, cases: &[Case]) -> Vec<String> {
    let runs: Vec<Run<'_>> = cases.iter().map(|case| Run { case, split: None }).collect();
    Track::start(driver, limits).run(&runs)
}

/// Cases that wait for the head deadline.
fn is_slow(case: &Case) -> bool {
    case.verdict.refusals == [408]
}

#[track_caller]
fn expect_none(mut failures: Vec<String>) {
    failures.sort();
    assert!(
        failures.is_empty(),
        "{} runs failed:\n- {}",
        failures.len(),
        failures.join("\n- ")
    );
}
