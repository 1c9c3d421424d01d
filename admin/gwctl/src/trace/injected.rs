//! The request that is sent to be traced.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use anyhow::{Context as _, Result, anyhow};
use http::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::secure::Secure;
use crate::args::TraceArgs;
use crate::client::Client;

/// A request, and where it goes.
pub(crate) struct Injected {
    address: String,
    /// Over TLS, where the URL says so.
    secure: Option<Secure>,
    request: Request<Full<Bytes>>,
}

/// A connection to a listener.
pub(crate) enum Connection {
    Plain(TcpStream),
    Secure(Box<TlsStream<TcpStream>>),
}

impl Injected {
    /// What the user asked for, to a port of the host whose admin server is asked.
    ///
    /// # Errors
    /// It cannot be said in HTTP.
    pub(crate) fn of(args: &TraceArgs, url: &Uri, client: &Client, port: u16) -> Result<Self> {
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
            .context("that is no request")?;
        *request.headers_mut() = headers(args, url)?;
        let secure = match url.scheme_str() {
            Some("https") => {
                let host = url.host().unwrap_or_default();
                Some(Secure::to(host, args, client.timeout())?)
            }
            _ => None,
        };
        Ok(Self {
            address: format!("{}:{port}", client.host()),
            secure,
            request,
        })
    }

    /// The id by which the gateway knows it.
    pub(crate) fn id(&self) -> &[u8] {
        let id = self.request.headers().get(&REQUEST_ID);
        id.map_or(&[], HeaderValue::as_bytes)
    }

    /// Connects to where it goes.
    ///
    /// # Errors
    /// Nobody is there, or not who should be.
    pub(crate) async fn connect(&self) -> Result<Connection> {
        let stream = TcpStream::connect(&self.address).await;
        let stream = stream.with_context(|| self.unreachable())?;
        let Some(secure) = &self.secure else {
            return Ok(Connection::Plain(stream));
        };
        let stream = secure.shake_hands(stream).await?;
        Ok(Connection::Secure(Box::new(stream)))
    }

    /// That nobody is there.
    pub(crate) fn unreachable(&self) -> anyhow::Error {
        anyhow!(
            "no listener answers at {}; `gwctl config listeners` shows the ports there are",
            self.address
        )
    }

    /// Sends it and reads the answer to its end.
    ///
    /// # Errors
    /// There is no answer.
    pub(crate) async fn send(self, connection: Connection) -> Result<StatusCode> {
        match connection {
            Connection::Plain(stream) => self.send_over(stream).await,
            Connection::Secure(stream) => self.send_over(stream).await,
        }
    }

    async fn send_over(
        self,
        connection: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> Result<StatusCode> {
        let address = self.address;
        let (mut sender, connection) = http1::handshake(TokioIo::new(connection)).await?;
        tokio::spawn(connection);
        let response = sender.send_request(self.request).await;
        let response = response.with_context(|| format!("{address} gave no answer in HTTP"))?;
        let status = response.status();
        let mut body = response.into_body();
        while let Some(frame) = body.frame().await {
            frame.with_context(|| format!("the answer of {address} broke off"))?;
        }
        Ok(status)
    }
}

/// The user's headers, and those that every client sends where the user sends none.
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
        (REQUEST_ID, fresh_id()?),
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

/// An id that no other request has: each `RandomState` has random keys.
fn fresh_id() -> Result<HeaderValue> {
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

    use super::Injected;
    use crate::args::{Cli, Command};
    use crate::client::Client;

    fn injected(line: &str) -> Injected {
        let line = format!("gwctl trace --local --port 80 {line}");
        let cli = Cli::try_parse_from(line.split(' ')).expect("a command");
        let Command::Trace(args) = cli.command else {
            panic!("a trace");
        };
        let url = args.url.clone().expect("a URL");
        let client = Client::new("[::1]:1", None).expect("an address");
        Injected::of(&args, &url, &client, 80).expect("a request")
    }

    fn header<'a>(injected: &'a Injected, name: &str) -> Option<&'a str> {
        let value = injected.request.headers().get(name)?;
        value.to_str().ok()
    }

    #[test]
    fn it_is_what_curl_would_send() {
        let get = injected("-- http://user@shop.example:8080/a?b#c");
        assert_eq!(get.address, "[::1]:80");
        assert_eq!(get.request.method(), "GET");
        assert_eq!(get.request.uri(), "/a?b");
        assert_eq!(header(&get, "host"), Some("shop.example:8080"));
        assert_eq!(header(&get, "content-type"), None);

        let post = injected("-d x=1 -H Host:other -H a:1 -H a:2 -- shop.example");
        assert_eq!(post.request.method(), "POST");
        assert_eq!(post.request.uri(), "/");
        assert_eq!(header(&post, "host"), Some("other"));
        assert_eq!(post.request.headers().get_all("a").iter().count(), 2);
        let form = "application/x-www-form-urlencoded";
        assert_eq!(header(&post, "content-type"), Some(form));
    }

    #[test]
    fn every_request_has_an_id_of_its_own() {
        let [one, other] = [0, 1].map(|_| injected("-- http://h/"));
        assert!(one.id().starts_with(b"gwctl-"));
        assert_ne!(one.id(), other.id());
        let own = injected("-H X-Request-Id:7 -- http://h/");
        assert_eq!(own.id(), b"7");
    }
}
