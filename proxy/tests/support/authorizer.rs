//! An authorization server of gRPC (`ext_authz`) in plain text. Its response is scripted, and its
//! requests are recorded.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::Request;

use super::TIMEOUT;
use super::calls::{self, CallServer, mutation};

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
    server: CallServer,
    shared: Arc<Shared>,
}

struct Shared {
    behavior: Mutex<AuthorizerBehavior>,
    requests: Mutex<Vec<HttpRequest>>,
    /// Calls that were reset.
    reset: Mutex<usize>,
    changed: Condvar,
}

/// What a server does with requests.
#[derive(Debug, Clone)]
enum AuthorizerBehavior {
    Answer(Box<CheckResponse>),
    /// Responds without reading the request.
    Early(Box<CheckResponse>),
    Failure,
    Nothing,
}

/// A server that responds to every request with this, or with a failure status if it is `None`.
pub(crate) fn authorizer(answer: Option<CheckResponse>) -> Authorizer {
    Authorizer::that(AuthorizerBehavior::of(answer))
}

/// A server that responds before it has read the request, of which it accepts no more than the
/// windows of HTTP/2 hold.
pub(crate) fn early_authorizer(answer: CheckResponse) -> Authorizer {
    Authorizer::that(AuthorizerBehavior::Early(Box::new(answer)))
}

/// A server that never responds.
pub(crate) fn silent_authorizer() -> Authorizer {
    Authorizer::that(AuthorizerBehavior::Nothing)
}

impl AuthorizerBehavior {
    fn of(answer: Option<CheckResponse>) -> Self {
        answer.map_or(Self::Failure, |answer| Self::Answer(Box::new(answer)))
    }
}

/// A response that allows requests and replaces these fields in them.
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

/// A response that allows requests and sets these fields in their responses.
pub(crate) fn allowing_with_response_fields(fields: &[(&str, &str)]) -> CheckResponse {
    CheckResponse {
        ok_response: Some(OkResponse {
            response_headers_to_add: options(fields),
            ..OkResponse::default()
        }),
        ..allowing(&[])
    }
}

/// A response that denies requests.
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
    let fields = fields.iter();
    fields
        .map(|(name, value)| calls::set(name, value))
        .collect()
}

impl Authorizer {
    fn that(behavior: AuthorizerBehavior) -> Self {
        let shared = Arc::new(Shared {
            behavior: Mutex::new(behavior),
            requests: Mutex::default(),
            reset: Mutex::default(),
            changed: Condvar::new(),
        });
        let copy = Arc::clone(&shared);
        let server = calls::start(move |socket| {
            let shared = Arc::clone(&copy);
            calls::serve_calls(socket, move |request, respond| {
                answer(request, respond, Arc::clone(&shared))
            })
        });
        Self { server, shared }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address
    }

    /// Changes the response from now on.
    pub(crate) fn now_answers(&self, answer: Option<CheckResponse>) {
        *self.shared.behavior.lock().expect("no holder panics") = AuthorizerBehavior::of(answer);
    }

    /// The requests received so far.
    pub(crate) fn requests(&self) -> Vec<HttpRequest> {
        self.shared
            .requests
            .lock()
            .expect("no holder panics")
            .clone()
    }

    /// Waits until it is called.
    #[track_caller]
    pub(crate) fn waits_for_call(&self) {
        self.waits(
            &self.shared.requests,
            Vec::is_empty,
            "the server was not called",
        );
    }

    /// Waits until a call is reset.
    #[track_caller]
    pub(crate) fn waits_for_reset(&self) {
        self.waits(&self.shared.reset, |calls| *calls == 0, "no call was reset");
    }

    #[track_caller]
    fn waits<T>(&self, of: &Mutex<T>, lacks: impl Fn(&T) -> bool, otherwise: &str) {
        let log: MutexGuard<'_, T> = of.lock().expect("no holder panics");
        let changed = &self.shared.changed;
        let waited = changed.wait_timeout_while(log, TIMEOUT, |log| lacks(log));
        let (_log, timeout) = waited.expect("no holder panics");
        assert!(!timeout.timed_out(), "{otherwise}");
    }
}

impl Shared {
    /// Waits until the call is reset.
    async fn note_reset(&self, respond: &mut SendResponse<Bytes>) -> Result<(), h2::Error> {
        let reset = poll_fn(|context| respond.poll_reset(context)).await;
        *self.reset.lock().expect("no holder panics") += 1;
        self.changed.notify_all();
        reset.map(drop)
    }
}

async fn answer(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    shared: Arc<Shared>,
) -> Result<(), h2::Error> {
    assert_eq!(
        request.uri().path(),
        "/envoy.service.auth.v3.Authorization/Check"
    );
    let behavior = shared.behavior.lock().expect("no holder panics").clone();
    if let AuthorizerBehavior::Early(answer) = behavior {
        let mut sending = calls::begin(&mut respond)?;
        sending.send_data(calls::framed(&*answer), false)?;
        calls::end(&mut sending, "0")?;
        // The request stays unread.
        return shared.note_reset(&mut respond).await;
    }
    let mut body = request.into_body();
    let mut bytes = Vec::new();
    while let Some(data) = body.data().await {
        let data = data?;
        body.flow_control().release_capacity(data.len())?;
        bytes.extend_from_slice(&data);
    }
    let question: CheckRequest = calls::take(&mut bytes).expect("a question of ext_authz");
    let request = question.attributes.and_then(|it| it.request);
    let request = request.and_then(|it| it.http).expect("a request of HTTP");
    shared
        .requests
        .lock()
        .expect("no holder panics")
        .push(request);
    shared.changed.notify_all();
    let behavior = shared.behavior.lock().expect("no holder panics").clone();
    if matches!(behavior, AuthorizerBehavior::Nothing) {
        return shared.note_reset(&mut respond).await;
    }
    let mut sending = calls::begin(&mut respond)?;
    let AuthorizerBehavior::Answer(answer) = behavior else {
        return calls::end(&mut sending, "13");
    };
    sending.send_data(calls::framed(&*answer), false)?;
    calls::end(&mut sending, "0")
}
