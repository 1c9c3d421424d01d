//! One fetch of a JWKS: a GET with limits on size and time, without redirects.

use std::io;
use std::pin::pin;
use std::time::Duration;

use http::header::{ACCEPT, CACHE_CONTROL, CONNECTION, HOST, USER_AGENT};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use thiserror::Error;

use super::origin::{Origin, Tls};
use crate::config::Address;
use crate::config::dns::Resolver;
use crate::config::socket::{self, Socket};
use crate::limits::{JWKS_BYTES, JWKS_TIMEOUT};

/// The result of a fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fetched {
    pub(super) body: Vec<u8>,
    /// How long it is fresh, if the response contains that.
    pub(super) max_age: Option<Duration>,
}

/// Why a key set could not be fetched.
#[derive(Debug, Error)]
pub(super) enum FetchError {
    /// The location cannot be resolved to a server.
    #[error("{0}")]
    Unresolvable(String),
    #[error("cannot connect to {address}: {error}")]
    Connect { address: String, error: io::Error },
    /// The response is not HTTP, or too large.
    #[error("invalid response: {0}")]
    Answer(Box<dyn std::error::Error + Send + Sync>),
    /// Includes redirects: an attacker who could inject one would choose the keys.
    #[error("the response has status {0} instead of 200; redirects are not followed")]
    Status(StatusCode),
    #[error("the fetch panicked; please report it: {0}")]
    Panicked(String),
    /// The whole response did not arrive within `JWKS_TIMEOUT`.
    #[error("no complete response within {} seconds", JWKS_TIMEOUT.as_secs())]
    Late,
}

/// Fetches a JWKS.
///
/// # Errors
/// The fetch failed; the error says why.
pub(super) async fn fetch(origin: Origin, resolver: Resolver) -> Result<Fetched, FetchError> {
    let fetched = tokio::time::timeout(JWKS_TIMEOUT, fetch_from(&origin, &resolver));
    fetched.await.unwrap_or(Err(FetchError::Late))
}

/// Sends the request to the first address that accepts a connection.
async fn fetch_from(origin: &Origin, resolver: &Resolver) -> Result<Fetched, FetchError> {
    let mut last = FetchError::Unresolvable("it has no endpoint address".to_owned());
    for address in origin.addresses(resolver).await? {
        match connect(&address, origin.tls.as_ref()).await {
            Ok(socket) => return send_request(origin, socket).await,
            Err(error) => {
                let address = address.to_string();
                last = FetchError::Connect { address, error };
            }
        }
    }
    Err(last)
}

async fn connect(address: &Address, tls: Option<&Tls>) -> io::Result<Box<dyn Socket>> {
    let opened = socket::open(address).await?;
    match tls {
        Some(tls) => socket::secure(opened, &tls.config, &tls.server_name).await,
        None => Ok(opened),
    }
}

async fn send_request(origin: &Origin, socket: Box<dyn Socket>) -> Result<Fetched, FetchError> {
    let broken = |error: hyper::Error| FetchError::Answer(error.into());
    let (mut sender, connection) = http1::handshake(TokioIo::new(socket))
        .await
        .map_err(broken)?;
    let request = Request::get(&origin.path)
        .header(HOST, &origin.host)
        .header(USER_AGENT, "gateway")
        .header(ACCEPT, "application/json")
        .header(CONNECTION, "close")
        .body(Empty::<Bytes>::new())
        .map_err(|error| FetchError::Answer(error.into()))?;
    let mut answer = pin!(async move {
        let response = sender.send_request(request).await.map_err(broken)?;
        if response.status() != StatusCode::OK {
            return Err(FetchError::Status(response.status()));
        }
        let max_age = max_age(response.headers());
        let body = Limited::new(response.into_body(), JWKS_BYTES).collect();
        let body = body.await.map_err(FetchError::Answer)?.to_bytes().to_vec();
        Ok(Fetched { body, max_age })
    });
    let mut connection = pin!(connection);
    let mut is_open = true;
    loop {
        tokio::select! {
            answer = &mut answer => return answer,
            // An error shows in the response.
            _ = &mut connection, if is_open => is_open = false,
        }
    }
}

/// `max-age` of Cache-Control (RFC 9111 section 5.2.2); `None` if the response must not be cached.
fn max_age(headers: &HeaderMap) -> Option<Duration> {
    let values = headers.get_all(CACHE_CONTROL).into_iter();
    let values = values.filter_map(|value| value.to_str().ok());
    let mut max_age = None;
    for directive in values.flat_map(|value| value.split(',')) {
        let (name, argument) = directive.split_once('=').unwrap_or((directive, ""));
        match name.trim().to_ascii_lowercase().as_str() {
            "no-store" | "no-cache" => return Some(Duration::ZERO),
            "max-age" => {
                let seconds = argument.trim().trim_matches('"').parse();
                max_age = max_age.or(seconds.ok().map(Duration::from_secs));
            }
            _ => {}
        }
    }
    max_age
}

#[cfg(test)]
mod tests;
