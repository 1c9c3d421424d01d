//! Resolves references, attachments and conflicts. A problem becomes a `Problem` beside the result,
//! never an error. Each step is a function of its arguments and of what it reads through its
//! `Reader`.

pub(crate) mod address;
pub(crate) mod allowed;
pub(crate) mod app_protocol;
pub(crate) mod authority;
pub(crate) mod backend;
pub(crate) mod backend_tls;
pub(crate) mod backend_traffic;
pub(crate) mod backend_validation;
pub(crate) mod conflict;
pub(crate) mod external_auth;
pub(crate) mod frontend;
pub(crate) mod gateway;
pub(crate) mod listener;
pub(crate) mod listener_filters;
pub(crate) mod listener_limit;
pub(crate) mod listener_set;
pub(crate) mod offer;
pub(crate) mod overlap;
pub(crate) mod parent;
pub(crate) mod policy;
pub(crate) mod policy_fields;
pub(crate) mod protocol;
pub(crate) mod secret;
pub(crate) mod socket;
pub(crate) mod taken;
pub(crate) mod tls;
