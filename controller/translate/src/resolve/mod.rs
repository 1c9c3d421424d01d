//! From objects to what they mean together: who attaches to whom, what each reference leads to,
//! who wins a conflict. What is wrong becomes a `Problem` beside the result, never an error.

pub(crate) mod address;
pub(crate) mod backend;
pub(crate) mod conflict;
pub(crate) mod gateway;
pub(crate) mod http_route;
pub(crate) mod listener;
pub(crate) mod namespaces;
pub(crate) mod parent;
pub(crate) mod policy;
pub(crate) mod policy_fields;
pub(crate) mod policy_target;
pub(crate) mod protocol;
pub(crate) mod reference_grant;
pub(crate) mod secret;

use crate::options::Options;
use crate::store::Store;
use backend::Backends;
use namespaces::Namespaces;
use reference_grant::Grants;

/// What every step reads: the objects, and indexes over them.
pub(crate) struct World<'a> {
    pub(crate) store: &'a Store,
    pub(crate) options: &'a Options,
    pub(crate) grants: Grants<'a>,
    pub(crate) namespaces: Namespaces<'a>,
    pub(crate) backends: Backends<'a>,
}

impl<'a> World<'a> {
    pub(crate) fn of(store: &'a Store, options: &'a Options) -> Self {
        Self {
            store,
            options,
            grants: Grants::of(store),
            namespaces: Namespaces::of(store),
            backends: Backends::of(store),
        }
    }
}
