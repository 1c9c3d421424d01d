//! Reports a response to the picker: its head, and the endpoint that served it.

use super::Pick;
use super::messages::{ProcessingResponse, ResponseMessage};
use super::response_message::response_head;
use crate::config::Endpoint;
use crate::http::head::ResponseHead;
use crate::limits::PICKER_RESPONSE_PATIENCE;
use crate::policy::mutation::Mutation;
use crate::upstream::call::{CallError, More};

impl Pick<'_> {
    /// Reports the response to the picker, and returns the picker's changes to its head. If the
    /// picker does not answer in time, the response is sent unchanged: the client should not wait
    /// for it.
    pub(crate) async fn report_response(
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
                    // Too late to replace the response: the pod has responded.
                    Some(ResponseMessage::ImmediateResponse(_)) => return Ok(None),
                    // Still about the request.
                    _ => {}
                }
            }
        };
        match told.await {
            Ok(Some(edits)) => {
                if let Err(error) = mutation.take(&edits, |name| head.fields.has_name(name, bytes))
                {
                    let endpoint = &call.endpoint().name;
                    tracing::debug!(%endpoint, %error, "ignored an endpoint picker's edits of the response head");
                    return Mutation::default();
                }
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
