//! Bookkeeping of delta xDS for both sides of a stream, without I/O: requests and responses in and
//! out, time as an argument.
//!
//! On the controller's side, [`Views`] holds the resources that each Gateway's proxies need, as a
//! log in which each resource appears once, at its last change. A [`ProxySession`] is one stream: its
//! subscriptions, its position in the log, and the batch that is not acknowledged yet. Only one
//! batch is in flight on a stream, so a slow proxy costs no memory: later changes accumulate into
//! the next batch.
//!
//! A proxy that reconnects reports what it holds by a digest for each type, to controllers that compare them
//! ([`Report`]). Where one differs, the controller asks for names and versions, and sends the difference. So what a
//! reconnection costs does not depend on the number of resources, unless they have changed.
//!
//! Proxies of earlier releases have not all features of this one ([`Features`](crate::model::Features)). While
//! a Gateway has such proxies, it has a view for each set of features, derived from the one for all. What may take
//! long, deriving and encoding, is done by streams without holding the views, and shared by them.
//!
//! On the proxy's side, [`Client`] assembles the parts of a batch and returns the changes to apply. What only a proxy
//! sees, such as keys that cannot be fetched, it tells as [`Symptom`]s.
//!
//! A batch spans all types, with one response for each, or several for large ones. Each response
//! states its part of the batch, so that a route is never applied without its service.

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

mod adapt;
mod adapted_view;
mod batch;
mod client;
mod digest;
mod encoded;
mod objects;
mod refusal;
mod session;
mod subscription;
mod substitutes;
mod symptom;
mod unknown_types;
mod view;
mod views;

pub use adapted_view::{Derivation, Derived};
pub use batch::Outgoing;
pub use client::{Check, Client, ProtocolError, Received, Report};
pub use encoded::{Encoded, InvalidVersion, Version};
pub use refusal::Refusal;
pub use session::{Acknowledged, Answered, Poll, ProxySession, Standing, UnknownType, Unsent};
pub use symptom::{Fact, Symptom};
pub use views::{Member, Publication, Views};
