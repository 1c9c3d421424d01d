//! Watches the objects of all kinds, and reports changes.
//!
//! There is one watch per kind. `discovery` finds which kinds the API server serves and in which
//! version; a kind that is not served has no objects, and its watch starts when its CRD is
//! installed. A watch (`follow`) parses and admits each object, skips namespaces that are not
//! selected (`scope`, `rescoping`), and sends [`Change`]s to translation.

mod admission;
mod backoff;
mod change;
mod class;
mod discovery;
mod entries;
mod events;
mod follow;
mod granted;
mod heard;
mod kinds;
mod list;
mod measures;
mod raw;
mod readiness;
mod requests;
mod rescoping;
mod scope;
mod supervisor;

pub use change::{Change, ChangeKind, Content};
pub use class::{Class, ClassParameters};
pub(crate) use kinds::resource;
pub use kinds::{Extension, Kinds};
pub use readiness::{Readiness, State};
pub use supervisor::Supervisor;
