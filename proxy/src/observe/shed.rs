//! Why requests are refused under overload.

use crate::names::causes;

causes! {
    /// Why a request is refused, so that others can be served.
    ShedCause;
    /// The event loop comes late.
    Late "late";
    /// There was no file descriptor for a connection to an endpoint.
    Descriptors "descriptors";
    /// The process has nearly used up its memory limit.
    Memory "memory";
    /// The shard's buffers hold as much as they may.
    Buffers "buffers";
}
