//! The program's output on stdout.

use std::io::Write as _;

/// Prints a line. Errors are ignored: a closed pipe is no reason to stop measuring.
pub(crate) fn print_line(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
