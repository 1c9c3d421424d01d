//! Selects the pods of an inference pool for a request, by the pool's endpoint picker.

mod call;

use crate::exchange::{ConnectionOutcome, Destination, Exchange, Matched};
use crate::failure::Failure;
use crate::upstream::picker::{Immediate, PickOutcome};

impl<'a> Exchange<'a> {
    /// Calls the endpoint picker of the selected backend, if it has one, with the prepared request.
    /// If the picker responds to the client itself, the request ends here.
    pub(super) async fn pick(
        &mut self,
        matched: &Matched<'a>,
        destination: Destination<'a>,
    ) -> Result<Option<ConnectionOutcome>, Failure> {
        let Some(picker) = destination.cluster.picker.as_deref() else {
            return Ok(None);
        };
        // Boxed: most requests have no picker, and should not reserve its state.
        match Box::pin(call::call_picker(self, matched, destination, picker)).await? {
            PickOutcome::Picked(picked) => {
                self.picked = Some(Box::new(picked));
                Ok(None)
            }
            PickOutcome::Immediate(immediate) => self
                .answer_for_picker(immediate, destination)
                .await
                .map(Some),
        }
    }

    /// Sends what the picker responds instead of the endpoint, after the request was forwarded
    /// with this outcome.
    pub(super) async fn send_immediate_response(
        &mut self,
        outcome: Result<ConnectionOutcome, Failure>,
        destination: Destination<'a>,
    ) -> Result<ConnectionOutcome, Failure> {
        let immediate = self
            .picked
            .as_mut()
            .and_then(|picked| picked.take_immediate_response());
        match (outcome, immediate) {
            (Err(_), Some(immediate)) => self.answer_for_picker(immediate, destination).await,
            (outcome, _) => outcome,
        }
    }

    async fn answer_for_picker(
        &mut self,
        immediate: Immediate,
        destination: Destination<'a>,
    ) -> Result<ConnectionOutcome, Failure> {
        let Immediate {
            status,
            mutation,
            body,
        } = immediate;
        let policy = destination.backend.policy.as_deref();
        let cors = policy.and_then(|policy| policy.cors.as_ref());
        self.work.response_lines.clear();
        self.write_cors_lines(cors);
        self.respond_for_server(status, (cors, mutation.lines()), body)
            .await
    }
}
