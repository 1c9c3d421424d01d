//! TLS handshakes of a shard's clients.

use super::causes::ByCause;
use super::counters::Counter;
use crate::names::causes;
use crate::tls::session::Fault;

/// Results of client TLS handshakes, and of the sessions after them.
#[derive(Debug, Default)]
pub struct Handshakes {
    /// Full handshakes, which verify or sign with a private key.
    pub full: Counter,
    /// Handshakes that resumed a session with a ticket.
    pub resumed: Counter,
    /// Failed handshakes, by reason.
    pub failed: ByCause<HandshakeFailure>,
    /// Sessions that ended with an error after their handshake.
    pub broken: ByCause<Fault>,
}

causes! {
    /// Why a handshake failed.
    HandshakeFailure;
    /// The client does not speak TLS.
    NotTls "not_tls";
    /// Its first message is malformed.
    Malformed "malformed";
    /// No listener matches the server name.
    NoListener "no_listener";
    /// The listener's TLS settings are invalid.
    NotSetUp "not_set_up";
    /// The client and the listener have no TLS version in common.
    NoVersion "no_version";
    /// They have no ALPN protocol in common.
    NoProtocol "no_protocol";
    /// The client sent no certificate although one is required.
    CertificateMissing "certificate_missing";
    /// The client's certificate is not valid at this time.
    CertificateExpired "certificate_expired";
    /// The client's certificate is not signed by a trusted CA.
    CertificateUntrusted "certificate_untrusted";
    /// The client's certificate is invalid in another way.
    CertificateBad "certificate_bad";
    /// The client rejects the listener's certificate.
    Distrusted "distrusted";
    /// One side rejected the other for another reason.
    Refused "refused";
    /// It was not complete within the TLS handshake timeout.
    Timeout "timeout";
    Broken "broken";
}
