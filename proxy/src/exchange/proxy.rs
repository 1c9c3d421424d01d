//! The per-shard state shared by requests and byte-proxied connections.

use std::cell::RefCell;
use std::rc::Rc;

use crate::policy::jwt::TokenCache;
use crate::policy::path_rewrite::RewriteScratch;
use crate::route::RegexCache;
use crate::shard::Shard;
use crate::trace::Watches;
use crate::upstream::Upstreams;

use super::key_waits::KeyWaits;
use super::page_requests::PageRequests;
use super::scratch::ScratchPool;

/// The per-shard state shared by everything proxied.
pub(crate) struct Proxy {
    pub(crate) shard: Rc<Shard>,
    pub(crate) upstreams: Upstreams,
    /// Free working memory of requests.
    pub(crate) scratch: ScratchPool,
    /// Scratch memory for matching regular expressions.
    pub(crate) regexes: RefCell<RegexCache>,
    /// Memory for rewriting paths.
    pub(crate) path_rewrites: RefCell<RewriteScratch>,
    /// Cache of verified tokens.
    pub(crate) tokens: RefCell<TokenCache>,
    /// Requests waiting for a key set.
    pub(crate) key_waits: KeyWaits,
    /// Requests for pages of errors that are in flight.
    pub(crate) page_requests: PageRequests,
    /// Live traces (`gwctl trace`) that requests are matched against.
    pub(crate) watches: Watches,
}

impl Proxy {
    /// The proxy state of a shard.
    pub(crate) fn new(shard: Rc<Shard>) -> Self {
        Self {
            upstreams: Upstreams::new(Rc::clone(&shard)),
            shard,
            scratch: ScratchPool::default(),
            regexes: RefCell::default(),
            path_rewrites: RefCell::default(),
            tokens: RefCell::default(),
            key_waits: KeyWaits::default(),
            page_requests: PageRequests::default(),
            watches: Watches::default(),
        }
    }
}
