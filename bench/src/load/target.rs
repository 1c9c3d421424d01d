//! The target of a load.

use std::net::SocketAddr;
use std::path::Path;

use crate::scenario::Case;
use crate::tls::Certificate;

/// Target and content of a load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoadTarget<'a> {
    pub(crate) address: SocketAddr,
    /// Its process, for loads that watch its memory.
    pub(crate) proxy: u32,
    pub(crate) case: &'a Case,
    /// Certificate of the proxy, if it uses TLS.
    pub(crate) certificate: Option<&'a Certificate>,
    /// For scripts and logs.
    pub(crate) folder: &'a Path,
    /// Bytes of a right answer: in HTTP/1 with its head.
    pub(crate) answer_size: usize,
}
