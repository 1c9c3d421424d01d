//! Endpoints that were chosen by hash.

use crate::names::causes;

causes! {
    /// Which endpoint a request, connection or datagram went to, where they are spread by hash.
    HashResult;
    /// That of its key.
    Own "own";
    /// Another one: that of its key is ejected, full or was tried.
    Next "next";
    /// Any one: it has none of the keys.
    NoKey "no_key";
}
