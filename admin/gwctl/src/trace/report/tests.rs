use proptest::prelude::*;

use super::super::event::Seen;
use super::super::plain;
use super::Report;

pub(in crate::trace) const RETRIED: &str = include_str!("../../../tests/trace/retried.jsonl");
const REFUSED: &str = include_str!("../../../tests/trace/refused.jsonl");

pub(in crate::trace) fn read(lines: &str) -> Vec<Seen> {
    lines.lines().filter_map(Seen::read).collect()
}

fn plain(lines: &str) -> String {
    let mut text = Vec::new();
    plain::write(&Report::of(&read(lines)), &mut text).expect("memory");
    String::from_utf8(text).expect("text")
}

#[test]
fn a_request_that_was_retried_is_told_whole() {
    let expected = include_str!("../../../tests/trace/retried.txt");
    assert_eq!(plain(RETRIED), expected);
}

#[test]
fn a_request_that_was_refused_is_told_up_to_there() {
    let expected = include_str!("../../../tests/trace/refused.txt");
    assert_eq!(plain(REFUSED), expected);
}

#[test]
fn nothing_steers_the_terminal() {
    let text = plain(RETRIED);
    assert!(RETRIED.contains(r"\u001b"));
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text}");
}

#[test]
fn every_number_is_survived() {
    let text = RETRIED.replace("901", &u64::MAX.to_string());
    assert!(plain(&text).contains("18446744073709551.615 ms"));
}

proptest! {
    #[test]
    fn any_order_and_any_damage_makes_a_report(
        order in proptest::collection::vec(any::<prop::sample::Index>(), 0..30),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let lines: Vec<_> = RETRIED.lines().chain(REFUSED.lines()).collect();
        let chosen: Vec<_> = order.iter().map(|index| *index.get(&lines)).collect();
        let mut bytes = chosen.join("\n").into_bytes();
        if !bytes.is_empty() {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let text = plain(&String::from_utf8_lossy(&bytes));
        prop_assert!(text.starts_with("Summary\n"));
        prop_assert!(text.chars().all(|c| c == '\n' || !c.is_control()));
    }
}
