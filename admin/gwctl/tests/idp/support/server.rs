//! A server that records what it is asked, and answers by itself or with what another one says.

use std::io::Write as _;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;

use super::message::{Message, exchange};

/// A recorded request and its response.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) request: Message,
    pub(crate) response: Message,
}

/// A server on a port of this machine; ends with the process.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) port: u16,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl Server {
    /// One that answers with what `answer` makes of a request and of the number of requests before it.
    pub(crate) fn new(answer: impl Fn(&Message, usize) -> Message + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let calls: Arc<Mutex<Vec<Call>>> = Arc::default();
        let recorded = Arc::clone(&calls);
        let answer = Arc::new(answer);
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let (recorded, answer) = (Arc::clone(&recorded), Arc::clone(&answer));
                thread::spawn(move || {
                    let Some(request) = Message::read(&mut stream) else {
                        return;
                    };
                    let before = recorded.lock().expect("no test panicked here").len();
                    let response = answer(&request, before);
                    let bytes = response.bytes();
                    let call = Call { request, response };
                    recorded.lock().expect("no test panicked here").push(call);
                    let _ = stream.write_all(&bytes);
                });
            }
        });
        Self { port, calls }
    }

    /// One that stands before another.
    pub(crate) fn before(port: u16) -> Self {
        Self::new(move |request, _| {
            exchange(port, request).unwrap_or_else(|| response(502, "text/plain", "no answer"))
        })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The calls since this was last asked.
    pub(crate) fn take(&self) -> Vec<Call> {
        std::mem::take(&mut self.calls.lock().expect("no test panicked here"))
    }
}

pub(crate) fn response(status: u16, kind: &str, body: &str) -> Message {
    Message {
        start: format!("HTTP/1.1 {status} Status"),
        headers: vec![
            ("content-type".to_owned(), kind.to_owned()),
            ("content-length".to_owned(), body.len().to_string()),
        ],
        body: body.to_owned(),
    }
}

/// A response with JSON.
pub(crate) fn json(status: u16, body: &str) -> Message {
    response(status, "application/json", body)
}
