//! A trace as text, for files, pipes and terminals that can do no more.

use std::io::Write;

use anyhow::Result;

use super::report::Report;

/// Writes the sections one below the other.
///
/// # Errors
/// `out` takes no more.
pub(super) fn write(report: &Report, out: &mut dyn Write) -> Result<()> {
    for (number, section) in report.sections.iter().enumerate() {
        if number > 0 {
            writeln!(out)?;
        }
        writeln!(out, "{}", section.title)?;
        for line in &section.lines {
            let text = format!("  {}", line.text);
            writeln!(out, "{}", text.trim_end())?;
        }
    }
    Ok(())
}
