//! Why connections of a shard were closed over their PROXY protocol header.

use crate::names::causes;

causes! {
    /// Why a connection was closed over its PROXY protocol header.
    ProxyHeaderFailure;
    /// One is required, and does not come.
    Missing "missing";
    /// It is none that could be read.
    Malformed "malformed";
    /// It comes from a peer whose header is not believed, or is required of one.
    Untrusted "untrusted";
    /// It took too long.
    Timeout "timeout";
    /// The connection ended within it.
    Broken "broken";
}
