//! HTTP requests of tests, over any connection to a pod.

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::HOST;
use hyper::{HeaderMap, Request, StatusCode};
use hyper_util::rt::TokioIo;

use super::scope::Stream;

#[derive(Debug)]
pub(super) struct HttpResponse {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: String,
}

impl HttpResponse {
    /// A header; empty if there is none.
    pub(super) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }

    /// Whether no other request can follow on its connection.
    pub(super) fn closes(&self) -> bool {
        self.header("connection") == "close"
    }
}

/// A request without a body.
pub(super) fn request(
    host: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> Result<Request<Full<Bytes>>> {
    let mut request = Request::get(path).header(HOST, host);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    Ok(request.body(Full::default())?)
}

/// An HTTP/1 connection.
pub(super) struct Connection {
    sender: SendRequest<Full<Bytes>>,
}

impl Connection {
    pub(super) async fn over(stream: Box<dyn Stream>) -> Result<Self> {
        let (sender, driver) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(async move {
            // An error is reported by the affected request.
            let _ = driver.await;
        });
        Ok(Self { sender })
    }

    pub(super) async fn get(&mut self, host: &str, path: &str) -> Result<HttpResponse> {
        self.send(request(host, path, &[])?).await
    }

    pub(super) async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<HttpResponse> {
        self.sender
            .ready()
            .await
            .context("the connection is closed")?;
        let answer = self
            .sender
            .send_request(request)
            .await
            .context("no answer")?;
        let (head, body) = answer.into_parts();
        let body = body
            .collect()
            .await
            .context("the answer broke off")?
            .to_bytes();
        Ok(HttpResponse {
            status: head.status,
            headers: head.headers,
            body: String::from_utf8_lossy(&body).into_owned(),
        })
    }
}

/// One request on a new connection; fails unless the status is 200.
pub(super) async fn get(stream: Box<dyn Stream>, host: &str, path: &str) -> Result<String> {
    let answer = Connection::over(stream).await?.get(host, path).await?;
    if answer.status != StatusCode::OK {
        bail!("GET {host}{path}: {} {}", answer.status, answer.body.trim());
    }
    Ok(answer.body)
}
