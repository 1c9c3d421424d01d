//! The requests of probes, over HTTP/1.1 and HTTP/2.

use std::pin::pin;

use http::header::{CONNECTION, CONTENT_TYPE, HOST, TE, USER_AGENT};
use http::{HeaderMap, Method, Request, Response, StatusCode, Version};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::task::AbortHandle;
use xds::model::{HealthProbe, Hostname};

use super::failure::ProbeFailure;
use super::grpc;
use super::plan::{ProbeTarget, Security};
use crate::config::Protocol;
use crate::config::socket::Socket;
use crate::limits::PROBE_BODY_BYTES;

/// A connection of HTTP/2, which is closed on drop.
pub(super) struct Http2Connection {
    sender: http2::SendRequest<Full<Bytes>>,
    driver: AbortHandle,
}

impl Drop for Http2Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Http2Connection {
    async fn new(socket: Box<dyn Socket>) -> Result<Self, ProbeFailure> {
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .handshake(TokioIo::new(socket))
            .await
            .map_err(|error| broken(&error))?;
        // Its errors show in the response.
        let driver = tokio::spawn(async { drop(connection.await) }).abort_handle();
        Ok(Self { sender, driver })
    }

    /// Whether the server has not closed it.
    pub(super) fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }
}

/// Sends the request of a probe on a new connection, and reads the response. Returns the connection if the next
/// probe can use it.
pub(super) async fn ask(
    target: &ProbeTarget,
    socket: Box<dyn Socket>,
) -> Result<Option<Http2Connection>, ProbeFailure> {
    match target.protocol {
        Protocol::Http1 => ask_http1(target, socket).await.map(|()| None),
        Protocol::Http2 => {
            let mut connection = Http2Connection::new(socket).await?;
            exchange(&mut connection, target).await?;
            Ok(Some(connection))
        }
    }
}

async fn ask_http1(target: &ProbeTarget, socket: Box<dyn Socket>) -> Result<(), ProbeFailure> {
    let handshake = http1::handshake(TokioIo::new(socket)).await;
    let (mut sender, connection) = handshake.map_err(|error| broken(&error))?;
    let request = request(target)?;
    let mut answer = pin!(async move {
        let response = sender.send_request(request).await;
        examine(target, response.map_err(|error| broken(&error))?).await
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

/// Sends the request of a probe on a connection of HTTP/2, and reads the response.
pub(super) async fn exchange(
    connection: &mut Http2Connection,
    target: &ProbeTarget,
) -> Result<(), ProbeFailure> {
    let sender = &mut connection.sender;
    sender.ready().await.map_err(|error| broken(&error))?;
    let response = sender.send_request(request(target)?).await;
    examine(target, response.map_err(|error| broken(&error))?).await
}

/// The request of a probe.
fn request(target: &ProbeTarget) -> Result<Request<Full<Bytes>>, ProbeFailure> {
    let (path, host) = match &target.check.probe {
        HealthProbe::Http { path, host, .. } => (path.as_str(), host),
        HealthProbe::Grpc { host, .. } => (grpc::CHECK, host),
        HealthProbe::Tcp => ("/", &None),
    };
    let host = host.as_ref().map_or(&*target.host, Hostname::as_str);
    let builder = Request::builder().header(USER_AGENT, "gateway-health-check");
    let builder = match target.protocol {
        Protocol::Http1 => builder
            .uri(path)
            .header(HOST, host)
            .header(CONNECTION, "close"),
        Protocol::Http2 => {
            let scheme = match target.security {
                Security::Plain => "http",
                Security::Tls(..) | Security::Unusable => "https",
            };
            let uri = format!("{scheme}://{host}{path}");
            builder.uri(uri).version(Version::HTTP_2)
        }
    };
    let request = match &target.check.probe {
        HealthProbe::Grpc { service, .. } => builder
            .method(Method::POST)
            .header(CONTENT_TYPE, grpc::CONTENT_TYPE)
            .header(TE, "trailers")
            .body(grpc::request(service).into()),
        HealthProbe::Http { .. } | HealthProbe::Tcp => builder.body(Full::default()),
    };
    request.map_err(|error| ProbeFailure::Response(error.to_string()))
}

/// Whether a response is that of a healthy endpoint.
async fn examine(target: &ProbeTarget, response: Response<Incoming>) -> Result<(), ProbeFailure> {
    let status = response.status();
    match &target.check.probe {
        HealthProbe::Http { expect, .. } => {
            let is_expected = expect.iter().any(|range| range.contains(status.as_u16()));
            if !is_expected {
                return Err(ProbeFailure::Status(status.as_u16()));
            }
            // For the sake of the server alone: the status has answered.
            let _ = read(response.into_body()).await;
            Ok(())
        }
        HealthProbe::Grpc { .. } if status != StatusCode::OK => {
            Err(ProbeFailure::Status(status.as_u16()))
        }
        HealthProbe::Grpc { .. } => {
            let (head, body) = response.into_parts();
            let (body, trailers) = read(body).await?;
            let trailers = trailers.as_ref();
            // A response without a message has its status in the header fields.
            let status = trailers.and_then(grpc::status);
            grpc::examine(status.or_else(|| grpc::status(&head.headers)), &body)
        }
        HealthProbe::Tcp => Ok(()),
    }
}

/// The body and trailers of a response; of a longer one its beginning.
async fn read(mut body: Incoming) -> Result<(Vec<u8>, Option<HeaderMap>), ProbeFailure> {
    let mut content = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| broken(&error))?;
        match frame.into_data() {
            Ok(data) => content.extend_from_slice(&data),
            Err(frame) => return Ok((content, frame.into_trailers().ok())),
        }
        if content.len() > PROBE_BODY_BYTES {
            break;
        }
    }
    Ok((content, None))
}

/// What a hyper error is about, with its causes.
fn broken(error: &hyper::Error) -> ProbeFailure {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    ProbeFailure::Response(text)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use xds::model::{HealthCheck, ProbePath, StatusRange};

    use super::super::tests::check;
    use super::*;
    use crate::config::Address;

    fn target() -> ProbeTarget {
        let range = StatusRange::of_answers(200, 299).expect("a range");
        let probe = HealthProbe::Http {
            path: ProbePath::parse("/healthz").expect("a path"),
            host: None,
            expect: vec![range],
        };
        ProbeTarget {
            name: "Service/a/shop:80".into(),
            object: "Service/a/shop".into(),
            check: Arc::new(HealthCheck { probe, ..check() }),
            address: Address::Unix("unused".into()),
            host: "shop.a".into(),
            security: Security::Plain,
            protocol: Protocol::Http1,
            proxy_protocol: None,
        }
    }

    /// The result of a probe whose server sends this and closes.
    async fn probed(response: &str) -> Result<(), String> {
        let (near, mut far) = tokio::io::duplex(4_096);
        let server = async move {
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                request.push(far.read_u8().await.expect("a request"));
            }
            let sent = far.write_all(response.as_bytes()).await;
            sent.expect("the probe reads it");
        };
        let target = target();
        let (result, ()) = tokio::join!(ask(&target, Box::new(near)), server);
        result.map(|_| ()).map_err(|failure| failure.to_string())
    }

    #[tokio::test]
    async fn the_status_decides_whatever_becomes_of_the_body() {
        let whole = "HTTP/1.1 204 No Content\r\n\r\n";
        assert_eq!(probed(whole).await, Ok(()));
        let cut = "Content-Length: 10\r\n\r\nhalf";
        let good = probed(&format!("HTTP/1.1 200 OK\r\n{cut}")).await;
        assert_eq!(good, Ok(()));
        let bad = probed(&format!("HTTP/1.1 500 Oops\r\n{cut}")).await;
        let expected = "status 500 is none of those expected";
        assert_eq!(bad, Err(expected.to_owned()));
        assert!(probed("HTTP/1.1 2").await.is_err(), "no status");
    }
}
