//! The environment of a case.

use super::backend::Backend;
use super::cluster::Cluster;
use super::peer::Peer;
use super::sizes::Sizes;

/// The environment of a case.
pub(crate) struct Context<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) peer: &'a Peer,
    pub(crate) backend: &'a Backend,
    pub(crate) sizes: &'a Sizes,
}
