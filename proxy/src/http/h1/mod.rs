//! A strict HTTP/1 codec without I/O: bytes in, heads and bodies out, and back.
//!
//! `httparse` finds the tokens, we judge them: it takes bare line feeds, repeated Host, and
//! Content-Length beside Transfer-Encoding, each of which lets two parsers see two requests.
//! Received framing is never sent on; it is decided once (`framing`) and written anew (`encode`).

pub mod body;
pub mod encode;
mod error;
mod fields;
pub mod framing;
mod outline;
mod request;
mod response;
mod scan;
mod target;

pub use error::{BodyError, FramingError, HeadError, RequestError, ResponseError};
pub use outline::outline;
pub use request::parse_request;
pub use response::{Asked, parse_response};
pub use scan::{HeadLimits, HeadScan, Progress};
