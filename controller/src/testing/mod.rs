//! Shared by tests of several parts: an API server in this process.

mod api_server;
mod path;

pub(crate) use api_server::{ApiServer, Fault};
