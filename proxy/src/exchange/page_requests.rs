//! Limits the requests of a shard for pages of errors: a page server that hangs may not block those of others.

use std::cell::RefCell;

use crate::fair_places::FairPlaces;
use crate::limits::PAGE_REQUESTS;
use crate::names::Interned;

/// The requests for pages of a shard that are in flight, whose places the clusters of servers share.
#[derive(Debug)]
pub(crate) struct PageRequests(RefCell<FairPlaces<Interned>>);

impl Default for PageRequests {
    fn default() -> Self {
        Self(RefCell::new(FairPlaces::new(PAGE_REQUESTS)))
    }
}

impl PageRequests {
    /// Takes a place until the returned value is dropped; `None` if there is none for this server.
    pub(super) fn enter(&self, server: Interned) -> Option<impl Drop> {
        let server = self.0.borrow_mut().take([&server])?;
        Some(Place {
            requests: self,
            server,
        })
    }
}

/// A place among the requests for pages of a shard.
struct Place<'p> {
    requests: &'p PageRequests,
    server: Interned,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.requests.0.borrow_mut().release(&self.server);
    }
}
