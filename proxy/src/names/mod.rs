//! Compact names for counters: ids of configured objects, and fixed sets of causes.

mod causes;
mod interned;
mod key_prefix;

pub use causes::Cause;
pub(crate) use causes::causes;
pub use interned::{Interned, Interner, Table};
pub use key_prefix::KeyPrefix;
