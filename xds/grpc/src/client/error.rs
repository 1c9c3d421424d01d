//! Why there is no stream, said so that the operator of a proxy knows what to do.

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;
use tonic::{Code, Status};

/// Why an address is of no controller.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidAddress {
    /// Not a URL of the right form.
    #[error("`{0}` is not the address of a controller: give https://HOST:PORT or http://HOST:PORT")]
    NotAnAddress(String),
    /// There is nothing to verify the controller by.
    #[error("`{0}` cannot be verified: give the file of its certificate authority")]
    NoAuthority(String),
}

/// Why no stream began.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConnectError {
    /// The file of the certificate authority.
    #[error("the certificate authority {} cannot be used: {why}", .path.display())]
    Authority {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// The file of the token.
    #[error("the token {} cannot be used: {why}", .path.display())]
    Token {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// No connection, or no TLS.
    #[error("the controller cannot be reached: {0}")]
    Unreachable(String),
    /// It did not answer.
    #[error("the controller did not answer within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// It answered, and served nothing.
    #[error("{0}")]
    Refused(StreamError),
}

impl ConnectError {
    pub(super) fn unreachable(error: &dyn Error) -> Self {
        let why = causes(error);
        Self::Unreachable(if why.contains("UnknownIssuer") {
            format!("{why}; its certificate is of none of the given certificate authorities")
        } else {
            why
        })
    }

    pub(super) fn of_status(status: &Status) -> Self {
        Self::Refused(StreamError::of_status(status))
    }
}

/// Why a stream ended.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StreamError {
    /// The token was not accepted.
    #[error(
        "the controller does not accept the token of this proxy: {0}; it has to be a current one of \
         the proxy's service account, for the controller as its audience"
    )]
    Unauthenticated(String),
    /// The token is not one of a proxy of this Gateway.
    #[error("the controller does not serve this proxy: {0}")]
    Forbidden(String),
    /// Anything else.
    #[error("the xDS stream ended: {0}")]
    Ended(String),
}

impl StreamError {
    pub(super) fn of_status(status: &Status) -> Self {
        match status.code() {
            Code::Unauthenticated => Self::Unauthenticated(status.message().to_owned()),
            Code::PermissionDenied => Self::Forbidden(status.message().to_owned()),
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

/// An error with those behind it. What tonic says itself is often only "transport error".
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
