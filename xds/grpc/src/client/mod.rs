//! The proxy's side: connects to a controller and carries the requests and responses of
//! [`xds::delta::Client`]. Reconnecting and applying the configuration are left to the proxy.
//!
//! The files of the certificate authority and the token are read again for each connection, because
//! both are rotated while a proxy runs.

mod error;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Uri};
use tonic::{Request, Streaming};
use xds::delta::{Report, Symptom};
use xds::discovery::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};

pub use self::error::{ConnectError, InvalidAddress, StreamError};
use crate::{METHOD, Prost, ZONE_HEADER};

/// The address of a controller and how to authenticate to it.
#[derive(Debug, Clone)]
pub struct Controller {
    address: Uri,
    ca: Option<PathBuf>,
    token: Option<PathBuf>,
}

impl Controller {
    /// The controller at an `http://` or `https://` URL. `ca` is a file of PEM CA certificates to
    /// verify it with, required for `https`; `token` is a file with a bearer token.
    ///
    /// # Errors
    ///
    /// The address is not such a URL, or has no CA to verify it with.
    pub fn new(
        address: &str,
        ca: Option<PathBuf>,
        token: Option<PathBuf>,
    ) -> Result<Self, InvalidAddress> {
        let invalid = || InvalidAddress::NotAnAddress(address.to_owned());
        let uri: Uri = address.parse().map_err(|_| invalid())?;
        let names_nothing_else = matches!(uri.path(), "" | "/") && uri.query().is_none();
        match uri.scheme_str() {
            Some("http" | "https") if names_nothing_else && uri.host().is_some() => {}
            _ => return Err(invalid()),
        }
        let controller = Self {
            address: uri,
            ca,
            token,
        };
        if controller.is_secure() && controller.ca.is_none() {
            return Err(InvalidAddress::NoAuthority(address.to_owned()));
        }
        Ok(controller)
    }

    /// Connects and opens a stream. Its first requests depend on what the controller understands
    /// ([`Stream::report`]).
    ///
    /// # Errors
    ///
    /// A file is unusable, or the controller is unreachable, fails verification or rejects the
    /// proxy.
    pub async fn connect(&self) -> Result<Stream, ConnectError> {
        let token = self.token.as_deref().map(read_token).transpose()?;
        let endpoint = self.endpoint()?;
        let begun = async {
            let channel = endpoint.connect().await;
            let channel = channel.map_err(|error| ConnectError::unreachable(&error))?;
            begin(channel, token).await
        };
        let begun = tokio::time::timeout(CONNECT, begun).await;
        begun.unwrap_or(Err(ConnectError::TimedOut(CONNECT)))
    }

    fn is_secure(&self) -> bool {
        self.address.scheme_str() == Some("https")
    }

    fn endpoint(&self) -> Result<Endpoint, ConnectError> {
        let endpoint = Endpoint::from(self.address.clone())
            .connect_timeout(TCP_CONNECT)
            .tcp_keepalive(Some(KEEPALIVE))
            .http2_keep_alive_interval(KEEPALIVE)
            .keep_alive_timeout(KEEPALIVE_TIMEOUT)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES);
        let Some(ca) = self.ca.as_deref().filter(|_| self.is_secure()) else {
            return Ok(endpoint);
        };
        let host = self.address.host().unwrap_or_default();
        let tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(read_authorities(ca)?))
            .domain_name(host.trim_start_matches('[').trim_end_matches(']'));
        let endpoint = endpoint.tls_config(tls);
        endpoint.map_err(|error| ConnectError::unreachable(&error))
    }
}

impl fmt::Display for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.address.scheme_str().unwrap_or_default();
        // Without user information: it may contain a password.
        write!(f, "{scheme}://{}", self.address.host().unwrap_or_default())?;
        let port = self.address.port_u16();
        port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// Reads PEM certificates, at least one.
fn read_authorities(path: &Path) -> Result<Vec<u8>, ConnectError> {
    let unusable = |why: String| ConnectError::Authority {
        path: path.to_owned(),
        why,
    };
    let pem = std::fs::read(path).map_err(|error| unusable(error.to_string()))?;
    match CertificateDer::pem_slice_iter(&pem).next() {
        Some(Ok(_)) => Ok(pem),
        Some(Err(error)) => Err(unusable(format!("it is not PEM: {error}"))),
        None => Err(unusable("it has no PEM certificate".to_owned())),
    }
}

/// Reads a token, as the value of the `authorization` field.
fn read_token(path: &Path) -> Result<MetadataValue<Ascii>, ConnectError> {
    let unusable = |why: String| ConnectError::Token {
        path: path.to_owned(),
        why,
    };
    let text = std::fs::read_to_string(path).map_err(|error| unusable(error.to_string()))?;
    let token = text.trim();
    if token.is_empty() {
        return Err(unusable("it is empty".to_owned()));
    }
    let value = MetadataValue::try_from(format!("Bearer {token}"));
    let mut value = value.map_err(|_| unusable("it contains more than a token".to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}

async fn begin(
    channel: Channel,
    token: Option<MetadataValue<Ascii>>,
) -> Result<Stream, ConnectError> {
    let mut grpc = tonic::client::Grpc::new(channel).max_decoding_message_size(MAX_RESPONSE_BYTES);
    let ready = grpc.ready().await;
    ready.map_err(|error| ConnectError::unreachable(&error))?;
    let (requests, queued) = unbounded_channel();
    let mut request = Request::new(UnboundedReceiverStream::new(queued));
    if let Some(token) = token {
        request.metadata_mut().insert("authorization", token);
    }
    let method = PathAndQuery::from_static(METHOD);
    let codec = Prost::<DeltaDiscoveryRequest, DeltaDiscoveryResponse>::default();
    let response = grpc.streaming(request, method, codec).await;
    let response = response.map_err(|status| ConnectError::of_status(&status))?;
    let features = response.metadata().get(Report::HEADER);
    let features = features.and_then(|value| value.to_str().ok());
    let features = features.unwrap_or_default();
    let zone = response.metadata().get(ZONE_HEADER);
    let zone = zone.and_then(|value| value.to_str().ok());
    let zone = zone.filter(|zone| !zone.is_empty()).map(str::to_owned);
    Ok(Stream {
        zone,
        report: Report::stated(features),
        takes_symptoms: Symptom::are_taken(features),
        requests,
        responses: response.into_inner(),
    })
}

/// A stream of a controller. Dropping it closes the connection.
#[derive(Debug)]
pub struct Stream {
    zone: Option<String>,
    report: Report,
    takes_symptoms: bool,
    /// At most one request is queued for each response received, and one for each time that symptoms change.
    requests: UnboundedSender<DeltaDiscoveryRequest>,
    responses: Streaming<DeltaDiscoveryResponse>,
}

impl Stream {
    /// How to report to this controller what a proxy holds.
    #[must_use]
    pub fn report(&self) -> Report {
        self.report
    }

    /// Whether this controller takes what only a proxy sees ([`Symptom::request`]).
    #[must_use]
    pub fn takes_symptoms(&self) -> bool {
        self.takes_symptoms
    }

    /// The zone of the proxy, if the controller knows it.
    #[must_use]
    pub fn zone(&self) -> Option<&str> {
        self.zone.as_deref()
    }

    /// Waits for the next response; `None` once the controller has ended the stream. Cancel-safe.
    ///
    /// # Errors
    ///
    /// The connection failed, or the controller ended the stream with an error.
    pub async fn next(&mut self) -> Result<Option<DeltaDiscoveryResponse>, StreamError> {
        let message = self.responses.message().await;
        message.map_err(|status| StreamError::of_status(&status))
    }

    /// Sends a request. If the stream has ended, [`Stream::next`] reports it.
    pub fn send(&self, request: DeltaDiscoveryRequest) {
        let _ = self.requests.send(request);
    }
}

/// Timeout for opening a stream: connecting, the TLS handshake, and the controller's token review.
const CONNECT: Duration = Duration::from_secs(20);

/// Timeout for the TCP connection alone, whatever the controller's load. Without one, a connection to
/// a pod that has just been deleted waits until the end of [`CONNECT`], since connection tracking
/// leads its packets to that pod even after the Service has another one.
const TCP_CONNECT: Duration = Duration::from_secs(2);

/// Interval of HTTP/2 pings: connection tracking drops idle connections after minutes, and pings
/// are how a lost controller is noticed.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// Timeout for the response to a ping.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// HTTP/2 window in bytes: one part of a batch, so that none takes more than a round trip.
const WINDOW_BYTES: u32 = 2 << 20;

/// Largest response in bytes. The controller splits batches at 1 MiB, but a single resource may be
/// larger.
const MAX_RESPONSE_BYTES: usize = 64 << 20;

#[cfg(test)]
mod tests;
