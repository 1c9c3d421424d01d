//! Follows the objects of every kind that is read, and tells what changes.
//!
//! There is one watch per kind. `discovery` tells which kinds the API server serves and in which
//! version; a kind that is not served is complete without objects, and its watch starts when its
//! definition is installed. A watch (`follow`) parses and admits each object, leaves out namespaces
//! that are not selected (`scope`), and sends [`Change`]s to whoever translates them.

mod admission;
mod backoff;
mod change;
mod class;
mod discovery;
mod follow;
mod kinds;
mod measures;
mod raw;
mod readiness;
mod scope;
mod supervisor;

pub use change::{Change, Content, What};
pub use class::{Class, ClassParameters};
pub(crate) use kinds::Reading;
pub use kinds::{Extension, KindId, Kinds};
pub use readiness::{Readiness, State};
pub use supervisor::Supervisor;
