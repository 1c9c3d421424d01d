//! Starts a trace, sends the request, and reads the events of the trace. Every wait has a timeout.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use http::StatusCode;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use xds::model::GatewayDuration;

use super::event::TraceEvent;
use super::request::TracedRequest;
use super::sse::{Item, Reader};
use crate::client::Client;
use crate::log::escaped;

/// The result of a trace.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    /// In order of arrival; at least one.
    pub(crate) events: Vec<TraceEvent>,
    /// Why the trace may be incomplete; None where it is complete.
    pub(crate) incomplete: Option<String>,
}

/// Receives each event as it arrives, as JSON and parsed.
pub(crate) type Sink<'a> = &'a mut dyn FnMut(&str, &TraceEvent) -> Result<()>;

/// Traces `request`, or the next request of any client where there is none.
///
/// # Errors
/// The gateway is unreachable, or received no such request in time.
pub(crate) fn follow(
    client: &Client,
    request: Option<TracedRequest>,
    sink: Sink<'_>,
) -> Result<Trace> {
    client.block_on(async {
        let mut stream = Stream::open(client, request.as_ref()).await?;
        let deadline = Instant::now() + client.timeout();
        let sending = match request {
            None => None,
            Some(request) => {
                let connection = timeout_at(deadline, request.connect()).await;
                let connection = connection.map_err(|_| request.unreachable())??;
                Some(tokio::spawn(request.send(connection)))
            }
        };
        let mut follower = Follower {
            trace: Trace::default(),
            response: ResponseState::Pending,
            deadline,
        };
        follower.run(&mut stream, sending, sink).await?;
        follower.finish(client.timeout())
    })
}

/// The state of the response to our own request.
enum ResponseState {
    Pending,
    Received(StatusCode),
    Failed(anyhow::Error),
}

struct Follower {
    trace: Trace,
    response: ResponseState,
    deadline: Instant,
}

impl Follower {
    async fn run(
        &mut self,
        stream: &mut Stream,
        mut sending: Option<JoinHandle<Result<StatusCode>>>,
        sink: Sink<'_>,
    ) -> Result<()> {
        loop {
            let sent = async {
                match &mut sending {
                    Some(sending) => sending.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                item = timeout_at(self.deadline, stream.next()) => match item {
                    Ok(Ok(Some(Item::Data(text)))) => self.event(&text, sink)?,
                    Ok(Ok(Some(Item::Comment(_)))) => {}
                    Ok(Ok(None)) => return Ok(()),
                    Ok(Err(error)) if self.trace.events.is_empty() => return Err(error),
                    Ok(Err(error)) => {
                        self.trace.incomplete = Some(format!("{error:#}"));
                        return Ok(());
                    }
                    Err(_) => {
                        self.trace.incomplete = Some(TIMED_OUT.to_owned());
                        return Ok(());
                    }
                },
                response = sent => {
                    sending = None;
                    self.record_response(response.context("the request could not be sent")?);
                }
            }
        }
    }

    fn event(&mut self, text: &str, sink: Sink<'_>) -> Result<()> {
        let Some(event) = TraceEvent::parse(text) else {
            bail!("the response is not a trace; is it the address of an admin server?");
        };
        if self.trace.events.len() >= MAX_EVENTS {
            bail!(
                "the trace of one request has more than {MAX_EVENTS} events; is it the address of \
                 an admin server?"
            );
        }
        // JSON strings contain no raw line feeds, so this changes white space between tokens only.
        sink(&text.replace('\n', " "), &event)?;
        self.trace.events.push(event);
        Ok(())
    }

    /// After the response, only the trace's last events are still to come.
    fn record_response(&mut self, response: Result<StatusCode>) {
        self.deadline = self.deadline.min(Instant::now() + LAST_EVENTS_TIMEOUT);
        self.response = match response {
            Ok(status) => ResponseState::Received(status),
            Err(error) => ResponseState::Failed(error),
        };
    }

    /// A trace without events is an error.
    fn finish(self, timeout: Duration) -> Result<Trace> {
        if !self.trace.events.is_empty() {
            return Ok(self.trace);
        }
        match self.response {
            ResponseState::Pending => bail!(
                "the gateway received no matching request within {timeout:?}; set a longer timeout \
                 with --timeout"
            ),
            ResponseState::Failed(error) => Err(error),
            ResponseState::Received(status) if EARLY_REJECTIONS.contains(&status.as_u16()) => {
                bail!(
                    "got a response ({status}) but no trace: a gateway rejects malformed requests before \
                 tracing starts. If this gateway rejected it, gateway_refused_total in its metrics \
                 counts it by reason; otherwise check the port against `gwctl config listeners`, and write \
                 https:// in the URL if its listener is of HTTPS"
                )
            }
            ResponseState::Received(status) => bail!(
                "got a response ({status}), but not from this gateway; check the port against \
                 `gwctl config listeners`"
            ),
        }
    }
}

const TIMED_OUT: &str = "timed out before the end of the trace, which may be incomplete; set a longer \
    timeout with --timeout";

/// Statuses with which a gateway rejects a request for its syntax or size, before routing it.
const EARLY_REJECTIONS: [u16; 7] = [400, 408, 413, 414, 417, 431, 501];

/// Limit of events per request: 10 000.
const MAX_EVENTS: usize = 10_000;
/// Wait for the end of the trace after the response, which arrives on another connection: 2 s.
const LAST_EVENTS_TIMEOUT: Duration = Duration::from_secs(2);

/// The event stream of `/debug/trace`.
struct Stream {
    body: Incoming,
    reader: Reader,
    items: VecDeque<Item>,
}

impl Stream {
    /// Opens the stream and waits until every shard traces.
    async fn open(client: &Client, request: Option<&TracedRequest>) -> Result<Self> {
        let path = path(client.timeout(), request);
        let ready = async {
            let body = client.stream(&path).await?;
            let (reader, items) = (Reader::default(), VecDeque::new());
            let mut stream = Self {
                body,
                reader,
                items,
            };
            while let Some(item) = stream.next().await? {
                if item == Item::Comment("ready".to_owned()) {
                    return Ok(stream);
                }
            }
            bail!("the gateway closed the trace before it started; is it shutting down?")
        };
        let opened = timeout_at(Instant::now() + client.timeout(), ready).await;
        opened.map_err(|_| {
            anyhow!(
                "the gateway did not start the trace within {:?}; set a longer timeout with --timeout",
                client.timeout()
            )
        })?
    }

    async fn next(&mut self) -> Result<Option<Item>> {
        loop {
            if let Some(item) = self.items.pop_front() {
                return Ok(Some(item));
            }
            let Some(frame) = self.body.frame().await else {
                return Ok(None);
            };
            let frame = frame.context("the connection to the gateway was lost during the trace")?;
            let mut items = Vec::new();
            let read = self
                .reader
                .feed(frame.data_ref().map_or(&[], |it| it), &mut items);
            read.map_err(|_| {
                anyhow!("an event is longer than 4 MiB; is it the address of an admin server?")
            })?;
            self.items.extend(items);
        }
    }
}

/// Path of the trace, with our timeout, after which the gateway ends it.
fn path(timeout: Duration, request: Option<&TracedRequest>) -> String {
    let timeout = GatewayDuration(timeout.min(MAX_TRACE_TIMEOUT));
    match request {
        None => format!("/debug/trace?timeout={timeout}"),
        Some(request) => {
            let id = escaped(request.id());
            format!("/debug/trace?requestId={id}&timeout={timeout}")
        }
    }
}

/// The gateway's limit for the timeout of a trace: 24 h.
const MAX_TRACE_TIMEOUT: Duration = Duration::from_hours(24);
