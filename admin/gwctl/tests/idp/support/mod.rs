//! What the tests share: HTTP on sockets, a provider that answers as a test says, and running `gwctl`.

pub(crate) mod gwctl;
pub(crate) mod message;
pub(crate) mod provider;
pub(crate) mod server;
