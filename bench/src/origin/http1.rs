//! The HTTP/1.1 responder of our origin, sans-io: bytes in and bytes out.
//!
//! `GET …/bytes/N` answers N bytes from memory, `POST …/echo` the request's own body, `GET …/ws`
//! upgrades to a WebSocket that echoes, `GET /stats` the number of requests answered. Anything
//! else, and any request a proxy should not have sent, is an error: a benchmark must not hide it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::Write as _;
use std::rc::Rc;

use super::response::{OriginResponse, Reply};
use super::websocket;

/// Answers of all connections of one thread, built once per size.
#[derive(Debug, Default)]
pub(crate) struct ResponseTable {
    by_size: RefCell<HashMap<usize, Rc<[u8]>>>,
    counted: std::cell::Cell<u64>,
}

/// One side of a connection.
#[derive(Debug, Default)]
pub(crate) struct Conversation {
    upgraded: bool,
}

impl ResponseTable {
    /// Requests answered so far, `/stats` not counted.
    pub(crate) fn counted(&self) -> u64 {
        self.counted.get()
    }

    fn count(&self) {
        self.counted.set(self.counted.get() + 1);
    }

    fn sized(&self, size: usize) -> Rc<[u8]> {
        let mut by_size = self.by_size.borrow_mut();
        Rc::clone(by_size.entry(size).or_insert_with(|| {
            let mut bytes = head(200, size, false);
            bytes.extend_from_slice(&body(size));
            bytes.into()
        }))
    }
}

impl Conversation {
    /// The next answer, or none until more bytes come. `input` starts with the first byte that no
    /// answer has consumed.
    pub(crate) fn next(&mut self, input: &[u8], answers: &ResponseTable) -> Option<OriginResponse> {
        if self.upgraded {
            let answer = websocket::echo(input)?;
            answers.count();
            return Some(answer);
        }
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(input) {
            Ok(httparse::Status::Complete(head)) => self.route(&request, input, head, answers),
            Ok(httparse::Status::Partial) if input.len() < MAX_HEAD => None,
            Ok(httparse::Status::Partial) => Some(refuse(431)),
            Err(_) => Some(refuse(400)),
        }
    }

    fn route(
        &mut self,
        request: &httparse::Request<'_, '_>,
        input: &[u8],
        head_len: usize,
        answers: &ResponseTable,
    ) -> Option<OriginResponse> {
        let (method, path) = (request.method?, request.path?);
        let close = header(request, "connection").is_some_and(|v| v.eq_ignore_ascii_case(b"close"));
        let reply = match (method, path) {
            ("GET", "/stats") => {
                let text = format!("{{\"requests\":{}}}", answers.counted());
                let reply = Reply::Bytes(with_body(200, text.as_bytes(), close));
                return Some(OriginResponse {
                    consumed: head_len,
                    reply,
                    close,
                });
            }
            ("GET", _) if path.ends_with("/ws") => {
                let Some(key) = header(request, "sec-websocket-key") else {
                    return Some(refuse(400));
                };
                self.upgraded = true;
                let reply = Reply::Bytes(websocket::accept(key));
                // Messages are the work; how a connection begins is not.
                return Some(OriginResponse {
                    consumed: head_len,
                    reply,
                    close: false,
                });
            }
            ("GET", _) => match requested_size(path) {
                Some(size) if close => Reply::Bytes(with_body(200, &body(size), close)),
                Some(size) => Reply::Prebuilt(answers.sized(size)),
                None => return Some(refuse(404)),
            },
            ("POST", _) if path.ends_with("/echo") => {
                return echo(request, input, head_len, answers, close);
            }
            _ => return Some(refuse(404)),
        };
        answers.count();
        Some(OriginResponse {
            consumed: head_len,
            reply,
            close,
        })
    }
}

/// The body of the request once it is whole. A body of unknown length is refused: every client
/// here sends a length, and a proxy that drops it has changed the work.
fn echo(
    request: &httparse::Request<'_, '_>,
    input: &[u8],
    head_len: usize,
    answers: &ResponseTable,
    close: bool,
) -> Option<OriginResponse> {
    let length = header(request, "content-length")
        .and_then(|v| std::str::from_utf8(v).ok()?.parse::<usize>().ok())
        .filter(|length| *length <= MAX_BODY);
    let Some(end) = length.and_then(|length| head_len.checked_add(length)) else {
        return Some(refuse(411));
    };
    let body = input.get(head_len..end)?;
    answers.count();
    Some(OriginResponse {
        consumed: end,
        reply: Reply::Bytes(with_body(200, body, close)),
        close,
    })
}

/// N of a path that ends in `/bytes/N`.
fn requested_size(path: &str) -> Option<usize> {
    let (rest, number) = path.rsplit_once('/')?;
    let size = number.parse().ok().filter(|size| *size <= MAX_BODY)?;
    rest.ends_with("/bytes").then_some(size)
}

fn header<'h>(request: &httparse::Request<'_, 'h>, name: &str) -> Option<&'h [u8]> {
    request
        .headers
        .iter()
        .find(|h| h.name.eq_ignore_ascii_case(name))
        .map(|h| h.value)
}

/// An error that ends the connection and is not counted as answered.
fn refuse(status: u16) -> OriginResponse {
    OriginResponse {
        consumed: 0,
        reply: Reply::Bytes(with_body(status, b"", true)),
        close: true,
    }
}

fn with_body(status: u16, body: &[u8], close: bool) -> Vec<u8> {
    let mut bytes = head(status, body.len(), close);
    bytes.extend_from_slice(body);
    bytes
}

fn head(status: u16, length: usize, close: bool) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(128 + length);
    // Writing into a Vec cannot fail.
    let _ = write!(
        bytes,
        "HTTP/1.1 {status} {}\r\nserver: origin\r\ncontent-type: application/octet-stream\r\n\
         content-length: {length}\r\n{}\r\n",
        if status == 200 { "OK" } else { "Refused" },
        if close { "connection: close\r\n" } else { "" },
    );
    bytes
}

/// The body of `/bytes/N`: the same on every origin, and no two neighbouring bytes alike, so that
/// a lost or repeated piece shows.
pub(crate) fn body(size: usize) -> Vec<u8> {
    (b'a'..=b'w').cycle().take(size).collect()
}

const MAX_HEADERS: usize = 64;
const MAX_HEAD: usize = 64 * 1024;
const MAX_BODY: usize = 64 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(input: &str) -> Option<String> {
        let answer = Conversation::default().next(input.as_bytes(), &ResponseTable::default())?;
        Some(String::from_utf8(answer.reply.as_slice().to_vec()).expect("text"))
    }

    #[test]
    fn bytes_are_served_in_the_requested_size_under_any_prefix() {
        for path in ["/bytes/5", "/p4999/bytes/5"] {
            let text = answer(&format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n")).expect("answers");
            assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
            assert!(text.ends_with("\r\n\r\nabcde"), "{text}");
        }
    }

    #[test]
    fn a_request_is_answered_only_when_complete() {
        let request = "POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\nabc";
        for cut in 0..request.len() {
            assert_eq!(answer(&request[..cut]), None, "cut at {cut}");
        }
        assert!(answer(request).expect("answers").ends_with("\r\n\r\nabc"));
    }

    #[test]
    fn pipelined_requests_are_answered_one_by_one() {
        let answers = ResponseTable::default();
        let mut talk = Conversation::default();
        let two = b"GET /bytes/1 HTTP/1.1\r\n\r\nGET /bytes/2 HTTP/1.1\r\n\r\n";
        let first = talk.next(two, &answers).expect("first");
        let second = talk.next(&two[first.consumed..], &answers).expect("second");
        assert_eq!(first.consumed + second.consumed, two.len());
        assert_eq!(answers.counted(), 2);
    }

    #[test]
    fn requests_that_a_proxy_should_not_send_are_rejected() {
        let chunked = "POST /echo HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n";
        for (request, status) in [
            (chunked, "411"),
            ("GET / HTTP/1.1\r\n\r\n", "404"),
            ("nonsense\0\r\n\r\n", "400"),
        ] {
            assert!(
                answer(request).expect("answers").contains(status),
                "{request}"
            );
        }
    }
}
