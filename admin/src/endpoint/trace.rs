//! `/debug/trace`: tells of the next requests as they happen, as a stream of events (SSE).

use std::sync::Arc;
use std::time::Duration;

use admin_types::trace::{Event, Message, Severity};
use bytes::Bytes;
use http::{Method, StatusCode};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{Instant, Interval, interval, sleep_until};
use xds::model::GatewayDuration;

use super::{Asked, Endpoint};
use crate::ask::{self, Ask};
use crate::limits::{KEEPALIVE, TRACE_TIMEOUT_MAX, TRACED_REQUESTS};
use crate::query::{Query, clipped};
use crate::server::{Answer, Body, ErrorForm, Piece, Refusal, Shared};
use crate::watch::{Wanted, Watch};

pub(super) const ENDPOINT: Endpoint = Endpoint {
    path: "/debug/trace",
    methods: &[Method::GET, Method::POST],
    parameters: &["count", "match", "requestId", "timeout"],
    usage: "GET /debug/trace, with ?count=N for more requests than the next one, \
            match=METHOD host/path-prefix and requestId=ID for certain ones, timeout=30s for an end",
    errors: ErrorForm::Json,
    answer: |asked| Box::pin(answer(asked)),
};

async fn answer(asked: Asked<'_>) -> Result<Answer, Refusal> {
    let (wanted, count) = wanted(&asked.query).map_err(Refusal::bad_parameter)?;
    let timeout = timeout(&asked.query).map_err(Refusal::bad_parameter)?;
    let place = Arc::clone(&asked.shared.traces).try_acquire_owned();
    let place = place.map_err(|_| Refusal::busy("too many traces are armed: end one of them"))?;
    let (watch, events) = Watch::new(wanted, count);
    let stuck = arm(asked.shared, &watch).await;
    let (sender, body) = mpsc::channel(PIECES);
    let stream = Stream {
        watch,
        stuck,
        events,
        sender,
        keepalive: interval(KEEPALIVE),
        _place: place,
    };
    tokio::task::spawn_local(stream.run(timeout.map(|timeout| Instant::now() + timeout)));
    Ok(Answer::new(
        StatusCode::OK,
        "text/event-stream",
        Body::Pieces(body),
    ))
}

/// Events on their way to the connection. Few: more wait where their loss is counted.
const PIECES: usize = 8;

pub(crate) fn wanted(query: &Query<'_>) -> Result<(Wanted, u32), String> {
    let count = query.number("count", 1..=TRACED_REQUESTS)?.unwrap_or(1);
    let text = query.text("match").unwrap_or_default();
    let parsed =
        Wanted::parse(text).map_err(|why| format!("`{}` is no match: {why}", clipped(text)))?;
    let request_id = query.text("requestId").map(str::to_owned);
    if request_id.as_ref().is_some_and(String::is_empty) {
        return Err("the requestId is empty".to_owned());
    }
    Ok((
        Wanted {
            request_id,
            ..parsed
        },
        count,
    ))
}

/// `30s`, or a number of seconds.
pub(crate) fn timeout(query: &Query<'_>) -> Result<Option<Duration>, String> {
    let Some(text) = query.text("timeout") else {
        return Ok(None);
    };
    let seconds = text.parse().map(Duration::from_secs).ok();
    let timeout = seconds.or_else(|| GatewayDuration::parse(text).ok().map(|parsed| parsed.0));
    match timeout {
        Some(timeout) if !timeout.is_zero() && timeout <= TRACE_TIMEOUT_MAX => Ok(Some(timeout)),
        _ => Err(format!("`{}` is no timeout from 1ms to 24h", clipped(text))),
    }
}

/// Arms the watch on every shard, so that a request sent after this is seen. Returns the numbers of
/// those that gave no answer in time: their requests are seen once they come round to it.
async fn arm(shared: &Shared, watch: &Arc<Watch>) -> Vec<usize> {
    let question = |reply| Ask::Trace(Arc::clone(watch), reply);
    let armed = ask::all(&shared.handles.shards, question).await;
    let armed = armed.into_iter().enumerate();
    armed
        .filter_map(|(shard, armed)| armed.is_none().then_some(shard))
        .collect()
}

/// A stream of events to one watcher.
struct Stream {
    watch: Arc<Watch>,
    /// Shards that it is not armed on yet.
    stuck: Vec<usize>,
    events: mpsc::Receiver<Event>,
    sender: mpsc::Sender<Piece>,
    keepalive: Interval,
    _place: OwnedSemaphorePermit,
}

/// The watcher left.
struct Left;

impl Stream {
    async fn run(mut self, until: Option<Instant>) {
        // Without a watcher nobody learns of the end.
        let _ = self.told(until).await;
        self.watch.disarm();
    }

    async fn told(&mut self, until: Option<Instant>) -> Result<(), Left> {
        self.send(": ready\n\n".to_owned()).await?;
        for shard in &self.stuck {
            let comment = format!(": shard {shard} did not answer\n\n");
            self.send(comment).await?;
        }
        // Its first tick comes at once.
        self.keepalive.reset();
        self.follow(until).await?;
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
        self.sender.send(Piece::End).await.map_err(|_| Left)
    }

    /// Passes events on until the requests are over, or the time is.
    async fn follow(&mut self, until: Option<Instant>) -> Result<(), Left> {
        let watch = Arc::clone(&self.watch);
        loop {
            tokio::select! {
                biased;
                Some(event) = self.events.recv() => self.event(&event).await?,
                () = watch.is_over() => return Ok(()),
                () = at(until) => return Ok(()),
                () = self.sender.closed() => return Err(Left),
                _ = self.keepalive.tick() => self.send(": keepalive\n\n".to_owned()).await?,
            }
        }
    }

    async fn event(&self, event: &Event) -> Result<(), Left> {
        match serde_json::to_string(event) {
            Ok(json) => self.send(format!("data: {json}\n\n")).await,
            Err(error) => {
                tracing::error!(%error, "an event of a trace cannot be written");
                Ok(())
            }
        }
    }

    async fn send(&self, text: String) -> Result<(), Left> {
        let sent = self.sender.send(Piece::Bytes(Bytes::from(text))).await;
        sent.map_err(|_| Left)
    }
}

async fn at(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::sync::{Semaphore, mpsc};
    use tokio::time::{Instant, interval, timeout_at};

    use super::{ENDPOINT, Piece, Stream, timeout, wanted};
    use crate::query::Query;
    use crate::watch::{Wanted, Watch};

    fn query(text: &str) -> Query<'_> {
        Query::parse(Some(text), ENDPOINT.parameters).expect("known parameters")
    }

    /// Each request is looked at while a watch is armed.
    #[tokio::test]
    async fn a_watch_is_disarmed_when_its_watcher_leaves() {
        let (watch, events) = Watch::new(Wanted::default(), 1);
        let (sender, mut body) = mpsc::channel(1);
        let place = Arc::new(Semaphore::new(1)).try_acquire_owned();
        let stream = Stream {
            watch: Arc::clone(&watch),
            stuck: Vec::new(),
            events,
            sender,
            // Longer than is waited below: a write that fails would end it as well.
            keepalive: interval(Duration::from_hours(1)),
            _place: place.expect("a place"),
        };
        let watcher = async {
            assert!(matches!(body.recv().await, Some(Piece::Bytes(_))));
            drop(body);
        };
        let ended = async { tokio::join!(stream.run(None), watcher) };
        let patience = Duration::from_mins(1);
        timeout_at(Instant::now() + patience, ended)
            .await
            .expect("it ends without a keep-alive");
        watch.is_over().await;
    }

    #[test]
    fn parameters_have_defaults() {
        let (all, count) = wanted(&query("")).expect("nothing is asked for");
        assert_eq!((all, count), (Wanted::default(), 1));
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
    fn bad_parameters_are_refused() {
        for text in [
            "count=0",
            "count=x",
            "count=10001",
            "match=get+/",
            "requestId=",
        ] {
            assert!(wanted(&query(text)).is_err(), "{text}");
        }
    }
}
