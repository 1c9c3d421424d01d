//! Dumps that gwctl did not write: shown or refused, and nothing in them steers the terminal.

/// Checks `data` as a dump.
pub(crate) fn check(data: &[u8]) {
    let Some(text) = gwctl::fuzzing::dump(data) else {
        return;
    };
    let steers = text.find(|c: char| c.is_control() && c != '\n');
    assert_eq!(steers, None, "{text:?}");
}
