//! The data plane: one shard per core, each with its own sockets, pools, timers and counters.
//!
//! # Threads, and what crosses them
//!
//! ```text
//!  files, or the controller over gRPC           SIGTERM, SIGINT
//!             |                                       |
//!      +------v------+                         +------v------+
//!      |   config    |                         |    main     |  starts and restarts shards
//!      +------+------+                         +------+------+
//!             | a pointer to the snapshot             | messages: drain, stop
//!             | messages: listen, unlisten            |
//!             +---------------+-----------------------+
//!             |               |                       |
//!      +------v------+ +------v------+         +------v------+  one thread per core, which owns
//!      |   shard 0   | |   shard 1   |   ...   |   shard N   |  its sockets, pools and timers
//!      +------+------+ +------+------+         +------+------+
//!             | lines of the access log, in chunks    | counters (atomics), replies to queries
//!      +------v------+                         +------v------+       +------------+
//!      | access-log  |--> stdout               |    admin    |------>| background |  profiles, dumps
//!      +-------------+                         +-------------+       +------------+
//! ```
//!
//! With a policy that has passwords there are two threads more, which check them ([`passwords`]).
//!
//! A shard never waits for another thread. It reads the pointer when a request begins, takes its
//! messages from a queue, and drops lines that the writer has no room for. The only thing that one
//! shard passes to another is a new connection, to a shard with fewer of them.
//!
//! # The life of a request
//!
//! ```text
//!   client                                 shard                                     backend
//!     |--- TCP, TLS --> server, downstream                                              |
//!     |--- head ------> http: parsed strictly, or 400                                   |
//!     |                   request: normalise > select > authenticate > authorize        |
//!     |<-- 3xx, 4xx ------ answer        (no backend needed, or denied)                 |
//!     |                   draw > prepare > pick > mirror                                |
//!     |                   forward:  endpoint > pool or connect ----------- head ------->|
//!     |--- body --------------------- relay, kept for a retry ------------ body ------->|
//!     |                             |  <--- failed: next attempt, or a failure          |
//!     |<-- head, body --------------- relay, response filters <----- head, body --------|
//!     |                   finish: failure > status, counters, access log, trace         |
//! ```
//!
//! `server` accepts a connection and passes it to `downstream`, which completes the TLS handshake
//! ([`tls`]) if the listener terminates TLS, and reads request heads with the codec in [`http`]. From
//! there `request` is the spine: one function calls the phases from top to bottom, and every outcome
//! passes through one `finish`, which responds to failures, counts and logs. The phases share their
//! data in an `exchange`.
//!
//! Over HTTP/2 ([`http2`]) every stream takes this path in a task of its own: a stream and a socket
//! are two kinds of `channel`, and no phase depends on which of them it has.
//!
//! | phase | does | with |
//! |---|---|---|
//! | normalise | normalises host and path, for routing and for the backend | [`policy::normalise`] |
//! | select | selects the listener by host, then the rule | [`route`] |
//! | limit rate | counts the request, before and after its sender is known | [`policy::rate_limit`] |
//! | authenticate | verifies the token, the password or the key, if a policy requires one | [`policy::jwt`], [`policy::basic_auth`], [`policy::api_keys`] |
//! | authorize | evaluates authorization rules, and calls external authorization servers | [`policy::authorization`], [`policy::external_auth`] |
//! | answer | responds with redirects and CORS preflights, which need no backend | [`policy`] |
//! | draw | selects a backend by weight, or by hash | [`config`] |
//! | prepare | applies filters, and adds the gateway's header lines | [`policy`] |
//! | pick | calls the endpoint picker of an inference pool | [`upstream`] |
//! | mirror | copies the request to mirrors | [`upstream`] |
//! | forward | selects an endpoint, retries, and relays both bodies | `forward`, [`upstream`] |
//! | finish | responds to a [`failure`]; updates counters, and writes the access log | [`observe`] |
//!
//! TCP, TLS passthrough and UDP are proxied by [`l4`]: it selects a rule (for TLS, by the SNI of the
//! ClientHello) and an endpoint, and relays bytes both ways in a tunnel, which upgraded connections
//! use too.
//!
//! # The life of a configuration
//!
//! ```text
//!   on a machine: files                     in a cluster: objects of the API server
//!      |  config::watch                        |  controller: watch
//!      v                                       v
//!   translate::files    valid objects       translate::files
//!      v                                       v
//!   translate           model, statuses     translate::Translator --> statuses of the objects
//!      |                                       |
//!      |                                       |  xDS: only resources that changed;
//!      |                                       v  acknowledged, or rejected by name
//!      |                                    config::xds     what was received is the model
//!      +-------------------+-------------------+
//!                          v
//!              config::apply, compile    dns names, key sets, router, policies
//!                          v
//!              config::publish           one pointer; a request keeps its rule
//! ```
//!
//! It flows one way, on a thread of its own ([`config::local`]): files → valid objects
//! (`translate::files`) → the model ([`xds::model`]) → a [`config::Snapshot`] → one pointer, which
//! each shard reads when a request begins. In a cluster ([`config::xds`]) the controller produces the
//! model, and batches of changes arrive instead of files. A request keeps the snapshot it began with until its
//! rule is known, and then that rule with its clusters.
//! State that outlives a change (pools, health, counters) is kept on the shard under stable ids
//! ([`names`]). Key sets of token issuers ([`config::jwks`]) are published by pointers of their own.
//!
//! # Modules, from top to bottom
//!
//! Each depends only on modules below it; `tests/structure/module_cycles.rs` fails on a cycle.
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
//! | [`passwords`] | checks of passwords, and the threads for them |
//! | [`http`], [`memory`], [`machine`], [`names`], `fair_places`, [`limits`] | codecs, buffers, resources of the machine, ids, limits |

// Nothing may lock or block on a shard. Files that run on other threads allow it for themselves.
#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod args;
mod channel;
pub mod config;
mod downstream;
mod exchange;
pub mod failure;
mod fair_places;
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
pub mod passwords;
pub mod policy;
mod request;
pub mod route;
mod server;
pub mod shard;
pub mod supervisor;
pub mod tls;
mod trace;
pub mod upstream;
