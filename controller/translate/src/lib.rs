//! Gateway API objects in, model and statuses out: pure and synchronous.
//!
//! `admit` makes typed objects of text, `store` keeps them, and `translate` makes of the store what
//! the proxies are told and what the user is told.

pub mod admit;
pub mod api;
pub mod store;
