//! The real server on loopback, and naive clients that make every mistake of delta xDS.

mod digests;
mod former;
mod hostile;
mod isolation;
mod lifetime;
mod protocol;
mod push;
mod support;
mod tls;
