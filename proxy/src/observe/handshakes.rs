//! How the TLS of a shard's clients went.

use super::causes::ByCause;
use super::counters::Counter;
use crate::names::causes;
use crate::tls::session::Fault;

/// How TLS handshakes of clients ended, and what came after them.
#[derive(Debug, Default)]
pub struct Handshakes {
    /// Those that proved everything anew.
    pub full: Counter,
    /// Those that took up an earlier session.
    pub resumed: Counter,
    /// Those that came to nothing.
    pub failed: ByCause<HandshakeFailure>,
    /// Sessions that were ended by an error after their handshake.
    pub broken: ByCause<Fault>,
}

causes! {
    /// Why a handshake came to nothing.
    HandshakeFailure;
    /// The client does not speak TLS.
    NotTls "not_tls";
    /// Its first message is malformed.
    Malformed "malformed";
    /// No listener has the name that it wants.
    NoListener "no_listener";
    /// The listener's own TLS cannot be set up.
    NotSetUp "not_set_up";
    /// The client and the listener have no version of TLS in common.
    NoVersion "no_version";
    /// They have no protocol in common, of those that the client offers (ALPN).
    NoProtocol "no_protocol";
    /// The client shows no certificate where one is required.
    CertificateMissing "certificate_missing";
    /// The client's certificate is not valid at this time.
    CertificateExpired "certificate_expired";
    /// Nobody whom the listener trusts vouches for the client's certificate.
    CertificateUntrusted "certificate_untrusted";
    /// The client's certificate has something else that is not acceptable.
    CertificateBad "certificate_bad";
    /// The client does not accept the listener's certificate.
    Distrusted "distrusted";
    /// One side found the other unacceptable for another reason.
    Refused "refused";
    /// It took too long.
    Timeout "timeout";
    /// The connection ended.
    Broken "broken";
}
