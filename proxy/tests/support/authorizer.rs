//! An authorization server of gRPC (`ext_authz`) in plain text. Its one answer is scripted, and what
//! it was asked is recorded.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use prost::Message as _;
use tokio::net::TcpStream;

use super::picker::mutation;

#[expect(
    unreachable_pub,
    reason = "the tests look at a part of the proxy's own"
)]
#[path = "../../src/policy/external_auth/messages.rs"]
pub(crate) mod messages;

use messages::{CheckRequest, CheckResponse, DeniedResponse, HttpRequest, OkResponse, Status};
use mutation::{HeaderValueOption, HttpStatus};

/// A running server; stops when dropped.
pub(crate) struct Authorizer {
    address: SocketAddr,
    shared: Arc<Shared>,
    _stop: tokio::sync::oneshot::Sender<()>,
}

struct Shared {
    answer: Mutex<Option<CheckResponse>>,
    asked: Mutex<Vec<HttpRequest>>,
}

/// A server that answers every question so; with a status of failure where there is no answer.
pub(crate) fn authorizer(answer: Option<CheckResponse>) -> Authorizer {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.set_nonblocking(true).expect("our socket");
    let address = listener.local_addr().expect("bound");
    let shared = Arc::new(Shared {
        answer: Mutex::new(answer),
        asked: Mutex::default(),
    });
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let copy = Arc::clone(&shared);
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().expect("a runtime");
        runtime.block_on(async {
            tokio::select! {
                () = accept_all(listener, copy) => {}
                _ = stopped => {}
            }
        });
    });
    Authorizer {
        address,
        shared,
        _stop: stop,
    }
}

/// An answer that lets requests pass, with these fields put in place of theirs.
pub(crate) fn allowing(fields: &[(&str, &str)]) -> CheckResponse {
    CheckResponse {
        status: Some(Status { code: 0 }),
        denied_response: None,
        ok_response: Some(OkResponse {
            headers: options(fields),
            ..OkResponse::default()
        }),
    }
}

/// An answer that turns requests away.
pub(crate) fn denying(code: i32, fields: &[(&str, &str)], body: &str) -> CheckResponse {
    CheckResponse {
        status: Some(Status { code: 7 }),
        denied_response: Some(DeniedResponse {
            status: Some(HttpStatus { code }),
            headers: options(fields),
            body: body.to_owned(),
        }),
        ok_response: None,
    }
}

fn options(fields: &[(&str, &str)]) -> Vec<HeaderValueOption> {
    let fields = fields.iter().map(|(name, value)| HeaderValueOption {
        header: Some(mutation::HeaderValue {
            key: (*name).to_owned(),
            value: (*value).to_owned(),
            raw_value: Vec::new(),
        }),
        append: None,
        append_action: 0,
    });
    fields.collect()
}

impl Authorizer {
    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on answers so.
    pub(crate) fn now_answers(&self, answer: Option<CheckResponse>) {
        *self.shared.answer.lock().expect("no holder panics") = answer;
    }

    /// The requests that it was asked about.
    pub(crate) fn asked(&self) -> Vec<HttpRequest> {
        self.shared.asked.lock().expect("no holder panics").clone()
    }
}

async fn accept_all(listener: TcpListener, shared: Arc<Shared>) {
    let listener = tokio::net::TcpListener::from_std(listener).expect("a runtime");
    loop {
        let (socket, _) = listener.accept().await.expect("our socket");
        tokio::spawn(serve(socket, Arc::clone(&shared)));
    }
}

async fn serve(socket: TcpStream, shared: Arc<Shared>) {
    let Ok(mut connection) = h2::server::handshake(socket).await else {
        return;
    };
    while let Some(Ok((request, respond))) = connection.accept().await {
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            // A call that breaks off is the gateway's affair.
            let _ = answer(request, respond, &shared).await;
        });
    }
}

async fn answer(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    shared: &Shared,
) -> Result<(), h2::Error> {
    assert_eq!(
        request.uri().path(),
        "/envoy.service.auth.v3.Authorization/Check"
    );
    let mut body = request.into_body();
    let mut bytes = Vec::new();
    while let Some(data) = body.data().await {
        let data = data?;
        body.flow_control().release_capacity(data.len())?;
        bytes.extend_from_slice(&data);
    }
    let question = CheckRequest::decode(&bytes[5..]).expect("a question of ext_authz");
    let request = question.attributes.and_then(|it| it.request);
    let request = request.and_then(|it| it.http).expect("a request of HTTP");
    shared.asked.lock().expect("no holder panics").push(request);
    let answer = shared.answer.lock().expect("no holder panics").clone();
    let head = Response::builder().header("content-type", "application/grpc");
    let head = head.body(()).expect("a response");
    let mut sending = respond.send_response(head, false)?;
    let status = if answer.is_some() { "0" } else { "13" };
    if let Some(answer) = answer {
        let message = answer.encode_to_vec();
        let length = u32::try_from(message.len()).expect("a small message");
        let framed = [&[0][..], &length.to_be_bytes(), &message].concat();
        sending.send_data(framed.into(), false)?;
    }
    let name = HeaderName::from_static("grpc-status");
    let status = HeaderValue::from_static(status);
    sending.send_trailers(HeaderMap::from_iter([(name, status)]))
}
