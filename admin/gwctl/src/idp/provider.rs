//! The provider's HTTP API: sends one request and returns the response, whatever it is.

use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, LOCATION, USER_AGENT};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::args::ProviderArgs;
use super::password::Secret;
use super::provider_url::ProviderUrl;
use crate::tls::{Tls, Trust};

/// The realm that everything is set up in.
pub(super) const REALM: &str = "/realms/master";
pub(super) const ADMIN: &str = "/admin/realms/master";

pub(super) struct Provider {
    pub(super) url: ProviderUrl,
    tls: Option<Tls>,
    timeout: Duration,
}

/// A call of its API.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) method: Method,
    /// Below the base URL.
    pub(super) path: &'a str,
    pub(super) bearer: Option<Bearer<'a>>,
    pub(super) body: Body<'a>,
}

/// The identity that a call is made with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bearer<'a> {
    /// As the API's documentation spells it.
    pub(super) scheme: &'static str,
    pub(super) token: &'a Secret,
}

/// The content of a request.
#[derive(Debug, Clone, Copy)]
pub(super) enum Body<'a> {
    Nothing,
    Json(&'a Value),
    /// Form fields, some of which are secret.
    Form(&'a [(&'a str, &'a str)]),
}

pub(super) struct HttpResponse {
    pub(super) status: StatusCode,
    pub(super) content_type: String,
    pub(super) location: Option<String>,
    pub(super) body: Bytes,
}

impl Provider {
    /// The provider of a command line; nothing is sent yet.
    ///
    /// # Errors
    /// The certificates to trust cannot be read.
    pub(super) fn new(args: &ProviderArgs, timeout: Duration) -> Result<Self> {
        let url = args.url.clone();
        let tls = if url.secure {
            let trust = Trust::new(args.cacert.as_deref(), args.insecure);
            Some(Tls::new(&url.host, trust, timeout)?)
        } else {
            None
        };
        if url.is_exposed() {
            eprintln!(
                "warning: {url} is not HTTPS: passwords and tokens cross the network in plain text"
            );
        }
        Ok(Self { url, tls, timeout })
    }

    /// Sends a request.
    ///
    /// # Errors
    ///
    /// There was no HTTP response. Judging its status is up to the caller.
    pub(super) async fn send(&self, call: &Call<'_>) -> Result<HttpResponse> {
        let late = || {
            let (url, timeout) = (&self.url, self.timeout);
            anyhow!("no response from {url} within {timeout:?}; set a longer one with --timeout")
        };
        let exchange = tokio::time::timeout(self.timeout, self.exchange(call));
        exchange.await.map_err(|_| late())?
    }

    async fn exchange(&self, call: &Call<'_>) -> Result<HttpResponse> {
        let request = self.request(call)?;
        let url = &self.url;
        let stream = TcpStream::connect((url.host(), url.port)).await;
        let stream = stream.with_context(|| {
            format!("cannot connect to {url}; is it running? Its first start takes minutes")
        })?;
        let sent = match &self.tls {
            None => send_over(stream, request).await,
            Some(tls) => send_over(tls.handshake(stream).await?, request).await,
        };
        let sent = sent.with_context(|| format!("no HTTP response from {url}"));
        let response = sent?;
        let header = |name| {
            let value = response.headers().get(name).map(HeaderValue::as_bytes);
            value.map(|value| String::from_utf8_lossy(value).into_owned())
        };
        let (status, location) = (response.status(), header(LOCATION));
        let content_type = header(CONTENT_TYPE).unwrap_or_default();
        let body = Limited::new(response.into_body(), RESPONSE_BYTES);
        let body = body.collect().await.map_err(|error| {
            anyhow!("the response of {url} was cut short, or is larger than 64 MiB: {error}")
        })?;
        Ok(HttpResponse {
            status,
            content_type,
            location,
            body: body.to_bytes(),
        })
    }

    fn request(&self, call: &Call<'_>) -> Result<Request<Full<Bytes>>> {
        let (content_type, body) = match call.body {
            Body::Nothing => (None, String::new()),
            Body::Json(value) => (Some("application/json"), value.to_string()),
            Body::Form(fields) => {
                let mut form = form_urlencoded::Serializer::new(String::new());
                form.extend_pairs(fields);
                (Some("application/x-www-form-urlencoded"), form.finish())
            }
        };
        let mut request = Request::builder()
            .method(&call.method)
            .uri(format!("{}{}", self.url.path, call.path))
            .header(HOST, &self.url.authority)
            .header(USER_AGENT, "gwctl")
            .header(ACCEPT, "application/json");
        if let Some(content_type) = content_type {
            request = request.header(CONTENT_TYPE, content_type);
        }
        if let Some(Bearer { scheme, token }) = call.bearer {
            let value = format!("{scheme} {}", token.reveal());
            let mut value = HeaderValue::from_str(&value)
                .map_err(|_| anyhow!("the provider's token cannot be sent in a header"))?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        request
            .body(Full::from(body))
            .with_context(|| format!("`{}` cannot be requested", call.path))
    }
}

async fn send_over(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> hyper::Result<Response<Incoming>> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // Ends with the response, or with this process.
    tokio::spawn(connection);
    sender.send_request(request).await
}

/// Limit of a response body: 64 MiB, larger than any list of clients.
const RESPONSE_BYTES: usize = 64 << 20;
