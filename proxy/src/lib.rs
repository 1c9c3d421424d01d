//! The data plane: one shard a core, each with its own sockets, pools, timers and counters.
//!
//! # The life of a request
//!
//! `shard` accepts a connection and hands it to `downstream`, which reads one head after another by
//! the codec in [`http`]. From there `request` is the spine: one function calls the phases from top to
//! bottom, and every end passes through one `finish`, which answers failures, counts and logs.
//!
//! | phase | does | with |
//! |---|---|---|
//! | normalise | one form of host and path, for routing and for the backend | [`policy::normalise`] |
//! | select | the listener by host, then the rule | [`route`] |
//! | answer | redirects and CORS, which need no backend | [`policy`] |
//! | draw | a backend by weight | [`config`] |
//! | prepare | filters, and the lines that we add | [`policy`] |
//! | forward | chooses endpoints, tries, moves both bodies | `forward`, [`upstream`] |
//! | finish | the answer to a [`failure`], counters, access log | [`observe`] |
//!
//! # The life of a configuration
//!
//! It flows one way, on a thread of its own ([`config::local`]): files → objects that are valid
//! (`translate::admit`) → the model ([`xds::model`]) → a [`config::Snapshot`] → one pointer, which
//! each shard reads when a request begins. A request keeps the snapshot it began with. What has to
//! outlive a change (pools, health, counters) lives on the shard, under ids that stay.
//!
//! # Who else is there
//!
//! [`supervisor`] binds the sockets, keeps them while shards come and go, and ends everything;
//! [`limits`] holds every limit with its reason.

// Nothing may lock or block on a shard. What is off the shards says so, file by file.
#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod args;
pub mod config;
pub mod cpu;
pub mod descriptors;
mod downstream;
pub mod driver;
pub mod failure;
mod forward;
pub mod http;
pub mod limits;
pub mod memory;
pub mod net;
pub mod observe;
pub mod policy;
mod relay;
mod request;
pub mod route;
pub mod shard;
pub mod sockets;
pub mod supervisor;
pub mod upstream;
