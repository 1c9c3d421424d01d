//! Connections closed because of their PROXY protocol header.

use crate::names::causes;

causes! {
    /// Why a connection was closed because of its PROXY protocol header.
    ProxyHeaderFailure;
    /// A header is required, but missing.
    Missing "missing";
    /// It is not a valid header of version 1 or 2.
    Malformed "malformed";
    /// It comes from an untrusted peer.
    Untrusted "untrusted";
    /// It was not complete in time.
    Timeout "timeout";
    /// The connection ended within it.
    Broken "broken";
}
