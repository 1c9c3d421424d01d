//! An endpoint picker of the Inference Extension: `ext_proc` over HTTP/2, in TLS that nobody vouches
//! for or in plain text. Its responses are scripted, and its requests are recorded.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use http::Request;
use rustls::ServerConfig;
use tokio_rustls::TlsAcceptor;

use super::PATIENCE;
use super::calls::{self, CallServer, mutation, set};
use super::pki::authority;

#[expect(dead_code, reason = "the tests look at a part of it")]
#[path = "../../src/upstream/picker/messages.rs"]
mod messages;
use messages::{
    BodyMutation, CommonResponse, HttpBody, ImmediateResponse, MutatedBody, PhaseResponse,
    ProcessingRequest, ProcessingResponse, RequestMessage, ResponseMessage, ValueKind,
};
use mutation::{HeaderMutation, HeaderValueOption, HttpStatus};

/// What a picker does with requests.
#[derive(Debug, Clone)]
pub(crate) enum PickerBehavior {
    /// Names these endpoints, once it has all of the request, and leaves the body alone.
    Picks(Vec<SocketAddr>),
    /// The same, and puts another body in place of the client's, in two pieces.
    Replaces(Vec<SocketAddr>, &'static str),
    /// Answers itself, as soon as it has the head.
    Answers(u32, &'static str),
    /// Names this, whatever it is.
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
    /// Whether the head was all.
    pub(crate) head_ends: bool,
    pub(crate) body: Vec<u8>,
    /// How many pieces the body came in.
    pub(crate) pieces: usize,
    pub(crate) ended: bool,
    /// The status of the response, and the endpoint that gave it.
    pub(crate) served: Option<(String, String)>,
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
    says: Mutex<PickerBehavior>,
    asked: Mutex<Vec<PickerRequest>>,
    changed: Condvar,
}

/// A picker with a self-signed certificate.
pub(crate) fn picker(says: PickerBehavior) -> Picker {
    let pair = authority("nobody").server(&["elsewhere.test"]);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring speaks them")
        .with_no_client_auth()
        .with_single_cert(vec![pair.der()], pair.key())
        .expect("a key that fits");
    config.alpn_protocols = vec![b"h2".to_vec()];
    Picker::start(says, Some(Arc::new(config)))
}

/// A picker in plain text.
pub(crate) fn plain_picker(says: PickerBehavior) -> Picker {
    Picker::start(says, None)
}

impl Picker {
    fn start(says: PickerBehavior, tls: Option<Arc<ServerConfig>>) -> Self {
        let shared = Arc::new(Shared {
            says: Mutex::new(says),
            asked: Mutex::default(),
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

    /// From now on says this.
    pub(crate) fn now_says(&self, says: PickerBehavior) {
        *self.shared.says.lock().expect("no holder panics") = says;
    }

    /// What it received so far, in the order of heads.
    pub(crate) fn asked(&self) -> Vec<PickerRequest> {
        self.shared.log().clone()
    }

    /// Clears what it received.
    pub(crate) fn forgets(&self) {
        self.shared.log().clear();
    }

    /// Waits until it is called.
    #[track_caller]
    pub(crate) fn waits_for_question(&self) {
        let is_idle = |asked: &mut Vec<PickerRequest>| asked.is_empty();
        let changed = &self.shared.changed;
        let waited = changed.wait_timeout_while(self.shared.log(), PATIENCE, is_idle);
        let (_asked, timeout) = waited.expect("no holder panics");
        assert!(!timeout.timed_out(), "nobody asked the picker");
    }

    /// What it received about the only request, once it has received the response.
    #[track_caller]
    pub(crate) fn learns_of_response(&self) -> PickerRequest {
        let has = |asked: &mut Vec<PickerRequest>| !asked.iter().any(|it| it.served.is_some());
        let waited = self
            .shared
            .changed
            .wait_timeout_while(self.shared.log(), PATIENCE, has);
        let (asked, _) = waited.expect("no holder panics");
        let found = asked.iter().find(|it| it.served.is_some()).cloned();
        drop(asked);
        found.expect("the picker should have learnt of a response")
    }
}

impl Shared {
    fn log(&self) -> MutexGuard<'_, Vec<PickerRequest>> {
        self.asked.lock().expect("no holder panics")
    }

    fn note(&self, number: usize, note: impl FnOnce(&mut PickerRequest)) {
        note(&mut self.log()[number]);
        self.changed.notify_all();
    }
}

/// One call: one request of the gateway.
async fn answer(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    shared: Arc<Shared>,
) -> Result<(), h2::Error> {
    let number = {
        let mut log = shared.log();
        log.push(PickerRequest::default());
        shared.changed.notify_all();
        log.len() - 1
    };
    let says = shared.says.lock().expect("no holder panics").clone();
    let mut sending = calls::begin(&mut respond)?;
    let mut body = request.into_body();
    let mut bytes = Vec::new();
    while let Some(data) = body.data().await {
        let data = data?;
        body.flow_control().release_capacity(data.len())?;
        bytes.extend_from_slice(&data);
        while let Some(message) = calls::take(&mut bytes) {
            let answers = react(&says, message, &shared, number);
            for answer in answers {
                send(&mut sending, &answer).await?;
            }
            if let PickerBehavior::Fails(status) = says {
                return calls::end(&mut sending, status);
            }
        }
    }
    calls::end(&mut sending, "0")
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

/// Takes note of a message, and says what there is to say to it.
fn react(
    says: &PickerBehavior,
    message: ProcessingRequest,
    shared: &Shared,
    number: usize,
) -> Vec<ProcessingResponse> {
    let metadata = message.metadata_context;
    match message.request.expect("a oneof is set") {
        RequestMessage::RequestHeaders(head) => {
            let ends = head.end_of_stream;
            let fields = head.headers.expect("a head").headers;
            let fields = fields
                .iter()
                .map(|field| (field.key.clone(), text(field.bytes())));
            let fields = fields.collect();
            shared.note(number, |asked| {
                asked.head = fields;
                (asked.head_ends, asked.ended) = (ends, ends);
            });
            match says {
                PickerBehavior::Answers(code, body) => vec![immediate(*code, body)],
                _ if ends => verdict(says, false),
                _ => Vec::new(),
            }
        }
        RequestMessage::RequestBody(piece) => {
            shared.note(number, |asked| {
                asked.body.extend_from_slice(&piece.body);
                asked.pieces += 1;
                asked.ended = piece.end_of_stream;
            });
            if piece.end_of_stream {
                verdict(says, true)
            } else {
                Vec::new()
            }
        }
        RequestMessage::ResponseHeaders(head) => {
            let fields = head.headers.expect("a head").headers;
            let status = fields.iter().find(|field| field.key == ":status");
            let status = status.map(|field| text(field.bytes())).unwrap_or_default();
            let mut namespaces = metadata.expect("metadata").filter_metadata;
            let fields = namespaces.remove("envoy.lb").expect("of envoy.lb").fields;
            let served = &fields["x-gateway-destination-endpoint-served"].kind;
            let Some(ValueKind::String(served)) = served else {
                panic!("no text: {served:?}");
            };
            shared.note(number, |asked| {
                asked.served = Some((status, served.clone()));
            });
            // As the pickers of the conformance suite do: everything is set again.
            let mut fields: Vec<_> = ["x-served-by"].map(|name| set(name, served)).into();
            fields.push(set(":status", "200"));
            fields.push(set("content-type", "text/picked"));
            let edits = phase(Some(fields), None);
            vec![response(ResponseMessage::ResponseHeaders(edits))]
        }
        RequestMessage::ResponseBody(_) => panic!("nobody asked for bodies of responses"),
    }
}

fn verdict(says: &PickerBehavior, has_body: bool) -> Vec<ProcessingResponse> {
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
    match says {
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

fn immediate(code: u32, body: &str) -> ProcessingResponse {
    let code = i32::try_from(code).expect("a status");
    response(ResponseMessage::ImmediateResponse(ImmediateResponse {
        status: Some(HttpStatus { code }),
        headers: Some(mutation(vec![set("content-type", "application/json")])),
        body: body.as_bytes().to_vec(),
    }))
}

fn response(message: ResponseMessage) -> ProcessingResponse {
    ProcessingResponse {
        response: Some(message),
        dynamic_metadata: None,
    }
}

fn phase(set: Option<Vec<HeaderValueOption>>, body: Option<MutatedBody>) -> PhaseResponse {
    PhaseResponse {
        response: Some(CommonResponse {
            header_mutation: set.map(mutation),
            body_mutation: body.map(|it| BodyMutation { mutation: Some(it) }),
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
