//! The types of the admin server's JSON responses, shared by the server and `gwctl`.
//!
//! Names are in camelCase. Configured durations use the Gateway API format (`1m30s`); measured ones have
//! their unit in the name. Absent values are omitted. Readers ignore unknown fields, so that tools can
//! read the responses of newer proxies.
//!
//! No type has a field for a private key; header values and URLs pass through `xds::secret` for masking.

pub mod dump;
mod error;
pub mod memory;
pub mod tasks;
pub mod trace;

pub use error::ErrorAnswer;
