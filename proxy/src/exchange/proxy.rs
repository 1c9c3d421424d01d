//! The state of a shard that requests and byte-proxied connections share.

use std::cell::RefCell;
use std::rc::Rc;

use crate::names::Table;
use crate::policy::jwt::TokenCache;
use crate::route::RegexCache;
use crate::shard::Shard;
use crate::trace::Watches;
use crate::upstream::Upstreams;

use super::key_waits::KeyWaits;
use super::scratch::ScratchPool;

/// The state that everything proxied by a shard shares.
pub(crate) struct Proxy {
    pub(crate) shard: Rc<Shard>,
    pub(crate) upstreams: Upstreams,
    /// Free working memory of requests.
    pub(crate) scratch: ScratchPool,
    /// Memory that the listeners' regular expressions are matched with.
    pub(crate) regexes: RefCell<Table<RegexCache>>,
    /// Tokens that were verified.
    pub(crate) tokens: RefCell<TokenCache>,
    /// Requests that wait for the key of their token.
    pub(crate) key_waits: KeyWaits,
    /// Seals session tokens.
    pub(crate) session_key: ring::hmac::Key,
    /// Who watches its requests.
    pub(crate) watches: Watches,
}

impl Proxy {
    /// The proxy of a shard.
    pub(crate) fn new(shard: Rc<Shard>, session_key: ring::hmac::Key) -> Self {
        Self {
            upstreams: Upstreams::new(Rc::clone(&shard)),
            shard,
            scratch: ScratchPool::default(),
            regexes: RefCell::default(),
            tokens: RefCell::default(),
            key_waits: KeyWaits::default(),
            session_key,
            watches: Watches::default(),
        }
    }
}
