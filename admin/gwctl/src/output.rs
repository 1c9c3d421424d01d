//! Values as YAML or JSON, and text that others wrote.

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
    let mut text = serde_json::to_vec_pretty(value)?;
    text.push(b'\n');
    out.write_all(&text)?;
    Ok(())
}
