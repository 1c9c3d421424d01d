//! Small HTTP/1 servers: health and metrics.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tracing::debug;

/// A response of the probes or metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpResponse {
    /// Status code of the response.
    pub status: StatusCode,
    /// Value of the header `content-type`.
    pub content_type: &'static str,
    /// The whole body; responses are not streamed.
    pub body: String,
}

impl HttpResponse {
    /// Plain text; a newline is added.
    #[must_use]
    pub fn text(status: StatusCode, text: &str) -> Self {
        Self {
            status,
            content_type: "text/plain; charset=utf-8",
            body: format!("{text}\n"),
        }
    }
}

/// Responds to a GET of a path; `None` for 404.
pub type Handler = dyn Fn(&str) -> Option<HttpResponse> + Send + Sync;

/// Listens on an address. `[::]` means all addresses, also on a host without IPv6.
///
/// # Errors
///
/// The address is unavailable.
pub async fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let without_v6 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
    match TcpListener::bind(address).await {
        Err(error)
            if address.ip() == Ipv6Addr::UNSPECIFIED
                && error.kind() != io::ErrorKind::AddrInUse =>
        {
            // If neither works, the first error is more informative.
            TcpListener::bind(without_v6).await.map_err(|_| error)
        }
        bound => bound,
    }
}

/// Serves HTTP requests; returns only on an error.
pub async fn serve(listener: TcpListener, handler: Arc<Handler>) {
    let connections = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(permit) = Arc::clone(&connections).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let handler = Arc::clone(&handler);
                tokio::spawn(async move {
                    serve_connection(stream, handler).await;
                    drop(permit);
                });
            }
            Err(error) => {
                // Such as too many open files: others may be closed meanwhile.
                debug!("cannot accept a connection: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve_connection(stream: TcpStream, handler: Arc<Handler>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = answer(&request, &*handler);
        async move { Ok::<_, Infallible>(response(answer)) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(stream), service);
    if let Ok(Err(error)) = tokio::time::timeout(MAX_AGE, connection).await {
        debug!("a connection failed: {error}");
    }
}

fn answer(request: &Request<Incoming>, handler: &Handler) -> HttpResponse {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return HttpResponse::text(StatusCode::METHOD_NOT_ALLOWED, "only GET is allowed");
    }
    let found = handler(request.uri().path());
    found.unwrap_or_else(|| HttpResponse::text(StatusCode::NOT_FOUND, "no such path"))
}

fn response(answer: HttpResponse) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(answer.body)));
    *response.status_mut() = answer.status;
    let content_type = HeaderValue::from_static(answer.content_type);
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

/// Most concurrent connections of one server: probes and scrapers are few.
const CONNECTIONS: usize = 64;
/// Timeout of a request head, and of an idle connection.
const HEADER_TIMEOUT: Duration = Duration::from_mins(1);
/// Maximum age of a connection.
const MAX_AGE: Duration = Duration::from_hours(1);
/// Largest request head in bytes.
const BUFFER: usize = 16 << 10;
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
