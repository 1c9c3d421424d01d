//! The result of processing an object, and what a response of the API server means for it.

use std::time::Duration;

/// The result of processing an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing had to be written.
    Unchanged,
    /// A write; the number identifies its content.
    Written(u64),
    /// A part is done; the rest waits for something in the cluster, and is tried again soon.
    Unfinished,
    /// A conflict: the other write arrives by the watch, or has arrived already.
    Conflict {
        /// Whether it has arrived.
        is_known: bool,
    },
    /// The API server throttles requests.
    Throttled(Option<Duration>),
    /// The API server did not respond, or says that it cannot serve now.
    Unavailable,
    /// The API server failed at this object, with a response that says nothing about others.
    Failed,
    /// This object cannot be written as it is: the API server rejects it, or processing it panicked.
    Refused,
}

/// The outcome of a write for an error of the API server. A response with a `Status` concerns the
/// object that was sent, whatever its code: API servers answer an undeclared field of an applied
/// object with 500, and an exceeded quota with 403.
#[must_use]
pub fn outcome_of(error: &kube::Error) -> Outcome {
    let status = match error {
        kube::Error::Api(status) => status,
        // There was a response, and it cannot be read.
        kube::Error::SerdeError(_) => return Outcome::Failed,
        _ => return Outcome::Unavailable,
    };
    match status.code {
        // The watch will report a deletion.
        404 | 409 => Outcome::Conflict { is_known: false },
        429 => {
            let details = status.details.as_ref();
            let seconds = details.map_or(0, |it| it.retry_after_seconds);
            let after = (seconds > 0).then(|| Duration::from_secs(u64::from(seconds)));
            Outcome::Throttled(after)
        }
        503 | 504 => Outcome::Unavailable,
        400..500 => Outcome::Refused,
        // Of a proxy or load balancer before the API server.
        _ if status.reason == NO_STATUS => Outcome::Unavailable,
        _ => Outcome::Failed,
    }
}

/// The reason that the client gives for a response whose body is not a `Status`.
const NO_STATUS: &str = "Failed to parse error data";

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn a_response_with_a_status_concerns_one_object() {
        for (code, expected) in [
            (400, Outcome::Refused),
            (403, Outcome::Refused),
            (404, Outcome::Conflict { is_known: false }),
            (409, Outcome::Conflict { is_known: false }),
            (422, Outcome::Refused),
            (429, Outcome::Throttled(None)),
            (500, Outcome::Failed),
            (502, Outcome::Failed),
            (503, Outcome::Unavailable),
            (504, Outcome::Unavailable),
        ] {
            let status = Status::failure("text", "InternalError").with_code(code);
            let error = kube::Error::Api(status.boxed());
            assert_eq!(outcome_of(&error), expected, "{code}");
        }
        let page = Status::failure("<html>", NO_STATUS).with_code(502);
        let error = kube::Error::Api(page.boxed());
        assert_eq!(outcome_of(&error), Outcome::Unavailable);
    }
}
