//! The model of what a proxy can be told, its protobuf form, and the way between the two.
//!
//! Knows nothing of Kubernetes and opens no listener. `translate` makes the [`model`], `proxy`
//! compiles it, and the wire form carries it between processes: [`encode`] is what a controller
//! does before it sends, [`decode`] what a proxy does with what it received. [`delta`] decides what
//! is sent when, on both sides, and does no I/O. [`few`] is a collection that all of them share.

pub mod decode;
pub mod delta;
pub mod discovery;
pub mod encode;
pub mod few;
pub mod model;
mod proto;
