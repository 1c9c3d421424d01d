//! Limits of session persistence, and of policies for the choice of endpoints.

/// Invalid session tokens of a request after which it is taken as one without a session: 8. Browsers send a cookie for
/// each path at which it was set; each costs two hashes of some 100 bytes.
pub const INVALID_SESSION_TOKENS: usize = 8;
/// Most session key files: 4, half of the keys that are accepted. The other half is for what they contained before.
pub const SESSION_KEY_FILES: usize = 4;
/// Most bytes read of a session key file: those of the largest key, and one more, so that larger files are noticed.
pub const SESSION_KEY_FILE_BYTES: u64 = 4097;
/// Slots of a hash table that are examined for an endpoint in service before all endpoints are: 512. Most of the time the
/// first or second serves.
pub const HASH_TABLE_STEPS: usize = 512;
/// Draws of an endpoint, of which those that have just become ready take a part, before any is taken: 32. Only if nearly all
/// are new, one request in thirty needs that.
pub const SLOW_START_DRAWS: u32 = 32;
