//! The model of what a proxy can be told, its protobuf form, and the way between the two.
//!
//! Knows nothing of Kubernetes and opens no listener. `translate` makes the model, `proxy`
//! compiles it, and the wire form carries it between processes.

pub mod encode;
pub mod model;
mod proto;
