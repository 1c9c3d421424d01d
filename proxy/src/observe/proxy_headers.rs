//! Why connections of a shard were closed over their PROXY protocol header.

use super::causes::causes;

causes! {
    /// Why a connection was closed over its PROXY protocol header.
    ProxyHeaderFailure;
    /// One is required, and does not come.
    Missing "missing";
    /// It is none that could be read.
    Malformed "malformed";
    /// One is required, and this peer's is not believed.
    Untrusted "untrusted";
    /// It took too long.
    Timeout "timeout";
    /// The connection ended within it.
    Broken "broken";
}
