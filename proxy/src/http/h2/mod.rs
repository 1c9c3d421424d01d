//! HTTP/2 frames and heads, without I/O.
//!
//! Converts heads between the forms of the `h2` crate and of the proxy ([`crate::http::head`]) in
//! `request`, `response`, `encode` and `trailers`. The [`guard`] detects floods from the `frame`s.
//! Connections and streams are in [`crate::http2`].

pub mod encode;
mod field_blocks;
pub mod frame;
pub mod guard;
mod heads;
mod huffman;
pub mod request;
pub mod response;
pub mod trailers;
