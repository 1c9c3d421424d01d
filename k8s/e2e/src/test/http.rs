//! Requests of tests, over whatever connection there is to a pod.

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::HOST;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;

use super::scope::Stream;

/// An answer, whole.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) closes: bool,
    /// `location`; empty where there is none.
    pub(super) location: String,
    pub(super) body: String,
}

/// A connection that HTTP/1 is spoken on.
pub(super) struct Connection {
    sender: SendRequest<Full<Bytes>>,
}

impl Connection {
    pub(super) async fn over(stream: Box<dyn Stream>) -> Result<Self> {
        let (sender, driver) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(async move {
            // An error shows in the request that it breaks.
            let _ = driver.await;
        });
        Ok(Self { sender })
    }

    pub(super) async fn get(&mut self, host: &str, path: &str) -> Result<Answer> {
        self.sender
            .ready()
            .await
            .context("the connection is closed")?;
        let request = Request::get(path)
            .header(HOST, host)
            .body(Full::default())?;
        let answer = self
            .sender
            .send_request(request)
            .await
            .context("no answer")?;
        let (head, body) = answer.into_parts();
        let closes = head
            .headers
            .get("connection")
            .is_some_and(|value| value == "close");
        let location = head.headers.get("location");
        let location = location.and_then(|value| value.to_str().ok());
        let location = location.unwrap_or_default().to_owned();
        let body = body
            .collect()
            .await
            .context("the answer broke off")?
            .to_bytes();
        Ok(Answer {
            status: head.status,
            closes,
            location,
            body: String::from_utf8_lossy(&body).into_owned(),
        })
    }
}

/// One request on a connection of its own, which has to be answered with 200.
pub(super) async fn get(stream: Box<dyn Stream>, host: &str, path: &str) -> Result<String> {
    let answer = Connection::over(stream).await?.get(host, path).await?;
    if answer.status != StatusCode::OK {
        bail!("GET {host}{path}: {} {}", answer.status, answer.body.trim());
    }
    Ok(answer.body)
}
