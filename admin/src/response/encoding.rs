//! Content encoding of responses.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use http::HeaderMap;

/// The content encoding of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Encoding {
    Identity,
    Gzip,
}

impl Encoding {
    /// The encoding for a request's `Accept-Encoding` (RFC 9110 section 12.5.3).
    pub(crate) fn negotiate(headers: &HeaderMap) -> Self {
        let lists = headers.get_all(http::header::ACCEPT_ENCODING).iter();
        let lists = lists.filter_map(|list| list.to_str().ok());
        let mut codings = lists.flat_map(|list| list.split(','));
        if codings.any(accepts_gzip) {
            Self::Gzip
        } else {
            Self::Identity
        }
    }

    /// Encodes a complete body.
    pub(crate) fn encode(self, bytes: Vec<u8>) -> Vec<u8> {
        match self {
            Self::Identity => bytes,
            Self::Gzip => {
                let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
                let written = gzip.write_all(&bytes).and_then(|()| gzip.finish());
                written.expect("writing to memory is infallible")
            }
        }
    }
}

fn accepts_gzip(coding: &str) -> bool {
    let mut parts = coding.split(';').map(str::trim);
    let is_gzip = parts
        .next()
        .is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
    let quality = parts.find_map(|part| part.strip_prefix("q="));
    is_gzip && quality.is_none_or(|q| q.parse::<f32>().is_ok_and(|q| q > 0.0))
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::Encoding;

    #[test]
    fn gzip_is_used_where_the_client_accepts_it() {
        for (accept, encoding) in [
            ("gzip", Encoding::Gzip),
            ("br, GZIP;q=0.5", Encoding::Gzip),
            ("gzip;q=0", Encoding::Identity),
            ("identity", Encoding::Identity),
            ("", Encoding::Identity),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("accept-encoding", accept.parse().expect("a value"));
            assert_eq!(Encoding::negotiate(&headers), encoding, "{accept}");
        }
    }
}
