//! Clients' connections: from accept to close, and the requests that come over them.

pub(crate) mod answer;
pub(crate) mod connection;
mod h1;
mod proxy_protocol;
