//! Traces that gwctl did not write: shown, however they are cut, and nothing in them steers the
//! terminal.

/// Checks `data`: the size of pieces, and a stream of events.
pub(crate) fn check(data: &[u8]) {
    let [size, stream @ ..] = data else { return };
    let text = gwctl::fuzzing::trace(stream, usize::from(*size));
    assert!(text.starts_with("Summary\n"), "{text:?}");
    let steers = text.find(|c: char| c.is_control() && c != '\n');
    assert_eq!(steers, None, "{text:?}");
    let whole = gwctl::fuzzing::trace(stream, usize::MAX);
    assert_eq!(text, whole, "it matters where it is cut");
}
