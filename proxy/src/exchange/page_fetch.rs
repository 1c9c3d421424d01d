//! Asks a page server for the page of an error.

use std::time::{Duration, Instant};

use http::StatusCode;
use rand::RngExt;

use super::local_body::{LocalBody, Page};
use super::scratch::Received;
use super::{Exchange, Holds, Proxy, RequestRecord};
use crate::channel::relay::Side;
use crate::config::{Cluster, ClusterIndex, PagesInForce, Rule};
use crate::failure::{Failure, FailureKind};
use crate::limits::{PAGE_BYTES, PAGE_TIMEOUT};
use crate::net::Liveness;
use crate::policy::answer::{PageRequest, PageResult, PageServer, is_page_request, page_lines};
use crate::policy::normalise::Target;
use crate::policy::request_id::RequestId;
use crate::shard::deadline::Deadline;
use crate::upstream::subrequest::{self, BodyNeed, NoBody, Subrequest, SubrequestLimits};

/// The parts of an exchange that the request for a page uses.
pub(crate) struct PageFetch<'f, 'a> {
    pub(crate) proxy: &'f Proxy,
    pub(crate) holds: &'f Holds,
    pub(crate) received: &'f Received,
    pub(crate) client: Side<'f>,
    pub(crate) upload: UploadState,
    pub(crate) record: &'f RequestRecord<'a>,
    pub(crate) target: Option<Target<'f>>,
}

/// Whether the body of the request is received while its page is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UploadState {
    Running,
    /// It is complete, or nothing more of it is read.
    Over,
}

/// Why there is no page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NoPage {
    pub(crate) result: PageResult,
    /// For people.
    pub(crate) why: &'static str,
}

impl NoPage {
    const NO_MEMORY: Self = Self {
        result: PageResult::NoMemory,
        why: "more than half of the memory for buffers is in use",
    };

    fn failed(why: &'static str) -> Self {
        let result = PageResult::Failed;
        Self { result, why }
    }
}

impl PageFetch<'_, '_> {
    /// The page of a server for an error of this status, or why there is none: then the error has a text of the
    /// gateway. Nothing is asked for the page of a failed request for a page.
    ///
    /// # Errors
    ///
    /// The client is gone.
    pub(crate) async fn fetch(
        &self,
        pages: &PagesInForce,
        server: &PageServer,
        status: StatusCode,
    ) -> Result<Result<Page<'static>, NoPage>, Failure> {
        let deadline = self.client.deadline;
        // Left over of an earlier wait, it would look as if the client were gone.
        deadline.expired();
        let fetched = self.ask(pages, server, status).await;
        deadline.disarm();
        if deadline.expired() {
            return Err(FailureKind::ClientGone.into());
        }
        let result = fetched.as_ref().err();
        let result = result.map_or(PageResult::Received, |it| it.result);
        self.proxy.shard.counters.page_requests.count(result);
        if let Err(NoPage { why, .. }) = &fetched {
            tracing::debug!(server = &*server.name, why, "no page for an error");
        }
        Ok(fetched)
    }

    async fn ask(
        &self,
        pages: &PagesInForce,
        server: &PageServer,
        status: StatusCode,
    ) -> Result<Page<'static>, NoPage> {
        if is_page_request(|name| self.received.values(name)) {
            return Err(NoPage {
                result: PageResult::Nested,
                why: "the request is itself one for a page",
            });
        }
        let timeout = timeout(self.client.until, Instant::now());
        let timeout = timeout.ok_or(NoPage::failed("the request's timeout leaves no time"))?;
        // A buffer may grow to twice its content.
        if !self.proxy.shard.may_copy(2 * PAGE_BYTES) {
            return Err(NoPage::NO_MEMORY);
        }
        let cluster = pages.cluster(server);
        let cluster = cluster.map_err(|why| NoPage::failed(why.reason()))?;
        let cluster = self.holds.cluster_of_page(cluster);
        let cluster = cluster.ok_or(NoPage::failed("its cluster is gone"))?;
        let place = self.proxy.page_requests.enter(cluster.id);
        let _place = place.ok_or(NoPage {
            result: PageResult::TooMany,
            why: "too many requests for pages are in flight",
        })?;
        let mut lines = Vec::new();
        self.request(status)
            .write_lines(|name| self.received.values(name), &mut lines);
        let request = Subrequest {
            method: b"GET",
            host: self.received.authority(),
            target: b"/",
            lines: &lines,
            body: b"",
            asked_status: Some(status),
        };
        let limits = SubrequestLimits {
            timeout,
            late: None,
            body_bytes: PAGE_BYTES,
            body_need: BodyNeed::Optional,
            client: self.watched_client(),
        };
        let reply = subrequest::send(&self.proxy.upstreams, cluster, request, limits).await;
        let reply = reply.map_err(|failure| NoPage::failed(failure.kind.reason()))?;
        let lines = page_lines(status, reply.status, &reply.headers);
        let lines = lines.map_err(NoPage::failed)?;
        let mut body = reply.body.map_err(|why| match why {
            NoBody::TooLong => NoPage::failed("its page is too long"),
            NoBody::NoMemory => NoPage::NO_MEMORY,
        })?;
        // It may wait for its client for minutes.
        body.shrink();
        Ok(Page {
            lines,
            body: LocalBody::Kept(body),
        })
    }

    /// The client, if it can be watched: not one from which nothing is read any more, because its body was too slow,
    /// or may be too slow meanwhile. Such a client looks as if it had closed its direction.
    fn watched_client(&self) -> Option<&Deadline> {
        let is_open = matches!(
            self.client.stream.liveness(),
            Liveness::Quiet | Liveness::Readable
        );
        (is_open && self.upload == UploadState::Over).then_some(self.client.deadline)
    }

    fn request(&self, status: StatusCode) -> PageRequest<'_> {
        let record = self.record;
        // A query that may hold a token is for nobody but the backend.
        let original = self.target.map_or(b"/".as_slice(), |target| {
            if record.rule.is_none_or(Rule::hides_query) {
                target.path().as_bytes()
            } else {
                target.text.as_bytes()
            }
        });
        PageRequest {
            status,
            original,
            route: record.rule.map(|rule| &*rule.name),
            backend: record.cluster.map(|cluster| &*cluster.name),
            id: record.id.as_ref().map_or("", RequestId::as_str),
        }
    }
}

impl Holds {
    /// The cluster of a page server: of the rule, or of the listener where no rule is known.
    fn cluster_of_page(&self, index: ClusterIndex) -> Option<&Cluster> {
        match self.rule.get() {
            Some(rule) => Some(rule.cluster(index)),
            None => self.listener.get()?.cluster(index),
        }
    }
}

impl Exchange<'_> {
    /// The id of the request, chosen if nothing needed it before: what somebody is told is in the log too.
    pub(crate) fn ensure_id(&mut self) -> RequestId {
        let received = self.received;
        let (fields, bytes) = (&received.head.fields, received.bytes.as_slice());
        let trust = self.header_trust;
        let id = self.record.id.unwrap_or_else(|| {
            let random = self.shard.with_rng(RngExt::random);
            RequestId::choose(trust, fields, bytes, random)
        });
        self.record.id = Some(id);
        id
    }
}

/// The time for a page: until the deadline of the request, if that is nearer. `None` if that has passed.
fn timeout(until: Option<Instant>, now: Instant) -> Option<Duration> {
    let left = until.map_or(PAGE_TIMEOUT, |until| until.saturating_duration_since(now));
    (!left.is_zero()).then(|| left.min(PAGE_TIMEOUT))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::timeout;
    use crate::limits::PAGE_TIMEOUT;

    #[test]
    fn a_page_takes_no_longer_than_its_request_may() {
        let now = Instant::now();
        let (short, long) = (Duration::from_millis(1), PAGE_TIMEOUT * 2);
        assert_eq!(timeout(None, now), Some(PAGE_TIMEOUT));
        assert_eq!(timeout(Some(now + long), now), Some(PAGE_TIMEOUT));
        assert_eq!(timeout(Some(now + short), now), Some(short));
        assert_eq!(timeout(Some(now), now), None);
        assert_eq!(timeout(Some(now), now + short), None);
    }
}
