//! Entry points for the fuzz targets: everything that is printed of untrusted dumps and traces.

use crate::config;
use crate::source;
use crate::trace;

/// All output of a dump; None where it is rejected.
#[must_use]
pub fn dump(bytes: &[u8]) -> Option<String> {
    let dump = source::decode(bytes, "dump").ok()?;
    config::everything(dump).ok()
}

/// All output of a trace that arrives in chunks of this size.
#[must_use]
pub fn trace(bytes: &[u8], chunk: usize) -> String {
    trace::everything(bytes, chunk)
}
