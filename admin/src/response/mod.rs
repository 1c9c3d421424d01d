//! HTTP responses of the servers: complete, streamed, compressed, and errors.

mod body;
mod encoding;
mod error;
mod message;
mod streamed;

pub(crate) use body::{Body, Chunk};
pub(crate) use encoding::Encoding;
pub(crate) use error::{ErrorFormat, ErrorResponse};
pub(crate) use message::{Generation, JSON, Response, TEXT};
pub(crate) use streamed::{encode, streamed};
