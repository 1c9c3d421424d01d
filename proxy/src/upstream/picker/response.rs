//! What a picker is told of a response: its head, and which endpoint gave it.

use super::Pick;
use super::messages::{ProcessingResponse, ResponseMessage};
use super::telling::response_head;
use crate::config::Endpoint;
use crate::http::head::ResponseHead;
use crate::limits::PICKER_RESPONSE_PATIENCE;
use crate::policy::mutation::Mutation;
use crate::upstream::call::{CallError, More};

impl Pick<'_> {
    /// Tells the picker of the response that the client gets. What it changes in the head; nothing
    /// where it does not say in time, for the response is there.
    pub(crate) async fn tell_response(
        &mut self,
        head: &ResponseHead,
        bytes: &[u8],
        served: &Endpoint,
    ) -> Mutation {
        let mut mutation = Mutation::default();
        let Some((call, mut answers)) = self.call.take() else {
            return mutation;
        };
        call.wait_at_most(Some(PICKER_RESPONSE_PATIENCE));
        let told = async {
            call.send(&response_head(head, bytes, served), More::No)
                .await?;
            loop {
                let answer = answers.next::<ProcessingResponse>(&call).await?;
                match answer.ok_or(CallError::Broken)?.response {
                    Some(ResponseMessage::ResponseHeaders(phase)) => {
                        return Ok(phase.response.and_then(|it| it.header_mutation));
                    }
                    // Whatever it would answer instead, the pod has answered.
                    Some(ResponseMessage::ImmediateResponse(_)) => return Ok(None),
                    // It speaks of the request still.
                    _ => {}
                }
            }
        };
        match told.await {
            Ok(Some(edits)) => {
                mutation.take(&edits, |name| head.fields.has_name(name, bytes));
            }
            Ok(None) => {}
            Err(error) => {
                let endpoint = &call.endpoint().name;
                let error: CallError = error;
                tracing::debug!(%endpoint, %error, "an endpoint picker failed during the response");
            }
        }
        mutation
    }
}
