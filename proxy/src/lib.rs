//! The data plane: one shard a core, each with its own sockets, pools, timers and counters.
//!
//! # The life of a request
//!
//! `shard` accepts a connection and hands it to `downstream`, which takes it through its TLS
//! handshake ([`tls`]) where its listeners want one, and reads one head after another by the codec in
//! [`http`]. From there `request` is the spine: one function calls the phases from top to
//! bottom, and every end passes through one `finish`, which answers failures, counts and logs.
//!
//! Over HTTP/2 every stream takes this path in a task of its own: to the request path, a stream and
//! a socket are two kinds of `channel`, and no phase exists for one of them alone.
//!
//! | phase | does | with |
//! |---|---|---|
//! | normalise | one form of host and path, for routing and for the backend | [`policy::normalise`] |
//! | select | the listener by host, then the rule | [`route`] |
//! | authenticate | a token, where the rule asks for one | [`policy::jwt`] |
//! | answer | redirects and CORS, which need no backend | [`policy`] |
//! | draw | a backend by weight | [`config`] |
//! | prepare | filters, and the lines that we add | [`policy`] |
//! | forward | chooses endpoints, tries, moves both bodies | `forward`, [`upstream`] |
//! | finish | the answer to a [`failure`], counters, access log | [`observe`] |
//!
//! Connections and datagrams that no requests are read from go to [`l4`]: a rule, by the name in a TLS
//! client's first message where there is one, an endpoint, and then bytes both ways in a `tunnel`,
//! which upgraded connections use too.
//!
//! # The life of a configuration
//!
//! It flows one way, on a thread of its own ([`config::local`]): files → objects that are valid
//! (`translate::admit`) → the model ([`xds::model`]) → a [`config::Snapshot`] → one pointer, which
//! each shard reads when a request begins. A request keeps the snapshot it began with. What has to
//! outlive a change (pools, health, counters) lives on the shard, under ids that stay. Key sets of
//! issuers ([`config::jwks`]) reach the shards by pointers of their own.
//!
//! # Who else is there
//!
//! [`supervisor`] binds the sockets, keeps them while shards come and go, and ends everything;
//! [`limits`] holds every limit with its reason.

// Nothing may lock or block on a shard. What is off the shards says so, file by file.
#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod args;
mod channel;
pub mod config;
pub mod cpu;
pub mod descriptors;
mod downstream;
pub mod driver;
pub mod failure;
mod forward;
pub mod heap;
pub mod http;
pub mod inspect;
pub mod l4;
pub mod limits;
pub mod memory;
pub mod net;
pub mod observe;
pub mod policy;
mod relay;
mod request;
pub mod route;
pub mod shard;
mod shelf;
pub mod sockets;
pub mod supervisor;
pub mod tls;
mod trace;
mod tunnel;
pub mod upstream;
