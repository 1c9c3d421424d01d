//! HTTP as bytes: heads, framing, header names. No I/O in here.

pub mod head;
pub mod known;
