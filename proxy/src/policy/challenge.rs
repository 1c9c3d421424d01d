//! The field line of a 401 that says how a client can authenticate itself.

use std::fmt::Write as _;

/// A challenge (RFC 9110 section 11.6.1). The realm is a quoted string; characters that it cannot represent are
/// dropped.
pub(super) fn challenge(scheme: &str, realm: Option<&str>, more: &str) -> Box<[u8]> {
    let mut line = format!("WWW-Authenticate: {scheme} realm=\"");
    for char in realm.unwrap_or(REALM).chars() {
        match char {
            '"' | '\\' => {
                let _ = write!(line, "\\{char}");
            }
            ' '..='~' => line.push(char),
            _ => {}
        }
    }
    line.push('"');
    line.push_str(more);
    line.push_str("\r\n");
    line.into_bytes().into()
}

/// The realm of policies without one.
const REALM: &str = "gateway";
