//! Working memory that the HTTP/2 connections of a shard share, so that a connection without streams has
//! next to none.

use std::cell::RefCell;

use crate::http::engine::{Decoded, HeldHead};
use crate::limits::H2_SEND_BYTES;
use crate::memory::FreeList;

/// The memory.
#[derive(Default)]
pub(crate) struct Memory {
    /// Heads are decoded into it.
    pub(crate) decoded: RefCell<Decoded>,
    outputs: FreeList<Vec<u8>>,
    heads: FreeList<HeldHead>,
}

impl Memory {
    /// Memory for bytes to be sent.
    pub(super) fn take_output(&self) -> Vec<u8> {
        self.outputs.take().unwrap_or_default()
    }

    /// Returns it; unusually much is freed.
    pub(super) fn put_output(&self, mut output: Vec<u8>) {
        if (1..=MAX_KEPT_OUTPUT).contains(&output.capacity()) {
            output.clear();
            self.outputs.put(output);
        }
    }

    /// Memory for a head that waits to be sent.
    pub(super) fn take_head(&self) -> HeldHead {
        self.heads.take().unwrap_or_default()
    }

    pub(super) fn put_head(&self, head: HeldHead) {
        self.heads.put(head);
    }

    /// Frees what was not used since the last call. Returns how many pieces.
    pub(crate) fn trim(&self) -> usize {
        let outputs = self.outputs.trim(drop);
        outputs.saturating_add(self.heads.trim(drop))
    }
}

/// Capacity of the largest output that is kept: the vector of a full send has doubled beyond it once.
const MAX_KEPT_OUTPUT: usize = H2_SEND_BYTES.saturating_mul(2);
