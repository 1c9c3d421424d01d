//! What the gateway answers itself.

use super::value::list;
use crate::model::{AnswerContent, Content, ErrorPage, ErrorSource, RespondPolicy, StatusRange};
use crate::proto;

impl From<&RespondPolicy> for proto::RespondPolicy {
    fn from(policy: &RespondPolicy) -> Self {
        let (content, content_missing) = match &policy.content {
            AnswerContent::Empty => (None, false),
            AnswerContent::Missing => (None, true),
            AnswerContent::Given(content) => (Some(content.into()), false),
        };
        Self {
            status: policy.status.code().as_u16().into(),
            content,
            content_missing,
            headers: list(&policy.headers),
            retry_after: policy.retry_after.map(Into::into),
            except: policy.except.clone(),
        }
    }
}

impl From<&Vec<ErrorPage>> for proto::ErrorPages {
    fn from(pages: &Vec<ErrorPage>) -> Self {
        Self { pages: list(pages) }
    }
}

impl From<&ErrorPage> for proto::ErrorPage {
    fn from(page: &ErrorPage) -> Self {
        let source = match page.source {
            ErrorSource::Gateway => proto::ErrorSource::Gateway,
            ErrorSource::Backend => proto::ErrorSource::Backend,
            ErrorSource::Any => proto::ErrorSource::Any,
        };
        Self {
            statuses: list(&page.statuses),
            source: source.into(),
            bodies: list(page.content.bodies()),
            server: page.server().map(Into::into),
        }
    }
}

impl From<&StatusRange> for proto::StatusRange {
    fn from(range: &StatusRange) -> Self {
        Self {
            first: range.first().into(),
            last: range.last().into(),
        }
    }
}

impl From<&Content> for proto::Content {
    fn from(content: &Content) -> Self {
        Self {
            media_type: content.media_type.as_bytes().to_vec(),
            body: content.body.bytes().to_vec(),
        }
    }
}
