//! Arms a trace, sends the request, and reads what the gateway tells of it. Every wait ends.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use http::StatusCode;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use xds::model::GatewayDuration;

use super::event::Seen;
use super::injected::Injected;
use super::sse::{Item, Reader};
use crate::client::Client;
use crate::log::escaped;

/// What came of a trace.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// The events, in their order; at least one.
    pub(crate) events: Vec<Seen>,
    /// Why there may be more to tell.
    pub(crate) trouble: Option<String>,
}

/// Takes each event as it comes: its JSON, and what that says.
pub(crate) type Sink<'a> = &'a mut dyn FnMut(&str, &Seen) -> Result<()>;

/// Traces a request of ours, or the next one of anybody.
///
/// # Errors
/// The gateway cannot be asked, or saw no request in time.
pub(crate) fn follow(client: &Client, request: Option<Injected>, sink: Sink<'_>) -> Result<Told> {
    client.block_on(async {
        let mut stream = Stream::armed(client, request.as_ref()).await?;
        let until = Instant::now() + client.timeout();
        let sending = match request {
            None => None,
            Some(request) => {
                let connection = timeout_at(until, request.connect()).await;
                let connection = connection.map_err(|_| request.unreachable())??;
                Some(tokio::spawn(request.send(connection)))
            }
        };
        let mut following = Following {
            told: Told::default(),
            answer: Answer::Coming,
            until,
        };
        following.run(&mut stream, sending, sink).await?;
        following.end(client.timeout())
    })
}

/// What is known of the answer to our own request.
enum Answer {
    Coming,
    Came(StatusCode),
    Failed(anyhow::Error),
}

struct Following {
    told: Told,
    answer: Answer,
    until: Instant,
}

impl Following {
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
                item = timeout_at(self.until, stream.next()) => match item {
                    Ok(Ok(Some(Item::Data(text)))) => self.event(&text, sink)?,
                    Ok(Ok(Some(Item::Comment(_)))) => {}
                    Ok(Ok(None)) => return Ok(()),
                    Ok(Err(error)) if self.told.events.is_empty() => return Err(error),
                    Ok(Err(error)) => {
                        self.told.trouble = Some(format!("{error:#}"));
                        return Ok(());
                    }
                    Err(_) => {
                        self.told.trouble = Some(LATE.to_owned());
                        return Ok(());
                    }
                },
                answer = sent => {
                    sending = None;
                    self.answered(answer.context("the request could not be sent")?);
                }
            }
        }
    }

    fn event(&mut self, text: &str, sink: Sink<'_>) -> Result<()> {
        let Some(seen) = Seen::read(text) else {
            bail!("what the gateway sends is no trace; is it an admin server?");
        };
        if self.told.events.len() >= EVENTS {
            bail!("the trace of one request has more than {EVENTS} events; is it an admin server?");
        }
        // Only between the tokens of JSON can there be a line's end.
        sink(&text.replace('\n', " "), &seen)?;
        self.told.events.push(seen);
        Ok(())
    }

    /// Once the answer is there, so is what there is to tell.
    fn answered(&mut self, answer: Result<StatusCode>) {
        self.until = self.until.min(Instant::now() + STRAGGLERS);
        self.answer = match answer {
            Ok(status) => Answer::Came(status),
            Err(error) => Answer::Failed(error),
        };
    }

    /// A trace without events is none.
    fn end(self, timeout: Duration) -> Result<Told> {
        if !self.told.events.is_empty() {
            return Ok(self.told);
        }
        match self.answer {
            Answer::Coming => bail!(
                "the gateway saw no such request within {timeout:?}; give it longer with --timeout"
            ),
            Answer::Failed(error) => Err(error),
            Answer::Came(status) if REFUSALS.contains(&status.as_u16()) => bail!(
                "the answer came ({status}), and no trace: a gateway may refuse such a request before it \
                 is traced. If it was this one, gateway_refused_total in its metrics counts it by \
                 reason; if not, is the port one of its listeners'? `gwctl config listeners` shows them"
            ),
            Answer::Came(status) => bail!(
                "the answer came ({status}), but not from this gateway: is the port one of its \
                 listeners'? `gwctl config listeners` shows them"
            ),
        }
    }
}

const LATE: &str = "the trace did not end in time, so there may be more to tell; give it longer with \
    --timeout";

/// What a gateway answers where it refuses a request for its form or size, before it looks for a
/// route.
const REFUSALS: [u16; 7] = [400, 408, 413, 414, 417, 431, 501];

/// More than one request can have: 10 000 events.
const EVENTS: usize = 10_000;
/// Between the answer's end and that of its trace, which takes another way: 2 s.
const STRAGGLERS: Duration = Duration::from_secs(2);

/// What the gateway says.
struct Stream {
    body: Incoming,
    reader: Reader,
    items: VecDeque<Item>,
}

impl Stream {
    /// A trace that is armed on every shard.
    async fn armed(client: &Client, request: Option<&Injected>) -> Result<Self> {
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
            bail!("the gateway ended the trace before it began; is it shutting down?")
        };
        let armed = timeout_at(Instant::now() + client.timeout(), ready).await;
        armed.map_err(|_| {
            anyhow!(
                "the gateway was not ready to trace within {:?}; give it longer with --timeout",
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
            let frame = frame.context("the trace broke off")?;
            let mut items = Vec::new();
            let read = self
                .reader
                .feed(frame.data_ref().map_or(&[], |it| it), &mut items);
            read.map_err(|_| anyhow!("an event is longer than 4 MiB; is it an admin server?"))?;
            self.items.extend(items);
        }
    }
}

/// Where the trace is; the gateway forgets it when nobody waits for it any more.
fn path(timeout: Duration, request: Option<&Injected>) -> String {
    let timeout = GatewayDuration(timeout.min(DAY));
    match request {
        None => format!("/debug/trace?timeout={timeout}"),
        Some(request) => {
            let id = escaped(request.id());
            format!("/debug/trace?requestId={id}&timeout={timeout}")
        }
    }
}

/// The longest trace of a gateway.
const DAY: Duration = Duration::from_hours(24);
