//! `gwctl version`: versions of gwctl and, where one is named, of the gateway.

use std::io::Write;

use anyhow::Result;

use crate::args::VersionArgs;
use crate::source::Source;

/// Prints the versions.
///
/// # Errors
/// A gateway is named but cannot be read.
pub(crate) fn run(args: &VersionArgs, source: &Source, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "gwctl          {}", env!("CARGO_PKG_VERSION"))?;
    if source.is_specified(args.resource.as_ref()) {
        let version = source.dump(args.resource.as_ref())?.version;
        writeln!(out, "gateway        {}", version.gateway)?;
        writeln!(out, "configuration  {}", version.configuration)?;
    }
    Ok(())
}
