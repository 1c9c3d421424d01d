//! Pages of policies in the place of the contents of errors that the gateway generates.

use http::StatusCode;

use crate::exchange::{ConnectionOutcome, Exchange};
use crate::failure::{Failure, FailureKind};
use crate::http::h1::encode::field;
use crate::policy::answer::{ChosenPage, ErrorPages, PageSource};

impl<'a> Exchange<'a> {
    /// The page of an error: of the rule's policies, or of its listener's where no rule is known. gRPC has none.
    pub(super) fn page_of(&self, status: StatusCode) -> Option<ChosenPage<'a>> {
        let pages: &'a ErrorPages = match (self.record.rule, self.record.listener) {
            (Some(rule), _) => rule.error_pages()?,
            (None, Some(listener)) => listener.error_pages.as_deref()?,
            (None, None) => return None,
        };
        if self.record.is_grpc {
            return None;
        }
        let accept = self.received.values(b"accept");
        pages.choose(status.as_u16(), PageSource::Gateway, &accept)
    }

    /// Sends the page of an error, with the response lines written so far.
    pub(super) async fn send_page(
        &mut self,
        status: StatusCode,
        kind: FailureKind,
        page: ChosenPage<'a>,
    ) -> Result<ConnectionOutcome, Failure> {
        self.shard.counters.error_pages.count(PageSource::Gateway);
        if let Some(trace) = &self.record.trace {
            trace.error_page(page.policy, status.as_u16(), PageSource::Gateway);
        }
        let lines = &mut self.work.response_lines;
        lines.extend_from_slice(&page.content.type_line);
        if page.varies {
            field(lines, b"Vary", b"Accept");
        }
        let body = self.filled(status, &page.content.body);
        self.respond_to(kind, status, &body).await
    }
}
