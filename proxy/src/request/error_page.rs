//! Pages of policies in the place of the contents of errors that the gateway generates.

use std::time::Instant;

use http::StatusCode;

use crate::channel::relay::Side;
use crate::config::PagesInForce;
use crate::exchange::local_body::Page;
use crate::exchange::page_fetch::{PageFetch, UploadState};
use crate::exchange::{ConnectionOutcome, Exchange};
use crate::failure::{Failure, FailureKind};
use crate::http::h1::encode::field;
use crate::policy::answer::{ChosenPage, PageContent, PageServer, PageSource};
use crate::policy::normalise::Target;

impl<'a> Exchange<'a> {
    /// The page of an error, if it has one: of the rule's policies, or of its listener's where no rule is known.
    /// gRPC has none.
    ///
    /// # Errors
    ///
    /// The client left while a server was asked for the page.
    pub(super) async fn page_of(
        &mut self,
        (kind, status): (FailureKind, StatusCode),
        target: Option<Target<'_>>,
    ) -> Result<Option<Page<'a>>, Failure> {
        let pages: Option<&'a PagesInForce> = match (self.record.rule, self.record.listener) {
            (Some(rule), _) => rule.error_pages(),
            (None, Some(listener)) => listener.error_pages.as_ref(),
            (None, None) => None,
        };
        let Some(pages) = pages.filter(|_| !self.record.is_grpc) else {
            return Ok(None);
        };
        let accept = self.received.values(b"accept");
        let page = pages
            .pages
            .choose(status.as_u16(), PageSource::Gateway, accept);
        match page {
            None => Ok(None),
            Some(ChosenPage {
                policy,
                content: PageContent::Server(server),
            }) if asks_nobody(kind) => {
                if let Some(trace) = &self.record.trace {
                    let error = (status.as_u16(), PageSource::Gateway);
                    let why = "no server is asked about a request that is shed or exceeds a limit";
                    trace.served_page(policy, error, server, Some(why));
                }
                Ok(None)
            }
            Some(ChosenPage {
                policy,
                content: PageContent::Server(server),
            }) => {
                // Boxed: few errors have one.
                let error = (kind, status);
                Box::pin(self.served_page(pages, (policy, server), error, target)).await
            }
            Some(ChosenPage {
                policy,
                content: PageContent::Body { content, varies },
            }) => {
                if let Some(trace) = &self.record.trace {
                    trace.error_page(policy, status.as_u16(), PageSource::Gateway);
                }
                let mut lines = content.type_line.to_vec();
                if varies {
                    field(&mut lines, b"Vary", b"Accept");
                }
                let body = self.filled(status, &content.body);
                Ok(Some(Page { lines, body }))
            }
        }
    }

    async fn served_page(
        &mut self,
        pages: &PagesInForce,
        (policy, server): (&str, &PageServer),
        (kind, status): (FailureKind, StatusCode),
        target: Option<Target<'_>>,
    ) -> Result<Option<Page<'a>>, Failure> {
        self.ensure_id();
        let fetch = PageFetch {
            proxy: self.proxy,
            holds: self.holds,
            received: self.received,
            client: Side {
                until: self.until(kind),
                ..Side::of(&self.client.stream, &self.client.deadline)
            },
            upload: UploadState::Over,
            record: &self.record,
            target,
        };
        let fetched = fetch.fetch(pages, server, status).await;
        let fetched = fetched.inspect_err(|_| self.record.status = status.as_u16())?;
        if let Some(trace) = &self.record.trace {
            let failed = fetched.as_ref().err().map(|it| it.why);
            trace.served_page(
                policy,
                (status.as_u16(), PageSource::Gateway),
                server,
                failed,
            );
        }
        Ok(fetched.ok())
    }

    /// When the request has to be over by its route. One that took longer is late already, and waits for its page
    /// like all others.
    fn until(&self, kind: FailureKind) -> Option<Instant> {
        let is_late = matches!(
            kind,
            FailureKind::RequestTimeout | FailureKind::UpstreamTimeout
        );
        let timeout = self.record.rule.filter(|_| !is_late)?.request_timeout()?;
        self.record.started.checked_add(timeout)
    }

    /// Sends the page of an error, with the response lines written so far.
    pub(super) async fn send_page(
        &mut self,
        (kind, status): (FailureKind, StatusCode),
        page: Page<'a>,
    ) -> Result<ConnectionOutcome, Failure> {
        self.shard.counters.error_pages.count(PageSource::Gateway);
        self.work.response_lines.extend_from_slice(&page.lines);
        self.respond_to(kind, status, &page.body).await
    }
}

/// Whether a page server is not asked for the page of such an error: what is refused because there is too much of it
/// would only become load elsewhere.
fn asks_nobody(kind: FailureKind) -> bool {
    matches!(
        kind,
        FailureKind::Overloaded
            | FailureKind::RateLimited
            | FailureKind::UpstreamFull
            | FailureKind::RetriesOverBudget
    )
}
