//! Connection errors, phrased so that the operator of a proxy knows what to do.

use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;
use tonic::{Code, Status};

/// An invalid controller address.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidAddress {
    /// Not an `http://` or `https://` URL without a path.
    #[error("`{0}` is not the address of a controller: use https://HOST:PORT or http://HOST:PORT")]
    NotAnAddress(String),
    /// An `https://` URL without a certificate authority to verify the controller with.
    #[error("`{0}` cannot be verified: specify the file of its certificate authority by --xds-ca")]
    NoAuthority(String),
}

/// Why a stream could not be opened.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConnectError {
    /// The file of the certificate authority is unusable.
    #[error("--xds-ca: the certificate authority {} cannot be used: {why}", .path.display())]
    Authority {
        /// The file, as configured.
        path: PathBuf,
        /// The reason, as part of a sentence.
        why: String,
    },
    /// The token file is unusable.
    #[error("--xds-token: the token {} cannot be used: {why}", .path.display())]
    Token {
        /// The file, as configured.
        path: PathBuf,
        /// The reason, as part of a sentence.
        why: String,
    },
    /// Nothing listens at the controller's address.
    #[error("the controller cannot be reached: {0}")]
    NotListening(String),
    /// Connecting otherwise, or the TLS handshake, failed.
    #[error("the controller cannot be reached: {0}")]
    Unreachable(String),
    /// No response within this time.
    #[error("no response from the controller within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// The controller rejected the stream.
    #[error("{0}")]
    Refused(StreamError),
}

impl ConnectError {
    pub(super) fn unreachable(error: &(dyn Error + 'static)) -> Self {
        let why = causes(error);
        if is_connection_refused(error) {
            return Self::NotListening(why);
        }
        Self::Unreachable(if why.contains("UnknownIssuer") {
            format!(
                "{why}; its certificate is not signed by any of the configured certificate authorities"
            )
        } else {
            why
        })
    }

    pub(super) fn of_status(status: &Status) -> Self {
        Self::Refused(StreamError::of_status(status))
    }
}

fn is_connection_refused(error: &(dyn Error + 'static)) -> bool {
    let is_refusal = |cause: &io::Error| cause.kind() == io::ErrorKind::ConnectionRefused;
    error.downcast_ref().is_some_and(is_refusal)
        || error.source().is_some_and(is_connection_refused)
}

/// Why a stream ended.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StreamError {
    /// `UNAUTHENTICATED`: the token was rejected.
    #[error(
        "the controller rejects the token of this proxy: {0}; it must be a current token of \
         the proxy's service account, for the controller as its audience"
    )]
    Unauthenticated(String),
    /// `PERMISSION_DENIED`: the token belongs to no proxy of this Gateway.
    #[error("the controller does not serve this proxy: {0}")]
    Forbidden(String),
    /// `OUT_OF_RANGE`: the first request exceeds what the controller accepts.
    #[error(
        "the controller does not accept what this proxy reports of its configuration: {0}; remove \
         routes or listeners of its Gateway, then restart the proxy"
    )]
    TooLarge(String),
    /// Any other gRPC status or connection error.
    #[error("the xDS stream ended: {0}")]
    Ended(String),
}

impl StreamError {
    pub(super) fn of_status(status: &Status) -> Self {
        match status.code() {
            Code::Unauthenticated => Self::Unauthenticated(status.message().to_owned()),
            Code::PermissionDenied => Self::Forbidden(status.message().to_owned()),
            Code::OutOfRange => Self::TooLarge(status.message().to_owned()),
            code => {
                let text = match status.message() {
                    "" => code.description(),
                    message => message,
                };
                let mut text = text.to_owned();
                add(&mut text, status.source());
                Self::Ended(text)
            }
        }
    }
}

/// An error with its sources: tonic's own text is often only "transport error".
fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    add(&mut text, error.source());
    text
}

fn add(text: &mut String, mut next: Option<&dyn Error>) {
    while let Some(cause) = next {
        let said = cause.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        next = cause.source();
    }
}
