//! Output as YAML, JSON or lines of text, with control characters removed.

use std::fmt::Write as _;
use std::io::Write;

use anyhow::Result;
use serde::Serialize;

/// Writes YAML.
///
/// # Errors
/// Writing failed.
pub(crate) fn yaml(value: &impl Serialize, out: &mut dyn Write) -> Result<()> {
    out.write_all(serde_saphyr::to_string(value)?.as_bytes())?;
    Ok(())
}

/// Writes a line of text, sanitized.
///
/// # Errors
/// Writing failed.
pub(crate) fn line(text: &str, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "{}", shown(text).trim_end())?;
    Ok(())
}

/// Replaces control characters by `?`: the text may come from anyone, and escape sequences would
/// control the terminal.
pub(crate) fn shown(text: &str) -> String {
    let shown = |c: char| if c.is_control() { '?' } else { c };
    text.chars().map(shown).collect()
}

/// Writes indented JSON.
///
/// # Errors
/// Writing failed.
pub(crate) fn json(value: &impl Serialize, out: &mut dyn Write) -> Result<()> {
    let text = serde_json::to_string_pretty(value)?;
    writeln!(out, "{}", escaped(&text))?;
    Ok(())
}

/// Escapes the control characters that JSON allows unescaped, from U+007F (RFC 8259 section 7): some
/// control the terminal.
pub(crate) fn escaped(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_control() && c != '\n' {
            // Writing to a string is infallible.
            let _ = write!(escaped, "\\u{:04x}", u32::from(c));
        } else {
            escaped.push(c);
        }
    }
    escaped
}
