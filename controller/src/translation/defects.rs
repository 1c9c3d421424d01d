//! Reports panics of the translation of single objects.

use std::panic;

use tracing::error;
use translate::{Defect, note_panic};

/// Lets a panic that is contained, and so reported with the batch, write nothing itself: a thousand of them would
/// be as many messages of several lines.
pub fn leave_defects_to_the_log() {
    let others = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if !note_panic(info) {
            others(info);
        }
    }));
}

/// Logs the panics of a batch: the first by name, and how many others there are.
pub(super) fn log(defects: &[Defect]) {
    for line in lines(defects) {
        error!("{line}");
    }
}

fn lines(defects: &[Defect]) -> Vec<String> {
    let mut lines: Vec<String> = { defects.iter().take(NAMED) }
        .map(|defect| {
            format!(
                "a defect: translating an object panicked. What was in effect of it stays, or else it is \
                 closed; others are not affected. Please report it: {defect}"
            )
        })
        .collect();
    if let Some(others) = defects
        .len()
        .checked_sub(NAMED)
        .filter(|others| *others > 0)
    {
        lines.push(format!("and translating {others} other objects panicked"));
    }
    lines
}

/// Most panics of a batch that are logged by name.
const NAMED: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_defects_of_a_batch_are_few_lines() {
        let defect = |number: usize| Defect {
            unit: format!("RouteUnit({number})"),
            panic: "a defect".to_owned(),
        };
        let defects: Vec<Defect> = (0..1_000).map(defect).collect();
        let found = lines(&defects);
        assert_eq!(found.len(), NAMED + 1);
        assert!(found[0].ends_with("RouteUnit(0): a defect"), "{}", found[0]);
        assert_eq!(found[NAMED], "and translating 992 other objects panicked");
        assert_eq!(lines(&defects[..NAMED]).len(), NAMED);
        assert!(lines(&[]).is_empty());
    }
}
