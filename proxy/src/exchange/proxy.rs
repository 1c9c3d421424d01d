//! The per-shard state shared by requests and byte-proxied connections.

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;

use crate::limits::{JWKS_WAITING, PASSWORDS_WAITING};
use crate::passwords::WrongPasswords;
use crate::policy::jwt::{SourceId, TokenCache};
use crate::policy::path_rewrite::RewriteScratch;
use crate::route::RegexCache;
use crate::shard::Shard;
use crate::trace::Watches;
use crate::upstream::Upstreams;

use super::page_requests::PageRequests;
use super::scratch::ScratchPool;
use super::waits::Waits;

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
    pub(crate) key_waits: Waits<SourceId>,
    /// Pairs of user and password that are wrong.
    pub(crate) wrong_passwords: RefCell<WrongPasswords>,
    /// Requests waiting for the check of a password.
    pub(crate) password_waits: Waits<IpAddr>,
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
            key_waits: Waits::new(JWKS_WAITING),
            wrong_passwords: RefCell::default(),
            password_waits: Waits::new(PASSWORDS_WAITING),
            page_requests: PageRequests::default(),
            watches: Watches::default(),
        }
    }
}
