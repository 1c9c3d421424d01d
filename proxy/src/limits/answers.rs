//! Limits of the answers that policies have the gateway send.

/// Placeholders of a body that the gateway fills: 64. Each may become a host of 255 bytes, escaped six times as
/// long, so that a body grows by 96 KiB at most; further ones stay as they are.
pub const PLACEHOLDERS: usize = 64;
/// Bytes of a body of the gateway that are written at once: 16 KiB, the size of an HTTP/2 frame. A client has to
/// take as much within its write timeout, and connections keep no more memory for it.
pub const ANSWER_PIECE_BYTES: usize = 16 << 10;
