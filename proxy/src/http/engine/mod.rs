//! An HTTP/2 engine without I/O: frames, header compression, streams, windows and flood limits of a
//! connection, in either role (RFC 9113, RFC 7541, RFC 8441).
//!
//! It decodes heads into the text and spans that HTTP/1 uses ([`crate::http::head`]), which every policy
//! reads, and which heads are encoded from.
//!
//! A driver reads bytes into a buffer, and calls [`Connection::receive`] for one [`Event`] after another
//! while the bytes are there; DATA is a range of them. What it writes collects in the connection's output,
//! which the driver sends once per turn. Time is an argument. In the steady state nothing is allocated.
//!
//! | module | purpose |
//! |---|---|
//! | `connection` | one connection: what each frame does |
//! | `head_sink` | checks of a message, and its head as text and spans |
//! | [`encode`], `head_writer`, `held_head` | heads to be sent, from the input of the HTTP/1 encoder |
//! | [`hpack`] | header compression |
//! | `streams`, `flow` | records of streams; windows |
//! | [`guard`] | flood limits |
//! | [`frame`] | frames as bytes |
//! | `event`, [`error`] | what happened, and who is to blame |

mod connection;
pub mod encode;
pub mod error;
mod event;
mod flow;
pub mod frame;
pub mod guard;
mod head_sink;
mod head_writer;
mod held_head;
pub mod hpack;
mod streams;

pub use connection::{Connection, EndOfInput, Options, Role, StreamGone};
pub use event::{Event, Step};
pub use flow::Pressure;
pub use head_sink::{Decoded, Then};
pub use head_writer::{HeadWriter, Scheme, SectionWriter};
pub use held_head::HeldHead;
pub use streams::StreamKey;
