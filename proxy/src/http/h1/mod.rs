//! A strict HTTP/1 codec without I/O.
//!
//! `httparse` finds the tokens, and this module validates them: `httparse` accepts bare line feeds,
//! repeated Host, and Content-Length with Transfer-Encoding, each of which lets two parsers see two
//! requests. Received framing is never forwarded; it is decided once (`framing`) and generated
//! again (`encode`).

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
pub use response::{RequestKind, parse_response};
pub use scan::{HeadLimits, HeadScan, Progress};
