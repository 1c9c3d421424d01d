//! HTTP/2 on top of the `h2` crate, which keeps streams, windows and header compression.
//!
//! Heads cross over into the forms that all of the proxy knows ([`crate::http::head`]) and back
//! (`request`, `response`, `encode`, `trailers`). The [`guard`] counts what a peer makes us do, the
//! `ration` how much of it one turn does, `pace` and `usage` say how long it may take, and `liveness`
//! asks for a sign of life. `io`, with the `outbox` behind it, and `stream` are the only I/O: the
//! connection's socket, and one stream as an exchange sees it.

pub mod encode;
pub mod frame;
pub mod guard;
pub(crate) mod io;
pub(crate) mod liveness;
mod outbox;
pub(crate) mod pace;
mod ration;
pub mod request;
pub mod response;
#[cfg(any(test, feature = "test-hooks"))]
pub mod script;
pub(crate) mod signals;
pub(crate) mod stream;
pub mod trailers;
pub(crate) mod usage;
