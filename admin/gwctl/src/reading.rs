//! All that is made of a dump or trace that somebody else wrote, for those who look for bytes that
//! break it.

use crate::config;
use crate::source;
use crate::trace;

/// Everything that is shown of a dump; nothing where it is refused.
#[must_use]
pub fn dump(bytes: &[u8]) -> Option<String> {
    let dump = source::decode(bytes, "dump").ok()?;
    config::everything(dump).ok()
}

/// Everything that is shown of a trace as a gateway sends it, cut into pieces of this size.
#[must_use]
pub fn trace(bytes: &[u8], piece: usize) -> String {
    trace::everything(bytes, piece)
}
