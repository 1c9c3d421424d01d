//! `gwctl version`: this tool's, and the gateway's where one is named.

use std::io::Write;

use anyhow::Result;

use crate::source::Source;

/// Prints the versions.
///
/// # Errors
/// A gateway is named that cannot be asked.
pub(crate) fn run(source: &Source, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "gwctl    {}", env!("CARGO_PKG_VERSION"))?;
    if source.is_somewhere() {
        let version = source.dump()?.version;
        writeln!(out, "gateway  {}", version.gateway)?;
        writeln!(
            out,
            "configuration in force: number {}",
            version.configuration
        )?;
    }
    Ok(())
}
