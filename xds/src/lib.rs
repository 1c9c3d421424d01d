//! The configuration model of a proxy, its protobuf form, and the conversion between the two.
//!
//! Knows nothing of Kubernetes and does no I/O. `translate` builds the [`model`] and `proxy`
//! compiles it; between processes it travels in its wire form: the controller calls [`encode`]
//! before sending, the proxy [`decode`] after receiving. [`delta`] decides on both sides what is
//! sent when. [`secret`] masks what must not be shown, and [`small_map`] is a collection that all of them
//! share.

pub mod decode;
pub mod delta;
pub mod discovery;
pub mod encode;
pub mod fast_hash;
mod limits;
pub mod model;
mod proto;
pub mod secret;
pub mod small_map;
