//! How the TLS of a shard's clients went.

use super::counters::Counter;
use crate::tls::session::Fault;

/// How TLS handshakes of clients ended, and what came after them.
#[derive(Debug, Default)]
pub struct Handshakes {
    /// Those that proved everything anew.
    pub full: Counter,
    /// Those that took up an earlier session.
    pub resumed: Counter,
    failed: [Counter; HandshakeFailure::ALL.len()],
    broken: [Counter; Fault::ALL.len()],
}

/// Why a handshake came to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandshakeFailure {
    /// The client does not speak TLS.
    NotTls,
    /// Its first message is malformed.
    Malformed,
    /// No listener has the name that it wants.
    NoListener,
    /// The listener's own TLS cannot be set up.
    NotSetUp,
    /// One side found the other unacceptable.
    Refused,
    /// It took too long.
    Timeout,
    /// The connection ended.
    Broken,
}

impl HandshakeFailure {
    /// Every cause.
    pub const ALL: [Self; 7] = [
        Self::NotTls,
        Self::Malformed,
        Self::NoListener,
        Self::NotSetUp,
        Self::Refused,
        Self::Timeout,
        Self::Broken,
    ];

    /// Its name in metrics.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotTls => "not_tls",
            Self::Malformed => "malformed",
            Self::NoListener => "no_listener",
            Self::NotSetUp => "not_set_up",
            Self::Refused => "refused",
            Self::Timeout => "timeout",
            Self::Broken => "broken",
        }
    }
}

impl Handshakes {
    /// Counts one that failed.
    pub fn count_failure(&self, why: HandshakeFailure) {
        if let Some(counter) = self.failed.get(why as usize) {
            counter.increment();
        }
    }

    /// How many failed for this cause.
    #[must_use]
    pub fn failures(&self, why: HandshakeFailure) -> u64 {
        self.failed.get(why as usize).map_or(0, Counter::value)
    }

    /// Counts a session that was ended by an error after its handshake.
    pub fn count_fault(&self, fault: Fault) {
        if let Some(counter) = self.broken.get(fault as usize) {
            counter.increment();
        }
    }

    /// How many were ended by such an error.
    #[must_use]
    pub fn faults(&self, fault: Fault) -> u64 {
        self.broken.get(fault as usize).map_or(0, Counter::value)
    }
}

#[cfg(test)]
mod tests {
    use super::{HandshakeFailure, Handshakes};

    #[test]
    fn each_cause_has_its_own_counter() {
        let handshakes = Handshakes::default();
        for (times, why) in (1..).zip(HandshakeFailure::ALL) {
            for _ in 0..times {
                handshakes.count_failure(why);
            }
        }
        for (times, why) in (1..).zip(HandshakeFailure::ALL) {
            assert_eq!(handshakes.failures(why), times, "{}", why.reason());
        }
    }
}
