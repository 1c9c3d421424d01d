//! A response of the origin.

use std::rc::Rc;

/// The response to the received bytes.
#[derive(Debug)]
pub(crate) struct OriginResponse {
    /// How much of the input it answers.
    pub(crate) consumed: usize,
    pub(crate) reply: Reply,
    /// Close once it is sent.
    pub(crate) close: bool,
}

#[derive(Debug)]
pub(crate) enum Reply {
    Prebuilt(Rc<[u8]>),
    /// An answer of its own.
    Bytes(Vec<u8>),
}

impl Reply {
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Prebuilt(bytes) => bytes,
            Self::Bytes(bytes) => bytes,
        }
    }
}
