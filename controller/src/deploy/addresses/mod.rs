//! The addresses of Gateways, for their statuses: those of a Gateway's Service, or of the nodes of its proxies.
//! Every replica knows them.

mod book;
mod nodes;
mod source;
mod watch;

pub(super) use book::AddressBook;
pub(super) use source::{ANNOTATION, AddressSource, NodeAddressType, NodeAddresses};
pub(super) use watch::follow_nodes;

/// Whether the controller reads nodes, which needs permissions that not everybody grants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NodeReading {
    /// It does.
    Enabled,
    /// It does not.
    #[default]
    Disabled,
}
