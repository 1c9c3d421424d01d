//! Bookkeeping of delta xDS, for both sides of a stream. No I/O: requests and responses in and out,
//! time as an argument.
//!
//! The controller's side: [`Views`] holds what the proxies of each Gateway need, as a log in which
//! each resource stands once, at its last change. A [`Session`] is one stream: its subscriptions,
//! its position in the log, and the batch that it has yet to acknowledge. Only one batch is under
//! way on a stream, so a slow proxy costs no memory: what changes meanwhile is one batch later.
//!
//! The proxy's side is [`Client`], which collects the parts of a batch and says what to apply.
//!
//! A batch spans all types, and is one response for each, or several where it is large. Each says
//! which part of which batch it is, so that a route is never applied without its service.

#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unwrap_used
    )
)]

mod batch;
mod client;
mod encoded;
mod limits;
mod objects;
mod refusal;
mod session;
mod subscription;
mod view;
mod views;

pub use batch::Outgoing;
pub use client::{Check, Client, ProtocolError, Received};
pub use encoded::{Encoded, InvalidVersion, Version};
pub use refusal::Refusal;
pub use session::{Acknowledged, Answered, Poll, Session, UnknownType};
pub use views::{Member, Publication, Views};
