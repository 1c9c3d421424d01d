//! The request that `gwctl trace` sends.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use anyhow::{Context as _, Result, anyhow};
use http::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;

use crate::args::TraceArgs;
use crate::client::Client;
use crate::server::{Server, Stream};
use crate::tls::{Tls, Trust};

/// A request to a listener, identified by its `x-request-id`.
pub(crate) struct TracedRequest {
    listener: Server,
    /// Set for an https URL.
    tls: Option<Tls>,
    request: Request<Full<Bytes>>,
}

impl TracedRequest {
    /// Builds the request of the command line, to `port` of the gateway that the admin server is of.
    ///
    /// # Errors
    /// The request is invalid, or the certificates to trust cannot be read.
    pub(crate) fn new(args: &TraceArgs, url: &Uri, client: &Client, port: u16) -> Result<Self> {
        let target = url.path_and_query().map_or("/", |it| it.as_str());
        let body = args.data.clone().unwrap_or_default();
        let method = args.request.clone().unwrap_or(if args.data.is_some() {
            Method::POST
        } else {
            Method::GET
        });
        let mut request = Request::builder()
            .method(method)
            .uri(target)
            .body(Full::from(body))
            .context("invalid request")?;
        *request.headers_mut() = headers(args, url)?;
        let tls = match url.scheme_str() {
            Some("https") => {
                let host = url.host().unwrap_or_default();
                let trust = Trust::new(args.cacert.as_deref(), args.insecure);
                Some(Tls::new(host, trust, client.timeout())?)
            }
            _ => None,
        };
        Ok(Self {
            listener: client.server().with_port(port),
            tls,
            request,
        })
    }

    pub(crate) fn id(&self) -> &[u8] {
        let id = self.request.headers().get(&REQUEST_ID);
        id.map_or(&[], HeaderValue::as_bytes)
    }

    /// Connects to the listener.
    ///
    /// # Errors
    /// The connection is refused, or the TLS handshake fails.
    pub(crate) async fn connect(&self) -> Result<Box<dyn Stream>> {
        let stream = self.listener.open().await;
        let stream = stream.with_context(|| self.unreachable())?;
        match &self.tls {
            Some(tls) => Ok(Box::new(tls.handshake(stream).await?)),
            None => Ok(stream),
        }
    }

    /// The error of a connection that failed or timed out.
    pub(crate) fn unreachable(&self) -> anyhow::Error {
        anyhow!(
            "cannot connect to a listener at {}; `gwctl config listeners` shows the ports",
            self.listener
        )
    }

    /// Sends the request and reads the response to its end.
    ///
    /// # Errors
    /// The connection fails before the response is complete.
    pub(crate) async fn send(self, connection: Box<dyn Stream>) -> Result<StatusCode> {
        let address = self.listener;
        let (mut sender, connection) = http1::handshake(TokioIo::new(connection)).await?;
        tokio::spawn(connection);
        let response = sender.send_request(self.request).await;
        let response = response.with_context(|| format!("no HTTP response from {address}"))?;
        let status = response.status();
        let mut body = response.into_body();
        while let Some(frame) = body.frame().await {
            frame.with_context(|| format!("the response from {address} was cut short"))?;
        }
        Ok(status)
    }
}

/// The user's headers, and defaults for those that are not given.
fn headers(args: &TraceArgs, url: &Uri) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for (name, value) in &args.headers {
        headers.append(name.clone(), value.clone());
    }
    let host = url.authority().map_or("", |it| {
        let host = it.as_str();
        host.rsplit_once('@').map_or(host, |(_, host)| host)
    });
    let mut defaults = vec![
        (HOST, HeaderValue::from_str(host)?),
        (USER_AGENT, HeaderValue::from_static(AGENT)),
        (ACCEPT, HeaderValue::from_static("*/*")),
        (REQUEST_ID, random_id()?),
    ];
    if args.data.is_some() {
        defaults.push((
            CONTENT_TYPE,
            HeaderValue::from_static("application/x-www-form-urlencoded"),
        ));
    }
    for (name, value) in defaults {
        headers.entry(name).or_insert(value);
    }
    Ok(headers)
}

/// A unique request id. The randomness is that of `RandomState`'s keys.
fn random_id() -> Result<HeaderValue> {
    let [high, low] = [0, 1].map(|_| RandomState::new().build_hasher().finish());
    Ok(HeaderValue::from_str(&format!(
        "gwctl-{high:016x}{low:016x}"
    ))?)
}

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const AGENT: &str = concat!("gwctl/", env!("CARGO_PKG_VERSION"));

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::TracedRequest;
    use crate::args::{Cli, Command};
    use crate::client::Client;
    use crate::runtime::Blocking;
    use crate::server::Server;

    fn request(line: &str) -> TracedRequest {
        let line = format!("gwctl trace --local --port 80 {line}");
        let cli = Cli::try_parse_from(line.split(' ')).expect("a command");
        let Command::Trace(args) = cli.command else {
            panic!("a trace");
        };
        let url = args.url.clone().expect("a URL");
        let server = Server::parse("[::1]:1").expect("an address");
        let client = Client::new(server, None, Blocking::new().expect("a runtime"));
        TracedRequest::new(&args, &url, &client, 80).expect("a request")
    }

    fn header<'a>(request: &'a TracedRequest, name: &str) -> Option<&'a str> {
        let value = request.request.headers().get(name)?;
        value.to_str().ok()
    }

    #[test]
    fn the_request_is_the_one_curl_would_send() {
        let get = request("-- http://user@shop.example:8080/a?b#c");
        assert_eq!(get.listener.to_string(), "[::1]:80");
        assert_eq!(get.request.method(), "GET");
        assert_eq!(get.request.uri(), "/a?b");
        assert_eq!(header(&get, "host"), Some("shop.example:8080"));
        assert_eq!(header(&get, "content-type"), None);

        let post = request("-d x=1 -H Host:other -H a:1 -H a:2 -- shop.example");
        assert_eq!(post.request.method(), "POST");
        assert_eq!(post.request.uri(), "/");
        assert_eq!(header(&post, "host"), Some("other"));
        assert_eq!(post.request.headers().get_all("a").iter().count(), 2);
        let form = "application/x-www-form-urlencoded";
        assert_eq!(header(&post, "content-type"), Some(form));
    }

    #[test]
    fn every_request_has_a_unique_id() {
        let [one, other] = [0, 1].map(|_| request("-- http://h/"));
        assert!(one.id().starts_with(b"gwctl-"));
        assert_ne!(one.id(), other.id());
        let own = request("-H X-Request-Id:7 -- http://h/");
        assert_eq!(own.id(), b"7");
    }
}
