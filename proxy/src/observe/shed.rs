//! Why requests are rejected under overload.

use crate::names::causes;

causes! {
    /// Why a request is rejected under overload.
    ShedCause;
    /// The event loop is late.
    Late "late";
    /// There was no file descriptor for a connection to an endpoint.
    Descriptors "descriptors";
    /// The process is close to its memory limit.
    Memory "memory";
    /// The shard's buffers have reached their limit.
    Buffers "buffers";
}
