//! Load balancers that ask whether this proxy takes requests.

use http::StatusCode;

use crate::exchange::local_body::LocalBody;
use crate::exchange::{ConnectionOutcome, Exchange};
use crate::failure::Failure;
use crate::policy::normalise::Target;
use crate::trace::PolicyEffect;

impl Exchange<'_> {
    /// Whether the request is a load balancer's question.
    pub(super) fn is_health_check(&self, target: Target<'_>) -> bool {
        let path = self.bind.health_path.as_ref();
        path.is_some_and(|path| path.as_str() == target.path())
            && matches!(self.received.method(), b"GET" | b"HEAD")
    }

    /// Answers it: until the proxy drains, it takes requests, however many it has.
    pub(super) async fn answer_health_check(&mut self) -> Result<ConnectionOutcome, Failure> {
        let (status, body, effect) = if self.shard.draining.is_announced() {
            let body = b"draining\n".as_slice();
            (
                StatusCode::SERVICE_UNAVAILABLE,
                body,
                "answered it: draining",
            )
        } else {
            (StatusCode::OK, b"ok\n".as_slice(), "answered it")
        };
        self.trace_policy("healthPath", PolicyEffect::Applied(effect));
        self.respond_unedited(status, &LocalBody::Bytes(body)).await
    }
}
