//! The pages for errors at a rule or listener.

use std::sync::Arc;

use xds::model::InvalidBackend;

use super::ClusterIndex;
use crate::policy::answer::{ErrorPages, PageServer};

/// Pages for errors, and the clusters of their servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PagesInForce {
    /// The pages, which many rules share.
    pub pages: Arc<ErrorPages>,
    /// The clusters of their servers, by place.
    pub servers: Box<[Result<ClusterIndex, InvalidBackend>]>,
}

impl PagesInForce {
    /// The cluster of one of its servers.
    ///
    /// # Errors
    ///
    /// The reference is invalid.
    pub fn cluster(&self, server: &PageServer) -> Result<ClusterIndex, InvalidBackend> {
        let found = self.servers.get(server.place);
        found.copied().unwrap_or(Err(InvalidBackend::NotFound))
    }

    /// The clusters of its servers.
    pub fn clusters(&self) -> impl Iterator<Item = ClusterIndex> {
        self.servers.iter().flatten().copied()
    }
}
