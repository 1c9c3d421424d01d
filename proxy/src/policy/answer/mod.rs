//! What the gateway answers itself: `respond` of a policy in the place of a backend, and pages in the place of the
//! contents of errors.

mod page_server;
mod pages;
mod template;
#[cfg(test)]
mod tests;

use http::StatusCode;
use tracing::warn;
use translate::policy::expression::Expression;
use xds::model::{AnswerContent, Content, RespondPolicy};

use super::authorization::{Attributes, ConditionNetworks, Subject, holds};
use crate::failure::GrpcStatus;
use crate::http::h1::encode::field;
use crate::names::causes;

pub use self::page_server::{PageRequest, PageResult, PageServer, is_page_request, page_lines};
pub use self::pages::{ChosenPage, ErrorPages, PageContent, PageSource, describes_content};
pub use self::template::{Facts, Filled, Template};

causes! {
    /// What a policy with an answer does with a request.
    Decision;
    /// It answers.
    Answered "answered";
    /// It answers, since its exception cannot be evaluated.
    NotEvaluated "except_not_evaluated";
    /// The request goes on.
    Excepted "excepted";
}

/// The compiled answer of a policy.
#[derive(Debug)]
pub struct Respond {
    policy: Box<str>,
    status: StatusCode,
    /// Its header fields, without that of the type.
    lines: Box<[u8]>,
    content: AnswerTemplate,
    except: Option<Expression>,
    networks: ConditionNetworks,
}

/// What an answer contains.
#[derive(Debug)]
enum AnswerTemplate {
    Empty,
    /// The text of the gateway.
    BuiltIn,
    Given(TypedTemplate),
}

/// A content with its type.
#[derive(Debug, PartialEq, Eq)]
pub struct TypedTemplate {
    /// The line with its type.
    pub type_line: Box<[u8]>,
    /// The body.
    pub body: Template,
}

impl TypedTemplate {
    /// Compiles a content.
    #[must_use]
    pub fn compile(content: &Content) -> Self {
        let mut type_line = Vec::new();
        field(
            &mut type_line,
            b"Content-Type",
            content.media_type.as_bytes(),
        );
        Self {
            type_line: type_line.into(),
            body: Template::compile(content),
        }
    }
}

impl Respond {
    /// Compiles the answer of a policy (`kind/namespace/name`). One with an invalid exception has none.
    #[must_use]
    pub fn compile(policy: &str, respond: &RespondPolicy) -> Self {
        let except = respond.except.as_deref().and_then(|except| {
            let parsed = Expression::parse(except);
            parsed
                .inspect_err(|why| {
                    warn!(
                        policy,
                        "`respond` answers every request: its `except` {why}"
                    );
                })
                .ok()
        });
        let mut lines = Vec::new();
        for (name, value) in &respond.headers {
            field(&mut lines, name.as_str().as_bytes(), value.as_bytes());
        }
        if let Some(seconds) = respond.retry_after {
            let mut digits = itoa::Buffer::new();
            let seconds = digits.format(seconds.get());
            field(&mut lines, b"Retry-After", seconds.as_bytes());
        }
        Self {
            policy: policy.into(),
            status: respond.status.code(),
            lines: lines.into(),
            content: match &respond.content {
                AnswerContent::Empty => AnswerTemplate::Empty,
                AnswerContent::Missing => AnswerTemplate::BuiltIn,
                AnswerContent::Given(content) => {
                    AnswerTemplate::Given(TypedTemplate::compile(content))
                }
            },
            networks: ConditionNetworks::of(except.iter()),
            except,
        }
    }

    /// `kind/namespace/name` of the policy.
    #[must_use]
    pub fn policy(&self) -> &str {
        &self.policy
    }

    /// Its status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Its status for gRPC clients.
    #[must_use]
    pub fn grpc_status(&self) -> GrpcStatus {
        grpc_status(self.status)
    }

    /// The lines of its header fields, without that of the type.
    #[must_use]
    pub fn lines(&self) -> &[u8] {
        &self.lines
    }

    /// Its content; `None` without.
    #[must_use]
    pub fn content(&self) -> Option<&TypedTemplate> {
        match &self.content {
            AnswerTemplate::Given(content) => Some(content),
            AnswerTemplate::Empty | AnswerTemplate::BuiltIn => None,
        }
    }

    /// Whether its content is a text of the gateway.
    #[must_use]
    pub fn is_built_in(&self) -> bool {
        matches!(self.content, AnswerTemplate::BuiltIn)
    }

    /// Whether its exception reads headers.
    #[must_use]
    pub fn reads_headers(&self) -> bool {
        self.except.as_ref().is_some_and(Expression::reads_headers)
    }

    /// Whether its exception reads claims.
    #[must_use]
    pub fn reads_claims(&self) -> bool {
        self.except.as_ref().is_some_and(Expression::reads_claims)
    }

    /// Whether some requests may go on.
    #[must_use]
    pub fn has_exception(&self) -> bool {
        self.except.is_some()
    }

    /// Decides about a request; with what is wrong with the exception if it cannot be evaluated.
    #[must_use]
    pub fn decide(&self, subject: Subject<'_>) -> (Decision, Option<String>) {
        let Some(except) = &self.except else {
            return (Decision::Answered, None);
        };
        let attributes = Attributes::of(subject, self.reads_headers());
        match holds(except, &attributes, &self.networks) {
            Ok(true) => (Decision::Excepted, None),
            Ok(false) => (Decision::Answered, None),
            Err(why) => (Decision::NotEvaluated, Some(why)),
        }
    }
}

/// The gRPC status of an answer: a success or a redirect is none to a caller, who waits for messages.
fn grpc_status(status: StatusCode) -> GrpcStatus {
    match status.as_u16() {
        200..=399 | 404 => GrpcStatus::Unimplemented,
        400 | 500 => GrpcStatus::Internal,
        401 => GrpcStatus::Unauthenticated,
        403 => GrpcStatus::PermissionDenied,
        429 | 502 | 503 => GrpcStatus::Unavailable,
        504 => GrpcStatus::DeadlineExceeded,
        _ => GrpcStatus::Unknown,
    }
}
