//! Requests of the built-in clients, and verification of the responses. Sans-io.

use anyhow::{Result, bail, ensure};

use crate::origin::{http1, websocket};
use crate::scenario::{Case, ClientProtocol};

/// A request and its only correct response.
#[derive(Debug, Clone)]
pub(crate) struct LoadRequest {
    /// Sent once per connection before the first request; empty but for web sockets.
    pub(crate) opening: Vec<u8>,
    /// Sent for each request.
    pub(crate) request: Vec<u8>,
    expected: Expected,
}

#[derive(Debug, Clone)]
enum Expected {
    /// A 200 with this body.
    Response(Vec<u8>),
    Frame(Vec<u8>),
}

impl LoadRequest {
    /// Of an HTTP/1 or WebSocket case.
    pub(crate) fn of(case: &Case) -> Self {
        let body = http1::body(case.load.bytes);
        let (host, path) = (case.routes.host(), case.path());
        if case.front == ClientProtocol::WebSocket {
            let key = websocket::CLIENT_KEY;
            let opening = format!(
                "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                 Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n"
            );
            return Self {
                opening: opening.into_bytes(),
                request: websocket::client_frame(&body),
                expected: Expected::Frame(websocket::server_frame(&body)),
            };
        }
        let close = if case.load.close {
            "Connection: close\r\n"
        } else {
            ""
        };
        let mut request = if case.load.echo {
            let length = body.len();
            format!(
                "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n{close}\r\n"
            )
        } else {
            format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{close}\r\n")
        }
        .into_bytes();
        if case.load.echo {
            request.extend_from_slice(&body);
        }
        Self {
            opening: Vec::new(),
            request,
            expected: Expected::Response(body),
        }
    }

    /// Whether `head` is the response to [`Self::opening`], and where it ends; `None` until it is
    /// complete.
    pub(crate) fn opened(head: &[u8]) -> Result<Option<usize>> {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut response = httparse::Response::new(&mut headers);
        let httparse::Status::Complete(end) = response.parse(head)? else {
            return Ok(None);
        };
        ensure!(
            response.code == Some(101),
            "the upgrade was refused: {:?}",
            response.code
        );
        let accept = websocket::accept_value(websocket::CLIENT_KEY.as_bytes());
        let right = response.headers.iter().any(|h| {
            h.name.eq_ignore_ascii_case("sec-websocket-accept") && h.value == accept.as_bytes()
        });
        ensure!(right, "the upgrade was accepted with the wrong key");
        Ok(Some(end))
    }
}

/// A response that is being received.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    head: Vec<u8>,
    head_done: bool,
    close: bool,
    matched: usize,
}

/// State after feeding some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FeedResult {
    /// The response is incomplete.
    More,
    /// It is complete and correct, and the connection stays open.
    Done,
    /// It is complete and correct, and the connection closes.
    DoneAndClose,
}

impl Reading {
    /// Whether no byte was received yet.
    pub(crate) fn untouched(&self) -> bool {
        self.head.is_empty() && self.matched == 0
    }

    /// Verifies the next bytes. Afterwards, unless [`FeedResult::More`], it is ready for the next
    /// response.
    pub(crate) fn feed(&mut self, bytes: &[u8], exchange: &LoadRequest) -> Result<FeedResult> {
        let (fed, expected) = match &exchange.expected {
            Expected::Frame(frame) => (self.body(bytes, frame)?, frame),
            Expected::Response(body) if self.head_done => (self.body(bytes, body)?, body),
            Expected::Response(body) => {
                self.head.extend_from_slice(bytes);
                match self.parse_head(body.len())? {
                    None => return Ok(FeedResult::More),
                    Some(end) => {
                        let head = std::mem::take(&mut self.head);
                        self.head_done = true;
                        (self.body(head.get(end..).unwrap_or_default(), body)?, body)
                    }
                }
            }
        };
        if fed < expected.len() {
            return Ok(FeedResult::More);
        }
        let close = self.close;
        *self = Self::default();
        Ok(if close {
            FeedResult::DoneAndClose
        } else {
            FeedResult::Done
        })
    }

    fn parse_head(&mut self, length: usize) -> Result<Option<usize>> {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut response = httparse::Response::new(&mut headers);
        let httparse::Status::Complete(end) = response.parse(&self.head)? else {
            return Ok(None);
        };
        let code = response.code.unwrap_or(0);
        ensure!(code == 200, "status {code} instead of 200");
        let header = |name: &str| {
            response
                .headers
                .iter()
                .find(|h| h.name.eq_ignore_ascii_case(name))
                .map(|h| h.value)
        };
        let Some(value) = header("content-length") else {
            bail!("the proxy removed the origin's content-length");
        };
        let value = std::str::from_utf8(value)?;
        ensure!(
            value.parse() == Ok(length),
            "content-length is {value} instead of {length}"
        );
        self.close = header("connection").is_some_and(|v| v.eq_ignore_ascii_case(b"close"));
        Ok(Some(end))
    }

    fn body(&mut self, bytes: &[u8], expected: &[u8]) -> Result<usize> {
        let end = self.matched.saturating_add(bytes.len());
        let Some(part) = expected.get(self.matched..end) else {
            bail!("more bytes received than requested");
        };
        ensure!(
            part == bytes,
            "wrong bytes received after the first {}",
            self.matched
        );
        self.matched = end;
        Ok(end)
    }
}

const MAX_HEADERS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(body: &[u8]) -> LoadRequest {
        let expected = Expected::Response(body.to_vec());
        LoadRequest {
            opening: Vec::new(),
            request: Vec::new(),
            expected,
        }
    }

    #[test]
    fn a_response_is_complete_at_its_last_byte_at_every_split() {
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc";
        for cut in 1..answer.len() {
            let mut reading = Reading::default();
            let exchange = exchange(b"abc");
            assert_eq!(
                reading.feed(&answer[..cut], &exchange).expect("right"),
                FeedResult::More
            );
            assert_eq!(
                reading.feed(&answer[cut..], &exchange).expect("right"),
                FeedResult::Done
            );
            assert!(reading.untouched());
        }
    }

    #[test]
    fn a_wrong_response_is_an_error() {
        let wrong = [
            "HTTP/1.1 502 Bad Gateway\r\ncontent-length: 3\r\n\r\nabc",
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nab",
            "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabx",
            "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabcd",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
        ];
        for answer in wrong {
            let outcome = Reading::default().feed(answer.as_bytes(), &exchange(b"abc"));
            assert!(outcome.is_err(), "{answer}");
        }
    }

    #[test]
    fn connection_close_of_a_response_is_detected() {
        let answer = b"HTTP/1.1 200 OK\r\nConnection: Close\r\ncontent-length: 0\r\n\r\n";
        let fed = Reading::default()
            .feed(answer, &exchange(b""))
            .expect("right");
        assert_eq!(fed, FeedResult::DoneAndClose);
    }
}
