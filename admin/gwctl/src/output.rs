//! Values as YAML or JSON, and text that others wrote.

use std::fmt::Write as _;
use std::io::Write;

use anyhow::Result;
use serde::Serialize;

/// Writes YAML.
///
/// # Errors
/// `out` takes no more.
pub(crate) fn yaml(value: &impl Serialize, out: &mut dyn Write) -> Result<()> {
    out.write_all(serde_saphyr::to_string(value)?.as_bytes())?;
    Ok(())
}

/// Writes a line of text.
///
/// # Errors
/// `out` takes no more.
pub(crate) fn line(text: &str, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "{}", shown(text).trim_end())?;
    Ok(())
}

/// A text in one line; what could steer the terminal is replaced, for anybody may have written it.
pub(crate) fn shown(text: &str) -> String {
    let shown = |c: char| if c.is_control() { '?' } else { c };
    text.chars().map(shown).collect()
}

/// Writes JSON to read.
///
/// # Errors
/// `out` takes no more.
pub(crate) fn json(value: &impl Serialize, out: &mut dyn Write) -> Result<()> {
    let text = serde_json::to_string_pretty(value)?;
    writeln!(out, "{}", escaped(&text))?;
    Ok(())
}

/// JSON, as a serializer writes it, without control characters in its strings: the format lets those
/// from U+007F on stand as they are (RFC 8259, section 7), and some steer a terminal.
pub(crate) fn escaped(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_control() && c != '\n' {
            // Writing to a string does not fail.
            let _ = write!(escaped, "\\u{:04x}", u32::from(c));
        } else {
            escaped.push(c);
        }
    }
    escaped
}
