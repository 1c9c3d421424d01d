//! Limits of session persistence.

/// Invalid session tokens of a request after which it is taken as one without a session: 8. Browsers send a cookie for
/// each path at which it was set; each costs two hashes of some 100 bytes.
pub const INVALID_SESSION_TOKENS: usize = 8;
/// Most session key files: 4, half of the keys that are accepted. The other half is for what they contained before.
pub const SESSION_KEY_FILES: usize = 4;
/// Most bytes read of a session key file: those of the largest key, and one more, so that larger files are noticed.
pub const SESSION_KEY_FILE_BYTES: u64 = 4097;
