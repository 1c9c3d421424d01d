//! What the gateway answers itself.

use http::HeaderValue;

use super::field_path::FieldPath;
use super::filter::header_field;
use super::value::{choice, non_zero, set_text, target};
use crate::model::{
    AnswerContent, AnswerStatus, Body, Content, ErrorPage, ErrorSource, PageContent, RespondPolicy,
    StatusRange,
};
use crate::proto;

pub(super) fn respond_policy(
    at: &FieldPath<'_>,
    message: proto::RespondPolicy,
) -> Option<RespondPolicy> {
    let status = at.field("status").accept(AnswerStatus::new(message.status));
    let content = at.optional("content", message.content, content);
    let number = message.headers.len();
    let headers = at.list("headers", message.headers, header_field);
    if number > RespondPolicy::MOST_HEADERS {
        let most = RespondPolicy::MOST_HEADERS;
        return at
            .field("headers")
            .problem(format!("there are {number}: use {most} or less"));
    }
    let retry_after = at.optional("retry_after", message.retry_after, non_zero);
    let except = at.optional("except", message.except, set_text);
    let (status, content) = (status?, content?);
    if (content.is_some() || message.content_missing) && !status.has_content() {
        let code = status.code().as_u16();
        return at
            .field("content")
            .problem(format!("an answer of status {code} has none"));
    }
    Some(RespondPolicy {
        status,
        content: match content {
            Some(content) => AnswerContent::Given(content),
            None if message.content_missing => AnswerContent::Missing,
            None => AnswerContent::Empty,
        },
        headers: headers?,
        retry_after: retry_after?,
        except: except?,
    })
}

pub(super) fn error_pages(
    at: &FieldPath<'_>,
    message: proto::ErrorPages,
) -> Option<Vec<ErrorPage>> {
    let number = message.pages.len();
    let pages = at.list("pages", message.pages, error_page);
    within(&at.field("pages"), number, ErrorPage::MOST_PAGES)?;
    pages
}

fn error_page(at: &FieldPath<'_>, message: proto::ErrorPage) -> Option<ErrorPage> {
    let (ranges, types) = (message.statuses.len(), message.bodies.len());
    let statuses = at.list("statuses", message.statuses, |at, range| {
        at.accept(StatusRange::new(range.first, range.last))
    });
    let source = choice(&at.field("source"), message.source, |it| match it {
        proto::ErrorSource::Unspecified => None,
        proto::ErrorSource::Gateway => Some(ErrorSource::Gateway),
        proto::ErrorSource::Backend => Some(ErrorSource::Backend),
        proto::ErrorSource::Any => Some(ErrorSource::Any),
    });
    let bodies = at.list("bodies", message.bodies, content);
    let server = at.optional("server", message.server, target);
    within(&at.field("statuses"), ranges, ErrorPage::MOST_STATUSES)?;
    let content = match server? {
        Some(_) if types > 0 => {
            let bodies = at.field("bodies");
            return bodies.problem("a page with a server has none".to_owned());
        }
        Some(server) => PageContent::Server(server),
        None => {
            within(&at.field("bodies"), types, ErrorPage::MOST_BODIES)?;
            PageContent::Bodies(bodies?)
        }
    };
    Some(ErrorPage {
        statuses: statuses?,
        source: source?,
        content,
    })
}

/// A number of items, which is not 0.
pub(super) fn within(at: &FieldPath<'_>, number: usize, most: usize) -> Option<()> {
    if (1..=most).contains(&number) {
        return Some(());
    }
    at.problem(format!("there are {number}: use 1 to {most}"))
}

fn content(at: &FieldPath<'_>, message: proto::Content) -> Option<Content> {
    let media_type = at.field("media_type");
    let media_type = if message.media_type.is_empty() {
        media_type.missing()
    } else {
        let value = HeaderValue::from_bytes(&message.media_type);
        media_type.accept(value.map_err(|_| "has characters that a header field must not have"))
    };
    let (number, most) = (message.body.len(), Body::MOST);
    if number > most {
        return at
            .field("body")
            .problem(format!("has {number} bytes: use {most} or less"));
    }
    Some(Content {
        media_type: media_type?,
        body: Body::new(&message.body),
    })
}
