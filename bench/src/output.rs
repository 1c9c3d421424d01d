//! The program's output: lines on stdout, and the folder of records and reports.

use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};

/// Creates a folder for output, and those above it, unless they exist.
pub(crate) fn create_folder(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot create the folder {}", folder.display()))
}

/// Prints a line. Errors are ignored: a closed pipe is no reason to stop measuring.
pub(crate) fn print_line(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
