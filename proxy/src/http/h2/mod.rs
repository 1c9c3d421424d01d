//! HTTP/2 as frames and heads, without I/O.
//!
//! Heads cross over from the forms of the `h2` crate into those that all of the proxy knows
//! ([`crate::http::head`]) and back (`request`, `response`, `encode`, `trailers`). The [`guard`] counts
//! what a peer makes us do, by the `frame`s that it sees. Connections and streams are
//! [`crate::http2`]'s.

pub mod encode;
mod field_blocks;
pub mod frame;
pub mod guard;
mod heads;
mod huffman;
pub mod request;
pub mod response;
pub mod trailers;
