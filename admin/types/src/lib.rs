//! What the admin server answers, as types: the server writes them, `gwctl` reads them.
//!
//! Names are camelCase, durations of the configuration are written as Gateway API has them (`1m30s`),
//! measured ones carry their unit in their name. What is absent is left out. Readers pass over
//! fields they do not know, so that a tool reads the answers of a newer proxy.
//!
//! No type here has a place for a private key; values that headers keep secret go through
//! [`secret`].

pub mod dump;
mod error;
pub mod memory;
pub mod secret;
pub mod tasks;
mod text;
pub mod trace;

pub use error::ErrorAnswer;
