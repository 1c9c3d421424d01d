//! `/debug/trace`: traces the next matching requests as a stream of server-sent events.

use std::sync::Arc;
use std::time::Duration;

use admin_types::trace::{Event, Message, Severity};
use bytes::Bytes;
use http::{Method, StatusCode};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{Instant, Interval, interval, sleep_until};
use xds::model::GatewayDuration;

use super::context::Context;
use super::handler::{Endpoint, EndpointRequest};
use crate::limits::{KEEPALIVE_INTERVAL, MAX_TRACE_TIMEOUT, MAX_TRACED_REQUESTS};
use crate::query::{Query, clipped};
use crate::response::{Body, Chunk, ErrorFormat, ErrorResponse, Response};
use crate::shard::{self, ShardQuery};
use crate::watch::{TraceFilter, Watch};

pub(super) const ENDPOINT: Endpoint = Endpoint {
    path: "/debug/trace",
    methods: &[Method::GET, Method::POST],
    parameters: &["count", "match", "requestId", "timeout"],
    usage: "GET /debug/trace; ?count=N traces more requests than the next one, \
            match=METHOD host/path-prefix and requestId=ID select requests, timeout=30s ends the trace",
    errors: ErrorFormat::Json,
    handle: |request| Box::pin(handle(request)),
};

async fn handle(request: EndpointRequest<'_>) -> Result<Response, ErrorResponse> {
    let (filter, count) = filter(&request.query).map_err(ErrorResponse::bad_parameter)?;
    let timeout = timeout(&request.query).map_err(ErrorResponse::bad_parameter)?;
    let permit = Arc::clone(&request.context.traces).try_acquire_owned();
    let permit =
        permit.map_err(|_| ErrorResponse::busy("too many active traces: end one of them"))?;
    let (watch, events) = Watch::new(filter, count);
    let stuck = arm(request.context, &watch).await;
    let (sender, body) = mpsc::channel(QUEUED_EVENTS);
    let stream = Stream {
        watch,
        stuck,
        events,
        sender,
        keepalive: interval(KEEPALIVE_INTERVAL),
        _permit: permit,
    };
    tokio::task::spawn_local(stream.run(timeout.map(|timeout| Instant::now() + timeout)));
    Ok(Response::new(
        StatusCode::OK,
        "text/event-stream",
        Body::Chunks(body),
    ))
}

/// Events queued for the connection: few, since further ones queue in the watch, which counts losses.
const QUEUED_EVENTS: usize = 8;

pub(crate) fn filter(query: &Query<'_>) -> Result<(TraceFilter, u32), String> {
    let count = query.number("count", 1..=MAX_TRACED_REQUESTS)?.unwrap_or(1);
    let text = query.text("match").unwrap_or_default();
    let parsed = TraceFilter::parse(text)
        .map_err(|why| format!("invalid match `{}`: {why}", clipped(text)))?;
    let request_id = query.text("requestId").map(str::to_owned);
    if request_id.as_ref().is_some_and(String::is_empty) {
        return Err("the parameter `requestId` is empty".to_owned());
    }
    Ok((
        TraceFilter {
            request_id,
            ..parsed
        },
        count,
    ))
}

/// The parameter `timeout`: a Gateway API duration such as `30s`, or a number of seconds.
pub(crate) fn timeout(query: &Query<'_>) -> Result<Option<Duration>, String> {
    let Some(text) = query.text("timeout") else {
        return Ok(None);
    };
    let seconds = text.parse().map(Duration::from_secs).ok();
    let timeout = seconds.or_else(|| GatewayDuration::parse(text).ok().map(|parsed| parsed.0));
    match timeout {
        Some(timeout) if !timeout.is_zero() && timeout <= MAX_TRACE_TIMEOUT => Ok(Some(timeout)),
        _ => Err(format!(
            "invalid timeout `{}`: the range is 1ms to 24h",
            clipped(text)
        )),
    }
}

/// Adds the watch to every shard, so that requests sent after this are traced. Returns the ids of
/// shards that did not respond in time: they start tracing later.
async fn arm(context: &Context, watch: &Arc<Watch>) -> Vec<usize> {
    let query = |reply| ShardQuery::Trace(Arc::clone(watch), reply);
    let armed = shard::query_all(&context.handles.shards, query).await;
    let armed = armed.into_iter().enumerate();
    armed
        .filter_map(|(shard, armed)| armed.is_none().then_some(shard))
        .collect()
}

/// A stream of events to one client.
struct Stream {
    watch: Arc<Watch>,
    /// Shards that did not confirm the watch in time.
    stuck: Vec<usize>,
    events: mpsc::Receiver<Event>,
    sender: mpsc::Sender<Chunk>,
    keepalive: Interval,
    _permit: OwnedSemaphorePermit,
}

/// The client has disconnected.
struct Disconnected;

impl Stream {
    async fn run(mut self, deadline: Option<Instant>) {
        // An error means that the client has disconnected.
        let _ = self.stream(deadline).await;
        self.watch.disarm();
    }

    async fn stream(&mut self, deadline: Option<Instant>) -> Result<(), Disconnected> {
        self.send(": ready\n\n".to_owned()).await?;
        for shard in &self.stuck {
            let comment = format!(": shard {shard} did not respond\n\n");
            self.send(comment).await?;
        }
        // The first tick of an interval is immediate.
        self.keepalive.reset();
        self.follow(deadline).await?;
        while let Ok(event) = self.events.try_recv() {
            self.event(&event).await?;
        }
        if self.watch.lost() > 0 {
            let lost = Event {
                event_start: 0,
                event_end: 0,
                shard: 0,
                request_id: None,
                severity: Severity::Warn,
                message: Message::EventsLost {
                    count: self.watch.lost(),
                },
            };
            self.event(&lost).await?;
        }
        self.sender.send(Chunk::End).await.map_err(|_| Disconnected)
    }

    /// Forwards events until the traced requests have finished, or the deadline.
    async fn follow(&mut self, deadline: Option<Instant>) -> Result<(), Disconnected> {
        let watch = Arc::clone(&self.watch);
        loop {
            tokio::select! {
                biased;
                Some(event) = self.events.recv() => self.event(&event).await?,
                () = watch.is_over() => return Ok(()),
                () = at(deadline) => return Ok(()),
                () = self.sender.closed() => return Err(Disconnected),
                _ = self.keepalive.tick() => self.send(": keepalive\n\n".to_owned()).await?,
            }
        }
    }

    async fn event(&self, event: &Event) -> Result<(), Disconnected> {
        match serde_json::to_string(event) {
            Ok(json) => self.send(format!("data: {json}\n\n")).await,
            Err(error) => {
                tracing::error!(%error, "cannot serialize a trace event");
                Ok(())
            }
        }
    }

    async fn send(&self, text: String) -> Result<(), Disconnected> {
        let sent = self.sender.send(Chunk::Bytes(Bytes::from(text))).await;
        sent.map_err(|_| Disconnected)
    }
}

async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::sync::{Semaphore, mpsc};
    use tokio::time::{Instant, interval, timeout_at};

    use super::{Chunk, ENDPOINT, Stream, filter, timeout};
    use crate::query::Query;
    use crate::watch::{TraceFilter, Watch};

    fn query(text: &str) -> Query<'_> {
        Query::parse(Some(text), ENDPOINT.parameters).expect("known parameters")
    }

    /// An armed watch costs time on every request.
    #[tokio::test]
    async fn a_watch_is_disarmed_when_its_client_disconnects() {
        let (watch, events) = Watch::new(TraceFilter::default(), 1);
        let (sender, mut body) = mpsc::channel(1);
        let permit = Arc::new(Semaphore::new(1)).try_acquire_owned();
        let stream = Stream {
            watch: Arc::clone(&watch),
            stuck: Vec::new(),
            events,
            sender,
            // Longer than the wait below: a failed keep-alive would also end the stream.
            keepalive: interval(Duration::from_hours(1)),
            _permit: permit.expect("a permit"),
        };
        let watcher = async {
            assert!(matches!(body.recv().await, Some(Chunk::Bytes(_))));
            drop(body);
        };
        let ended = async { tokio::join!(stream.run(None), watcher) };
        let limit = Duration::from_mins(1);
        timeout_at(Instant::now() + limit, ended)
            .await
            .expect("it ends without a keep-alive");
        watch.is_over().await;
    }

    #[test]
    fn parameters_have_defaults() {
        let (all, count) = filter(&query("")).expect("the defaults");
        assert_eq!((all, count), (TraceFilter::default(), 1));
        assert_eq!(timeout(&query("")), Ok(None));
    }

    #[test]
    fn timeouts_are_durations_or_seconds() {
        for (text, millis) in [
            ("timeout=30s", 30_000),
            ("timeout=5", 5_000),
            ("timeout=250ms", 250),
        ] {
            assert_eq!(
                timeout(&query(text)),
                Ok(Some(Duration::from_millis(millis)))
            );
        }
        for text in [
            "timeout=",
            "timeout=0",
            "timeout=0s",
            "timeout=-1",
            "timeout=25h",
            "timeout=x",
        ] {
            assert!(timeout(&query(text)).is_err(), "{text}");
        }
    }

    #[test]
    fn invalid_parameters_are_rejected() {
        for text in [
            "count=0",
            "count=x",
            "count=10001",
            "match=get+/",
            "requestId=",
        ] {
            assert!(filter(&query(text)).is_err(), "{text}");
        }
    }
}
