//! Failures of requests, and the table of their consequences.
//!
//! Every phase of a request ends in a response or in a `Failure`. The table maps its kind to the
//! HTTP and gRPC status, the reason in logs, metrics and traces, the blame, what happens to the
//! client's connection, and whether a retry can help.

use std::fmt;

use crate::http::h1::{FramingError, HeadError, RequestError, ResponseError};
use crate::names::Cause;

/// Why a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// The kind of failure: a row of the table.
    pub kind: FailureKind,
    /// The check or call that failed, for log and trace; never sent to the client. May be empty.
    pub detail: &'static str,
    /// Whether it is that of another request's attempt to connect, which had less time than this request
    /// allows. It does not count against the endpoint.
    pub is_inherited: bool,
}

impl Failure {
    /// A failure with the check or call that found it.
    #[must_use]
    pub const fn because(kind: FailureKind, detail: &'static str) -> Self {
        Self {
            kind,
            detail,
            is_inherited: false,
        }
    }
}

impl Cause for FailureKind {
    const EVERY: &'static [Self] = Self::ALL;

    fn index(self) -> usize {
        self as usize
    }

    fn name(self) -> &'static str {
        self.reason()
    }
}

impl From<FailureKind> for Failure {
    fn from(kind: FailureKind) -> Self {
        Self::because(kind, "")
    }
}

impl From<RequestError> for Failure {
    fn from(error: RequestError) -> Self {
        let kind = match error {
            RequestError::Head(HeadError::LineTooLong) => FailureKind::TargetTooLong,
            RequestError::Head(HeadError::HeadTooLarge | HeadError::TooManyFields) => {
                FailureKind::HeadTooLarge
            }
            RequestError::Head(HeadError::Framing(FramingError::UnknownCoding)) => {
                FailureKind::CodingUnknown
            }
            RequestError::Method => FailureKind::MethodUnknown,
            RequestError::Version => FailureKind::VersionUnknown,
            RequestError::Expectation => FailureKind::ExpectRefused,
            RequestError::Head(_) | RequestError::Target | RequestError::Host => {
                FailureKind::MalformedHead
            }
        };
        Self::because(kind, error.reason())
    }
}

impl From<ResponseError> for Failure {
    fn from(error: ResponseError) -> Self {
        Self::because(FailureKind::UpstreamGarbage, error.reason())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.reason())?;
        if self.detail.is_empty() {
            return Ok(());
        }
        write!(f, ": {}", self.detail)
    }
}

impl std::error::Error for Failure {}

/// Which side caused a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Blame {
    /// The client: malformed, oversized or refused input, or a disconnect.
    Client,
    /// The endpoint; counts against its health.
    Upstream,
    /// The gateway: its configuration or state.
    Internal,
}

/// What happens to the client's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConnectionAction {
    /// It is kept alive, once the request body is read or was short.
    Keep,
    /// It closes after the response, lingering.
    Close,
    /// It (or the stream) is reset: no response is possible any more.
    Reset,
}

/// Whether a retry can help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Retry {
    /// No: the result would be the same, or a response has begun.
    Never,
    /// Yes: no endpoint processed the request, so it is safe for any method.
    Safe,
    /// If the route has a retry policy: an endpoint may have processed the request.
    Policy,
}

/// A gRPC status code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum GrpcStatus {
    /// Code 1: the client cancelled the call.
    Cancelled = 1,
    /// Code 2: something else.
    Unknown = 2,
    /// Code 4: a timeout expired.
    DeadlineExceeded = 4,
    /// Code 7: the caller is known but not authorized.
    PermissionDenied = 7,
    /// Code 8: a limit or quota is exhausted.
    ResourceExhausted = 8,
    /// Code 12: no route matches the method.
    Unimplemented = 12,
    /// Code 13: a malformed message, or a fault of the gateway.
    Internal = 13,
    /// Code 14: retrying later can succeed.
    Unavailable = 14,
    /// Code 16: valid credentials are missing.
    Unauthenticated = 16,
}

/// A row of the table.
struct Row {
    status: u16,
    grpc: GrpcStatus,
    reason: &'static str,
    blame: Blame,
    then: ConnectionAction,
    retry: Retry,
    text: &'static str,
}

macro_rules! failures {
    ($($kind:ident $status:literal $grpc:ident $blame:ident $then:ident $retry:ident
       $reason:literal $text:literal;)*) => {
        /// The kinds of failures.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum FailureKind {
            $(
                #[doc = concat!("`", $reason, "`, ", $status, ": ", $text, ".")]
                $kind,
            )*
        }

        impl FailureKind {
            /// Every kind, in the order of the table, which metrics are indexed by.
            pub const ALL: &'static [Self] = &[$(Self::$kind),*];
        }

        const TABLE: &[Row] = &[$(Row {
            status: $status,
            grpc: GrpcStatus::$grpc,
            reason: $reason,
            blame: Blame::$blame,
            then: ConnectionAction::$then,
            retry: Retry::$retry,
            text: concat!($text, "\n"),
        }),*];
    };
}

failures! {
    // The request itself. After a parse error nothing else is trustworthy, so all of these close.
    MalformedHead     400 Internal Client Close Never "malformed_head" "the request's head is malformed";
    MalformedBody     400 Internal Client Close Never "malformed_body" "the request's body is malformed";
    BadPath           400 Internal Client Close Never "bad_path" "the request's path is malformed";
    HeadTimeout       408 DeadlineExceeded Client Close Never "head_timeout" "timed out waiting for the request's head";
    BodyTimeout       408 DeadlineExceeded Client Close Never "body_timeout" "timed out waiting for the request's body";
    BodyTooLarge      413 ResourceExhausted Client Close Never "body_too_large" "the request's body is too large";
    TargetTooLong     414 ResourceExhausted Client Close Never "target_too_long" "the request's target is too long";
    ExpectRefused     417 Unimplemented Client Close Never "expect_refused" "only `Expect: 100-continue` is supported";
    HeadTooLarge      431 ResourceExhausted Client Close Never "head_too_large" "the request's head is too large";
    CodingUnknown     501 Unimplemented Client Close Never "coding_unknown" "the transfer coding is not supported";
    MethodUnknown     501 Unimplemented Client Close Never "method_unknown" "the method is not supported";
    VersionUnknown    505 Unimplemented Client Close Never "version_unknown" "the HTTP version is not supported";
    ClientGone        499 Cancelled Client Reset Never "client_gone" "the client closed the connection";
    ClientStalled     499 Cancelled Client Reset Never "client_stalled" "the client stopped reading";

    // Byte-proxied connections; never answered.
    BadHello          400 Internal Client Close Never "bad_hello" "the connection does not begin with a TLS ClientHello";
    UntrustedHeader   400 Internal Client Reset Never "untrusted_header" "the PROXY protocol header came from an untrusted peer";
    HelloTimeout      408 DeadlineExceeded Client Reset Never "hello_timeout" "timed out waiting for the TLS ClientHello";
    StreamIdle        408 DeadlineExceeded Client Reset Never "stream_idle" "idle timeout";
    Drained           503 Unavailable Internal Reset Never "drained" "the gateway is shutting down";

    // Datagrams, which are dropped, and UDP sessions.
    DatagramCut       413 ResourceExhausted Client Reset Never "datagram_cut" "a datagram is too large";
    SessionsFull      429 Unavailable Internal Reset Never "sessions_full" "too many UDP sessions";

    // Routing.
    NoListener        404 Unimplemented Client Keep Never "no_listener" "no listener serves this host";
    Misdirected       421 Unavailable Client Keep Never "misdirected" "this connection is for another host";
    OutdatedConnection 421 Unavailable Client Close Never "outdated_connection" "the listener's TLS settings have changed since this connection was opened";
    NoRoute           404 Unimplemented Client Keep Never "no_route" "no route matches this request";
    MatchTooCostly    500 Internal Internal Keep Never "match_too_costly" "comparing this request with the routes takes too much work";
    BadRewrite        500 Internal Internal Keep Never "bad_rewrite" "the path of this request cannot be rewritten";
    NoWebSocket       501 Unimplemented Client Keep Never "no_websocket" "no WebSocket can be opened here";
    InvalidRule       500 Internal Internal Keep Never "invalid_rule" "the rule of this route is invalid";
    NoValidBackend    500 Internal Internal Keep Never "no_valid_backend" "the route has no valid backend";

    // Answers of policies. Their own status, fields and body are sent.
    Responded         503 Unavailable Internal Keep Never "respond" "the gateway answers this itself";

    // Authentication and authorization. The client does not learn which check failed.
    AmbiguousToken    400 Internal Client Keep Never "ambiguous_token" "the request has more than one token";
    NoToken           401 Unauthenticated Client Keep Never "no_token" "a token is needed";
    Unauthenticated   401 Unauthenticated Client Keep Never "unauthenticated" "a valid token is required";
    AmbiguousCredentials 400 Internal Client Keep Never "ambiguous_credentials" "the request has more than one credential of a kind";
    NoCredentials     401 Unauthenticated Client Keep Never "no_credentials" "credentials are needed";
    WrongCredentials  401 Unauthenticated Client Keep Never "wrong_credentials" "valid credentials are required";
    CredentialsMissing 503 Unavailable Internal Keep Never "credentials_missing" "credentials cannot be checked at the moment";
    PolicyInvalid     503 Unavailable Internal Keep Never "policy_invalid" "a policy that protects this is invalid";
    RateLimited       429 ResourceExhausted Client Keep Never "rate_limited" "too many requests";
    Forbidden         403 PermissionDenied Client Keep Never "forbidden" "this request is not allowed";
    ListMissing       503 Unavailable Internal Keep Never "list_missing" "a list that protects this is missing";
    NoTokenKeys       503 Unavailable Internal Keep Never "no_token_keys" "tokens cannot be verified at the moment";

    // Endpoint pickers of inference pools.
    PickerFailed      503 Unavailable Internal Keep Never "picker_failed" "the endpoint picker of the inference pool failed";
    // Authorization servers. Their own response is sent if they deny the request.
    ExternalAuthDenied 403 PermissionDenied Client Keep Never "external_auth_denied" "access denied";
    ExternalAuthFailed 403 PermissionDenied Internal Keep Never "external_auth_failed" "external authorization failed";

    // Endpoints and connections to them. A failed connection is always 503, never 502: the client
    // may retry.
    NoEndpoint        503 Unavailable Upstream Keep Never "no_endpoint" "no healthy endpoint";
    ConnectFailed     503 Unavailable Upstream Keep Safe "connect_failed" "the connection to the upstream failed";
    ConnectTimeout    503 Unavailable Upstream Keep Safe "connect_timeout" "the connection to the upstream timed out";
    UpstreamTls       503 Unavailable Upstream Keep Safe "upstream_tls" "the TLS handshake with the upstream failed";
    UpstreamTlsUnset  503 Unavailable Internal Keep Never "upstream_tls_unset" "the upstream's TLS settings are invalid";
    UpstreamRefused   503 Unavailable Upstream Keep Safe "upstream_refused" "the upstream refused the stream without processing it";
    RetriesOverBudget 503 Unavailable Internal Keep Never "retries_over_budget" "the upstream failed, and its retry budget is exhausted";
    UpstreamFull      503 Unavailable Internal Keep Never "upstream_full" "too many requests are waiting for the upstream";

    // The exchange with an endpoint, before the response head.
    UpstreamReset     502 Unavailable Upstream Keep Policy "upstream_reset" "the upstream reset the connection";
    UpstreamClosed    502 Unavailable Upstream Keep Policy "upstream_closed" "the upstream closed the connection";
    UpstreamGarbage   502 Unavailable Upstream Keep Never "upstream_garbage" "the upstream's response is malformed";
    UpstreamTimeout   504 DeadlineExceeded Upstream Keep Policy "upstream_timeout" "the upstream timed out";
    RequestTimeout    504 DeadlineExceeded Upstream Keep Never "request_timeout" "the request timed out";

    // After the response head, when the status is already sent.
    ResponseBroken    502 Unavailable Upstream Reset Never "response_broken" "the upstream reset the connection during the response";
    ResponseTimeout   504 DeadlineExceeded Upstream Reset Never "response_timeout" "the upstream stalled during the response";

    // The gateway itself.
    Overloaded        503 Unavailable Internal Keep Never "overloaded" "the gateway is overloaded";
}

impl FailureKind {
    /// Status of the response to HTTP clients, and in the log (499 is never sent).
    #[must_use]
    pub fn status(self) -> u16 {
        self.row().status
    }

    /// Status of the trailers-only response to gRPC clients.
    #[must_use]
    pub fn grpc_status(self) -> GrpcStatus {
        self.row().grpc
    }

    /// Its name in logs, metrics and traces.
    #[must_use]
    pub fn reason(self) -> &'static str {
        self.row().reason
    }

    /// Which side caused it.
    #[must_use]
    pub fn blame(self) -> Blame {
        self.row().blame
    }

    /// What happens to the client's connection.
    #[must_use]
    pub fn connection_action(self) -> ConnectionAction {
        self.row().then
    }

    /// Whether a retry can help.
    #[must_use]
    pub fn retry(self) -> Retry {
        self.row().retry
    }

    /// Body of the response, `text/plain`, one line.
    #[must_use]
    pub fn text(self) -> &'static str {
        self.row().text
    }

    /// Whether the response has `Retry-After`.
    #[must_use]
    pub fn retry_after(self) -> bool {
        let later = [
            Self::UpstreamFull,
            Self::Overloaded,
            Self::NoTokenKeys,
            Self::CredentialsMissing,
        ];
        later.contains(&self)
    }

    fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{Blame, ConnectionAction, Failure, FailureKind, GrpcStatus, Retry};

    #[test]
    fn reasons_are_unique_snake_case() {
        let mut seen = HashSet::new();
        for kind in FailureKind::ALL {
            let reason = kind.reason();
            assert!(seen.insert(reason), "{reason} twice");
            assert!(
                reason.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'),
                "{reason}"
            );
        }
    }

    #[test]
    fn response_texts_are_one_line() {
        for kind in FailureKind::ALL {
            let text = kind.text();
            assert_eq!(text.find('\n'), Some(text.len() - 1), "{text:?}");
        }
    }

    #[test]
    fn grpc_statuses_correspond_to_http_statuses() {
        for kind in FailureKind::ALL {
            let expected = match kind.status() {
                // A client's own limit, which it can tell from an overloaded service.
                _ if matches!(kind, FailureKind::RateLimited) => GrpcStatus::ResourceExhausted,
                400 | 500 => GrpcStatus::Internal,
                401 => GrpcStatus::Unauthenticated,
                403 => GrpcStatus::PermissionDenied,
                404 => GrpcStatus::Unimplemented,
                429 | 502 | 503 => GrpcStatus::Unavailable,
                504 => GrpcStatus::DeadlineExceeded,
                _ => continue,
            };
            assert_eq!(kind.grpc_status(), expected, "{kind:?}");
        }
    }

    #[test]
    fn retryable_failures_are_connection_errors_or_upstream_faults() {
        for kind in FailureKind::ALL {
            match kind.retry() {
                Retry::Never => {}
                Retry::Safe => assert_eq!(kind.status(), 503, "{kind:?}"),
                Retry::Policy => assert_eq!(kind.blame(), Blame::Upstream, "{kind:?}"),
            }
        }
    }

    #[test]
    fn nothing_is_sent_to_a_disconnected_client() {
        assert_eq!(
            FailureKind::ClientGone.connection_action(),
            ConnectionAction::Reset
        );
        assert_eq!(FailureKind::ClientGone.status(), 499);
    }

    #[test]
    fn a_failure_is_displayed_as_reason_and_detail() {
        let failure = Failure::because(FailureKind::MalformedHead, "two Host fields");
        assert_eq!(failure.to_string(), "malformed_head: two Host fields");
        assert_eq!(Failure::from(FailureKind::NoRoute).to_string(), "no_route");
    }
}
