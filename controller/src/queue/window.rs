//! The limit of writes in flight.

/// The limit of writes in flight: halved on throttling, increased by one after as many writes as
/// its size.
#[derive(Debug)]
pub(super) struct Window {
    size: usize,
    successes: usize,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            size: MAX_IN_FLIGHT,
            successes: 0,
        }
    }
}

impl Window {
    pub(super) fn size(&self) -> usize {
        self.size
    }

    pub(super) fn shrink(&mut self) {
        self.size = (self.size / 2).max(1);
        self.successes = 0;
    }

    pub(super) fn grow(&mut self) {
        self.successes += 1;
        if self.successes >= self.size && self.size < MAX_IN_FLIGHT {
            self.size += 1;
            self.successes = 0;
        }
    }
}

/// Most writes in flight: 8.
pub(super) const MAX_IN_FLIGHT: usize = 8;
