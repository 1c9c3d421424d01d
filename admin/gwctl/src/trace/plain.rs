//! A trace as plain text, for files, pipes and dumb terminals.

use std::io::Write;

use anyhow::Result;

use super::report::Report;

/// Writes all sections.
///
/// # Errors
/// Writing failed.
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
