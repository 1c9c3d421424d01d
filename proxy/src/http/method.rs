//! Methods that are always rejected.

/// Whether a method is CONNECT or TRACE (RFC 9110 sections 9.3.6 and 9.3.8), which are rejected in
/// both protocols. Methods are case-sensitive, but an origin that ignores case would open a tunnel
/// for `connect` and echo the request's credentials for `Trace`, so these are rejected too.
#[must_use]
pub fn is_refused(method: &[u8]) -> bool {
    method.eq_ignore_ascii_case(b"CONNECT") || method.eq_ignore_ascii_case(b"TRACE")
}

#[cfg(test)]
mod tests {
    use super::is_refused;

    #[test]
    fn connect_and_trace_are_refused_in_any_case() {
        for method in ["CONNECT", "connect", "ConnecT", "TRACE", "trace", "Trace"] {
            assert!(is_refused(method.as_bytes()), "{method}");
        }
        for method in ["GET", "get", "CONNECTED", "TRAC", "TRACES", "OPTIONS", ""] {
            assert!(!is_refused(method.as_bytes()), "{method}");
        }
    }
}
