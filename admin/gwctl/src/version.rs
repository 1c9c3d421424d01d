//! `gwctl version`: versions of gwctl and, where a source is given, of the gateway.

use std::io::Write;

use anyhow::Result;

use crate::source::Source;

/// Prints the versions.
///
/// # Errors
/// A source is given but cannot be read.
pub(crate) fn run(source: &Source, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "gwctl          {}", env!("CARGO_PKG_VERSION"))?;
    if source.is_specified() {
        let version = source.dump()?.version;
        writeln!(out, "gateway        {}", version.gateway)?;
        writeln!(out, "configuration  {}", version.configuration)?;
    }
    Ok(())
}
