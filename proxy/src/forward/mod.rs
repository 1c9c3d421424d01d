//! Sends a request to its backend and the response to the client, with retries where they are
//! allowed and can help.

mod attempt;
mod choose;
mod download;
mod duplex;
mod error_page;
mod request_attempts;
mod returned_response;
mod sides;
mod through_picker;
mod tunnel;
mod upload;

use crate::exchange::{ConnectionOutcome, Destination, Exchange, Matched};
use crate::failure::{Failure, FailureKind};
use crate::http::head::Framing;

use self::attempt::AttemptEnd;
use self::request_attempts::RequestAttempts;
use self::upload::Upload;

/// Forwards the prepared request. When it returns, the response has been sent.
pub(crate) async fn forward<'a>(
    exchange: &mut Exchange<'a>,
    matched: &Matched<'a>,
    destination: Destination<'a>,
) -> Result<ConnectionOutcome, Failure> {
    let rule = matched.rule;
    if let (Framing::Length(length), Some(max)) = (
        exchange.received.head.framing,
        rule.limits.request_body_bytes,
    ) && length > max.get()
    {
        return Err(FailureKind::BodyTooLarge.into());
    }
    let mut upload = Upload::begin(exchange, rule, destination.cluster)?;
    let result = with_retries(exchange, matched, destination, &mut upload).await;
    upload.finish(exchange.buffer, exchange.shard);
    result
}

async fn with_retries<'a>(
    exchange: &mut Exchange<'a>,
    matched: &Matched<'a>,
    destination: Destination<'a>,
    upload: &mut Upload,
) -> Result<ConnectionOutcome, Failure> {
    let mut attempts = RequestAttempts::begin(exchange, matched.rule, destination.cluster);
    loop {
        let ended =
            match attempt::attempt(exchange, matched, destination, upload, &mut attempts).await {
                Ok(outcome) => return Ok(outcome),
                Err(ended) => ended,
            };
        match ended {
            AttemptEnd::Final(failure) => return Err(failure),
            AttemptEnd::Stale => continue,
            AttemptEnd::Retry => {}
            AttemptEnd::Failed(failure) => {
                let reserved = attempts.reserve_retry_of_failure(failure.kind, upload.replay());
                if let Some(trace) = &exchange.record.trace {
                    trace.retry(failure.to_string(), reserved.err());
                }
                reserved.map_err(|refused| refused.failure().map_or(failure, Failure::from))?;
            }
        }
        attempts.back_off(exchange).await?;
    }
}
