//! An endpoint picker of the Inference Extension: `ext_proc` over HTTP/2, over TLS with an
//! untrusted certificate or in plain text. Its responses are scripted, and its requests are
//! recorded.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use http::Request;
use rustls::ServerConfig;
use tokio_rustls::TlsAcceptor;

use super::TIMEOUT;
use super::calls::{self, CallServer, mutation, set};
use super::pki::authority;

#[expect(dead_code, reason = "the tests look at a part of it")]
#[path = "../../src/upstream/picker/messages.rs"]
pub(super) mod messages;
use super::reviewer::{CallEnd, ResponseBehavior, Reviewer, immediate, response, spurious};
use messages::{
    BodyMutation, CommonResponse, HeaderMap, HttpBody, Metadata, MutatedBody, PhaseResponse,
    ProcessingRequest, ProcessingResponse, RequestMessage, ResponseMessage, ValueKind,
};
use mutation::{HeaderMutation, HeaderValueOption};

/// What a picker does with requests.
#[derive(Debug, Clone)]
pub(crate) enum PickerBehavior {
    /// Names these endpoints, once it has the whole request, and leaves the body unchanged.
    Picks(Vec<SocketAddr>),
    /// The same, after a pause.
    PicksLate(Vec<SocketAddr>, Duration),
    /// The same, and replaces the client's body, in two pieces.
    Replaces(Vec<SocketAddr>, &'static str),
    /// Responds itself, as soon as it has the head.
    Answers(u32, &'static str),
    /// Names this endpoint, valid or not.
    Names(&'static str),
    /// Ends the call with this status of gRPC.
    Fails(&'static str),
    Nothing,
}

/// What a picker received about one request.
#[derive(Debug, Clone, Default)]
pub(crate) struct PickerRequest {
    /// Names and values of the head.
    pub(crate) head: Vec<(String, String)>,
    /// Whether there was no body.
    pub(crate) head_ends: bool,
    pub(crate) body: Vec<u8>,
    /// How many pieces the body came in.
    pub(crate) pieces: usize,
    pub(crate) ended: bool,
    /// The status of the response, and the endpoint that gave it.
    pub(crate) served: Option<(String, String)>,
    pub(crate) response: PickerResponse,
}

/// What a picker received of a response's body.
#[derive(Debug, Clone, Default)]
pub(crate) struct PickerResponse {
    /// Whether the head was all.
    pub(crate) head_ends: bool,
    pub(crate) body: Vec<u8>,
    /// Whether a piece was the last one.
    pub(crate) ended: bool,
    pub(crate) trailers: Vec<(String, String)>,
}

impl PickerRequest {
    /// A field of the head.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.head.iter();
        fields.find(|(it, _)| it == name).map(|(_, value)| &**value)
    }
}

/// A running picker; stops when dropped.
pub(crate) struct Picker {
    server: CallServer,
    shared: Arc<Shared>,
}

struct Shared {
    behavior: Mutex<PickerBehavior>,
    reviews: Mutex<ResponseBehavior>,
    requests: Mutex<Vec<PickerRequest>>,
    /// How many calls to refuse without processing them.
    refusals: Mutex<usize>,
    changed: Condvar,
}

/// A picker with a self-signed certificate.
pub(crate) fn picker(behavior: PickerBehavior) -> Picker {
    let pair = authority("nobody").server(&["elsewhere.test"]);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring speaks them")
        .with_no_client_auth()
        .with_single_cert(vec![pair.der()], pair.key())
        .expect("a key that fits");
    config.alpn_protocols = vec![b"h2".to_vec()];
    Picker::start(behavior, Some(Arc::new(config)))
}

/// A picker in plain text.
pub(crate) fn plain_picker(behavior: PickerBehavior) -> Picker {
    Picker::start(behavior, None)
}

impl Picker {
    fn start(behavior: PickerBehavior, tls: Option<Arc<ServerConfig>>) -> Self {
        let shared = Arc::new(Shared {
            behavior: Mutex::new(behavior),
            reviews: Mutex::new(ResponseBehavior::Returns),
            requests: Mutex::default(),
            refusals: Mutex::default(),
            changed: Condvar::new(),
        });
        let copy = Arc::clone(&shared);
        let server = calls::start(move |socket| {
            let (shared, tls) = (Arc::clone(&copy), tls.clone());
            async move {
                let answer = move |request, respond| answer(request, respond, Arc::clone(&shared));
                match tls {
                    None => calls::serve_calls(socket, answer).await,
                    Some(tls) => {
                        if let Ok(socket) = TlsAcceptor::from(tls).accept(socket).await {
                            calls::serve_calls(socket, answer).await;
                        }
                    }
                }
            }
        });
        Self { server, shared }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address
    }

    /// Changes its behavior from now on.
    pub(crate) fn now_behaves(&self, behavior: PickerBehavior) {
        *self.shared.behavior.lock().expect("no holder panics") = behavior;
    }

    /// Changes what it does with responses from now on.
    pub(crate) fn now_reviews(&self, reviews: ResponseBehavior) {
        *self.shared.reviews.lock().expect("no holder panics") = reviews;
    }

    /// Refuses this many calls from now on, with `REFUSED_STREAM`.
    pub(crate) fn refuses(&self, calls: usize) {
        *self.shared.refusals.lock().expect("no holder panics") = calls;
    }

    /// What it received so far, in the order of heads.
    pub(crate) fn requests(&self) -> Vec<PickerRequest> {
        self.shared.log().clone()
    }

    /// Clears what it received.
    pub(crate) fn forgets(&self) {
        self.shared.log().clear();
    }

    /// Waits until it is called.
    #[track_caller]
    pub(crate) fn waits_for_call(&self) {
        let is_idle = |requests: &mut Vec<PickerRequest>| requests.is_empty();
        let changed = &self.shared.changed;
        let waited = changed.wait_timeout_while(self.shared.log(), TIMEOUT, is_idle);
        let (_requests, timeout) = waited.expect("no holder panics");
        assert!(!timeout.timed_out(), "the picker was not called");
    }

    /// What it received about the only request, once it has received the response.
    #[track_caller]
    pub(crate) fn waits_for_response(&self) -> PickerRequest {
        let is_pending =
            |requests: &mut Vec<PickerRequest>| !requests.iter().any(|it| it.served.is_some());
        let waited = self
            .shared
            .changed
            .wait_timeout_while(self.shared.log(), TIMEOUT, is_pending);
        let (requests, _) = waited.expect("no holder panics");
        let found = requests.iter().find(|it| it.served.is_some()).cloned();
        drop(requests);
        found.expect("the picker should have received a response")
    }
}

impl Shared {
    fn log(&self) -> MutexGuard<'_, Vec<PickerRequest>> {
        self.requests.lock().expect("no holder panics")
    }

    /// Whether this call is to be refused.
    fn refuses(&self) -> bool {
        let mut refusals = self.refusals.lock().expect("no holder panics");
        let is_refused = *refusals > 0;
        *refusals = refusals.saturating_sub(1);
        is_refused
    }

    fn record(&self, number: usize, record: impl FnOnce(&mut PickerRequest)) {
        record(&mut self.log()[number]);
        self.changed.notify_all();
    }
}

/// One call: one request of the gateway.
async fn answer(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    shared: Arc<Shared>,
) -> Result<(), h2::Error> {
    if shared.refuses() {
        respond.send_reset(h2::Reason::REFUSED_STREAM);
        return Ok(());
    }
    let number = {
        let mut log = shared.log();
        log.push(PickerRequest::default());
        shared.changed.notify_all();
        log.len() - 1
    };
    let behavior = shared.behavior.lock().expect("no holder panics").clone();
    let reviews = shared.reviews.lock().expect("no holder panics").clone();
    let mode = reviews.mode();
    let mut reviewer = Reviewer::new(reviews);
    let mut served = String::new();
    let mut sending = calls::begin(&mut respond)?;
    let mut body = request.into_body();
    let mut bytes = Vec::new();
    while let Some(data) = body.data().await {
        let data = data?;
        bytes.extend_from_slice(&data);
        while let Some(message) = calls::take(&mut bytes) {
            let (answers, end) = match record(message, &shared, number, &mut served) {
                Recorded::OfRequest(has_body, is_last) => {
                    (react(&behavior, has_body, is_last), None)
                }
                Recorded::OfResponse(message) => {
                    if let Some(gate) = reviewer.gate() {
                        // On another thread: this one still has to send the reaction to the part before.
                        let _ = tokio::task::spawn_blocking(move || gate.pass()).await;
                    }
                    reviewer.react(message, &served)
                }
            };
            for mut answer in answers {
                answer.mode_override = answer.mode_override.or(mode);
                send(&mut sending, &answer).await?;
            }
            if let PickerBehavior::Fails(status) = behavior {
                return calls::end(&mut sending, status);
            }
            if let Some(end) = end {
                return stop(sending, end).await;
            }
        }
        // Data that is not handled yet reduces the window.
        body.flow_control().release_capacity(data.len())?;
    }
    calls::end(&mut sending, "0")
}

async fn stop(mut sending: SendStream<Bytes>, end: CallEnd) -> Result<(), h2::Error> {
    match end {
        CallEnd::Status(status) => calls::end(&mut sending, status),
        CallEnd::Reset => {
            sending.send_reset(h2::Reason::INTERNAL_ERROR);
            Ok(())
        }
        CallEnd::Garbage => sending.send_data(Bytes::from_static(b"\x07garbage"), false),
        CallEnd::Spurious => send(&mut sending, &spurious()).await,
    }
}

async fn send(
    sending: &mut SendStream<Bytes>,
    message: &ProcessingResponse,
) -> Result<(), h2::Error> {
    let mut bytes = calls::framed(message);
    while !bytes.is_empty() {
        sending.reserve_capacity(bytes.len());
        let Some(room) = poll_fn(|context| sending.poll_capacity(context)).await else {
            return Ok(());
        };
        let piece = bytes.split_to(room?.min(bytes.len()));
        sending.send_data(piece, false)?;
    }
    Ok(())
}

/// A recorded message.
enum Recorded {
    /// Whether the request has a body, and whether this is the last of its messages.
    OfRequest(bool, bool),
    OfResponse(RequestMessage),
}

/// Records a message.
fn record(
    message: ProcessingRequest,
    shared: &Shared,
    number: usize,
    served_by: &mut String,
) -> Recorded {
    let message_of = message.request.expect("a oneof is set");
    match &message_of {
        RequestMessage::RequestHeaders(head) => {
            let ends = head.end_of_stream;
            let fields = fields(head.headers.as_ref());
            shared.record(number, |request| {
                request.head = fields;
                (request.head_ends, request.ended) = (ends, ends);
            });
            return Recorded::OfRequest(!ends, ends);
        }
        RequestMessage::RequestBody(piece) => {
            shared.record(number, |request| {
                request.body.extend_from_slice(&piece.body);
                request.pieces += 1;
                request.ended = piece.end_of_stream;
            });
            return Recorded::OfRequest(true, piece.end_of_stream);
        }
        RequestMessage::ResponseHeaders(head) => {
            let fields = fields(head.headers.as_ref());
            let status = fields.iter().find(|(name, _)| name == ":status");
            let status = status.map(|(_, value)| value.clone()).unwrap_or_default();
            *served_by = served(message.metadata_context);
            shared.record(number, |request| {
                request.served = Some((status, served_by.clone()));
                request.response.head_ends = head.end_of_stream;
            });
        }
        RequestMessage::ResponseBody(piece) => shared.record(number, |request| {
            assert!(!request.response.ended, "nothing follows the last piece");
            request.response.body.extend_from_slice(&piece.body);
            request.response.ended = piece.end_of_stream;
        }),
        RequestMessage::ResponseTrailers(trailers) => {
            let trailers = fields(trailers.trailers.as_ref());
            shared.record(number, |request| request.response.trailers = trailers);
        }
    }
    Recorded::OfResponse(message_of)
}

fn fields(map: Option<&HeaderMap>) -> Vec<(String, String)> {
    let fields = map.expect("fields").headers.iter();
    fields
        .map(|field| (field.key.clone(), text(field.bytes())))
        .collect()
}

/// The endpoint that served a request.
fn served(metadata: Option<Metadata>) -> String {
    let mut namespaces = metadata.expect("metadata").filter_metadata;
    let fields = namespaces.remove("envoy.lb").expect("of envoy.lb").fields;
    match &fields["x-gateway-destination-endpoint-served"].kind {
        Some(ValueKind::String(served)) => served.clone(),
        other => panic!("no text: {other:?}"),
    }
}

/// The responses to a message about a request.
fn react(behavior: &PickerBehavior, has_body: bool, is_last: bool) -> Vec<ProcessingResponse> {
    match behavior {
        PickerBehavior::Answers(code, body) => vec![immediate(*code, body)],
        _ if is_last => verdict(behavior, has_body),
        _ => Vec::new(),
    }
}

fn verdict(behavior: &PickerBehavior, has_body: bool) -> Vec<ProcessingResponse> {
    let names = |endpoints: &[SocketAddr]| {
        let names: Vec<String> = endpoints.iter().map(ToString::to_string).collect();
        names.join(",")
    };
    let head = |names: &str| {
        let set = vec![
            set("x-gateway-destination-endpoint", names),
            set("X-Picked", "yes"),
            set("content-length", "1"),
        ];
        response(ResponseMessage::RequestHeaders(phase(Some(set), None)))
    };
    let body = |mutation| response(ResponseMessage::RequestBody(phase(None, mutation)));
    let kept = || has_body.then(|| body(None));
    match behavior {
        PickerBehavior::PicksLate(endpoints, pause) => {
            std::thread::sleep(*pause);
            verdict(&PickerBehavior::Picks(endpoints.clone()), has_body)
        }
        PickerBehavior::Picks(endpoints) => [head(&names(endpoints))]
            .into_iter()
            .chain(kept())
            .collect(),
        PickerBehavior::Names(names) => [head(names)].into_iter().chain(kept()).collect(),
        PickerBehavior::Replaces(endpoints, text) => {
            let (first, second) = text.split_at(text.len() / 2);
            let piece = |text: &str, end_of_stream| {
                body(Some(MutatedBody::Streamed(HttpBody {
                    body: text.as_bytes().to_vec(),
                    end_of_stream,
                })))
            };
            vec![
                head(&names(endpoints)),
                piece(first, false),
                piece(second, true),
            ]
        }
        PickerBehavior::Answers(..) | PickerBehavior::Fails(_) | PickerBehavior::Nothing => {
            Vec::new()
        }
    }
}

fn phase(set: Option<Vec<HeaderValueOption>>, body: Option<MutatedBody>) -> PhaseResponse {
    PhaseResponse {
        response: Some(CommonResponse {
            header_mutation: set.map(mutation),
            body_mutation: body.map(|it| BodyMutation { mutation: Some(it) }),
            ..CommonResponse::default()
        }),
    }
}

fn mutation(set_headers: Vec<HeaderValueOption>) -> HeaderMutation {
    HeaderMutation {
        set_headers,
        remove_headers: Vec::new(),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
