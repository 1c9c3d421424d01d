//! The data plane: one shard a core, each with its own sockets, pools, timers and counters.
//!
//! # The life of a request
//!
//! `server` accepts a connection and hands it to `downstream`, which takes it through its TLS
//! handshake ([`tls`]) where its listeners want one, and reads one head after another by the codec in
//! [`http`]. From there `request` is the spine: one function calls the phases from top to
//! bottom, and every end passes through one `finish`, which answers failures, counts and logs. What
//! they all work on is an `exchange`.
//!
//! Over HTTP/2 ([`http2`]) every stream takes this path in a task of its own: to the request path, a
//! stream and a socket are two kinds of `channel`, and no phase exists for one of them alone.
//!
//! | phase | does | with |
//! |---|---|---|
//! | normalise | one form of host and path, for routing and for the backend | [`policy::normalise`] |
//! | select | the listener by host, then the rule | [`route`] |
//! | authenticate | a token, where the rule asks for one | [`policy::jwt`] |
//! | authorize | whether its sender may do this, where the rule asks for it | [`policy::authorization`] |
//! | answer | redirects and CORS, which need no backend | [`policy`] |
//! | draw | a backend by weight | [`config`] |
//! | prepare | filters, and the lines that we add | [`policy`] |
//! | forward | chooses endpoints, tries, moves both bodies | `forward`, [`upstream`] |
//! | finish | the answer to a [`failure`], counters, access log | [`observe`] |
//!
//! Connections and datagrams that no requests are read from go to [`l4`]: a rule, by the name in a TLS
//! client's first message where there is one, an endpoint, and then bytes both ways in a tunnel,
//! which upgraded connections use too.
//!
//! # The life of a configuration
//!
//! It flows one way, on a thread of its own ([`config::local`]): files → objects that are valid
//! (`translate::admit`) → the model ([`xds::model`]) → a [`config::Snapshot`] → one pointer, which
//! each shard reads when a request begins. In a cluster ([`config::xds`]) the controller has made the
//! model, and batches of changes arrive instead of files. A request keeps the snapshot it began with. What has to
//! outlive a change (pools, health, counters) lives on the shard, under ids that stay ([`names`]). Key
//! sets of issuers ([`config::jwks`]) reach the shards by pointers of their own.
//!
//! # Modules, from top to bottom
//!
//! Each depends only on modules below it; `tests/module_cycles.rs` fails on a cycle.
//!
//! | modules | purpose |
//! |---|---|
//! | [`args`], [`inspect`], [`supervisor`] | the process: options, data for the admin server, shards and listening sockets |
//! | `server` | a running shard: it accepts connections and does the housekeeping |
//! | `downstream`, [`l4`] | client connections: those that carry requests, and those proxied as bytes or datagrams |
//! | `request`, `forward` | the phases of a request |
//! | `exchange`, `trace` | the data that the phases share; live traces |
//! | [`upstream`] | connections to endpoints, load balancing, health, retries |
//! | `channel`, [`http2`] | a socket or an HTTP/2 stream behind one type; relays and tunnels |
//! | [`shard`] | what every task on a shard may use: deadlines, scheduling, buffers, counters |
//! | [`config`] | the compiled configuration and its sources |
//! | [`net`], [`observe`] | sockets, with or without TLS; counters and logs |
//! | [`tls`], [`policy`], [`route`], [`failure`] | TLS set-up, policies, the router; failures and the responses to them |
//! | [`http`], [`memory`], [`machine`], [`names`], [`limits`] | codecs, buffers, resources of the machine, ids, limits |

// Nothing may lock or block on a shard. What is off the shards says so, file by file.
#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod args;
mod channel;
pub mod config;
mod downstream;
mod exchange;
pub mod failure;
mod forward;
pub mod http;
pub mod http2;
pub mod inspect;
pub mod l4;
pub mod limits;
pub mod machine;
pub mod memory;
pub mod names;
pub mod net;
pub mod observe;
pub mod policy;
mod request;
pub mod route;
mod server;
pub mod shard;
pub mod supervisor;
pub mod tls;
mod trace;
pub mod upstream;
