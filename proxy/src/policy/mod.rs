//! What is done to a request on its way, one policy a file.

pub mod normalise;
