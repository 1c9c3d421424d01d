//! Routing: Gateway API matching, compiled for one listener.
//!
//! [`Router::compile`] runs off the shards whenever the configuration changes; the shards share the
//! immutable result. [`Router::select`] costs O(path segments + candidates of the matching paths),
//! never O(routes), and does not allocate. [`Router::explain`] walks the same way and reports why
//! each candidate was not selected. The path is normalised before, and the listener selected with
//! [`HostIndex`].

mod compile;
mod condition;
mod explain;
mod hash;
mod host;
mod host_index;
mod matcher;
mod part;
mod path;
mod pattern;
pub(crate) mod query;
mod rank;
mod request;
mod select;
mod table;

pub use compile::Entry;
pub(crate) use compile::RouterCompiler;
pub use condition::Mismatch;
pub use explain::{ConsideredMatch, Outcome};
pub use host_index::HostIndex;
pub use pattern::RegexCache;
pub(crate) use rank::Source;
pub use request::{HeadFields, HeaderLookup, RequestView};
pub use select::{Router, Selected};
