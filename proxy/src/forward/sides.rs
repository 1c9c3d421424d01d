//! Splits an exchange into the parts used by the request body and by the response.

use crate::channel::relay::Side;
use crate::exchange::Exchange;
use crate::exchange::scratch::Received;
use crate::http::h1::HeadLimits;
use crate::http::known::KnownHeader;
use crate::policy::mutation::Mutation;

use super::attempt::Attempt;
use super::download::ResponseSide;
use super::upload::RequestSide;

impl<'a> Exchange<'a> {
    /// The two parts, borrowed separately.
    pub(crate) fn sides(
        &mut self,
        attempt: &Attempt<'_>,
    ) -> (RequestSide<'_>, ResponseSide<'_, 'a>) {
        let persist = self.persistence();
        let received: &'a Received = self.received;
        let rule = attempt.matched.rule;
        let limits = &rule.limits;
        let response_limits = HeadLimits::of_response(&attempt.destination.backend.limits);
        let work = &mut *self.work;
        let request = RequestSide {
            buffer: &mut *self.buffer,
            decoder: &mut work.request_body,
            out: &mut work.to_upstream,
        };
        let client = Side {
            stream: &self.client.stream,
            deadline: &self.client.deadline,
            idle: limits.write_idle_timeout,
            until: attempt.until,
        };
        let response = ResponseSide {
            client,
            version: received.head.version,
            request_kind: received.request_kind(),
            limits: response_limits,
            persist,
            response: &mut work.response,
            decoder: &mut work.response_body,
            lines: &mut work.response_lines,
            out: &mut work.to_client,
            record: &mut self.record,
            bind: self.client.bind,
            origin: received
                .head
                .fields
                .value(KnownHeader::Origin, &received.bytes),
            received,
            picked: self.picked.as_deref_mut(),
            proxy: self.proxy,
            holds: self.holds,
            rate_limited: self.rate_limited.as_deref(),
            granted: self.server_decision.as_deref().map(|it| &it.response),
            changed: Mutation::default(),
        };
        (request, response)
    }
}
