use proptest::prelude::*;

use super::super::event::TraceEvent;
use super::super::plain;
use super::Report;

pub(in crate::trace) const RETRIED: &str = include_str!("../../../tests/trace/retried.jsonl");
const REFUSED: &str = include_str!("../../../tests/trace/refused.jsonl");

pub(in crate::trace) fn parse(lines: &str) -> Vec<TraceEvent> {
    lines.lines().filter_map(TraceEvent::parse).collect()
}

fn plain(lines: &str) -> String {
    let mut text = Vec::new();
    plain::write(&Report::new(&parse(lines)), &mut text).expect("memory");
    String::from_utf8(text).expect("text")
}

#[test]
fn a_retried_request_is_reported_completely() {
    let expected = include_str!("../../../tests/trace/retried.txt");
    assert_eq!(plain(RETRIED), expected);
}

#[test]
fn a_rejected_request_is_reported_up_to_the_rejection() {
    let expected = include_str!("../../../tests/trace/refused.txt");
    assert_eq!(plain(REFUSED), expected);
}

#[test]
fn the_summary_names_each_policy_once() {
    let of_rule = r#"{"type":"policySelection","policies":["jwt","accessLog"]}"#;
    let token = r#"{"type":"authorizationResult","by":"jwt","allowed":false,"detail":"expired"}"#;
    let log = r#"{"type":"policy","kind":"accessLog","outcome":"applied","detail":"logged"}"#;
    let event = |message| {
        format!(
            r#"{{"eventStart":1,"eventEnd":1,"shard":0,"requestId":"a","severity":"info","message":{message}}}"#
        )
    };
    let text = plain(&[of_rule, token, log].map(event).join("\n"));
    assert!(
        text.contains("policies  accessLog, jwt (denied)\n"),
        "{text}"
    );
}

#[test]
fn control_characters_are_replaced() {
    let text = plain(RETRIED);
    assert!(RETRIED.contains(r"\u001b"));
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text}");
}

#[test]
fn extreme_numbers_are_formatted() {
    let text = RETRIED.replace("901", &u64::MAX.to_string());
    assert!(plain(&text).contains("18446744073709551.615 ms"));
}

proptest! {
    #[test]
    fn corrupt_events_in_any_order_give_a_report(
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
