//! Answers of the gateway itself. Of a policy with a problem none applies: requests would reach backends that are
//! meant to be spared.

use std::num::NonZeroU32;

use http::{HeaderName, HeaderValue};
use xds::model::{
    AnswerContent, AnswerStatus, Content, GatewayDuration, Precedence, RespondPolicy,
};

use super::api::RespondSpec;
use super::bodies::{Bodies, written};
use super::expression::Expression;
use crate::route::api::Header;
use crate::route::header_edit;
use crate::status::problem::Problem;
use crate::status::reason::Reason;

/// Lowers the answer of a policy of this precedence, and returns its problems.
pub(crate) fn lower(
    spec: &RespondSpec,
    precedence: Precedence,
    bodies: &mut Bodies<'_>,
) -> (RespondPolicy, Vec<Problem>) {
    let mut problems = Vec::new();
    let mut keep = |field: &str, result: Result<(), String>| {
        if let Err(why) = result {
            problems.push(Problem::new(Reason::Invalid, field, why));
        }
    };
    let status = status(spec.status);
    keep("status", status.clone().map(drop));
    let most = RespondPolicy::MOST_HEADERS;
    let headers = spec.headers.as_deref().unwrap_or_default();
    if headers.len() > most {
        let message = format!("has {} fields: use {most} or less", headers.len());
        keep("headers", Err(message));
    }
    let mut fields = Vec::new();
    for (index, header) in headers.iter().enumerate() {
        match field(header) {
            Ok(field) => fields.push(field),
            Err((part, why)) => keep(&format!("headers[{index}].{part}"), Err(why)),
        }
    }
    let retry_after = spec.retry_after.as_deref().map(seconds).transpose();
    keep("retryAfter", retry_after.clone().map(drop));
    let except = spec.except.as_deref();
    keep(
        "except",
        except.map_or(Ok(()), |it| exception(it, precedence)),
    );
    if let (Ok(status), Some(field)) = (&status, body_field(spec))
        && !status.has_content()
    {
        let code = status.code().as_u16();
        keep(
            field,
            Err(format!(
                "an answer of status {code} has no body: leave it out"
            )),
        );
    }
    let content = match content(spec, bodies) {
        Ok(content) => content,
        Err((field, why)) => {
            keep(field, Err(why));
            AnswerContent::Empty
        }
    };
    let policy = RespondPolicy {
        status: status.unwrap_or(AnswerStatus::UNAVAILABLE),
        content,
        headers: fields,
        retry_after: retry_after.unwrap_or_default(),
        except: spec.except.clone(),
    };
    (policy, problems)
}

/// The status of an answer.
pub(crate) fn status(number: u32) -> Result<AnswerStatus, String> {
    AnswerStatus::new(number).map_err(|why| why.to_string())
}

/// The name of the field that the body is in.
fn body_field(spec: &RespondSpec) -> Option<&'static str> {
    let written = spec.body.as_ref().map(|_| "body");
    written.or(spec.body_from.as_ref().map(|_| "bodyFrom"))
}

fn content(
    spec: &RespondSpec,
    bodies: &mut Bodies<'_>,
) -> Result<AnswerContent, (&'static str, String)> {
    let text = spec.content_type.as_deref();
    let media_type = media_type(text.unwrap_or(Content::DEFAULT_TYPE));
    let media_type = media_type.map_err(|why| ("contentType", why))?;
    let body = match (&spec.body, &spec.body_from) {
        (Some(_), Some(_)) => {
            let message = "body and bodyFrom are mutually exclusive: keep one of them";
            return Err(("body", message.to_owned()));
        }
        (Some(text), None) => written(text).map_err(|why| ("body", why))?,
        (None, Some(reference)) => match bodies.read(reference, "bodyFrom", BUILT_IN) {
            Some(body) => body,
            None => return Ok(AnswerContent::Missing),
        },
        (None, None) if text.is_some() => {
            let message = "is of a body: add body or bodyFrom, or leave it out";
            return Err(("contentType", message.to_owned()));
        }
        (None, None) => return Ok(AnswerContent::Empty),
    };
    Ok(AnswerContent::Given(Content { media_type, body }))
}

/// The value of `Content-Type`.
pub(crate) fn media_type(text: &str) -> Result<HeaderValue, String> {
    let essence = text.split(';').next().unwrap_or_default().trim();
    let is_token = |part: &str| HeaderName::from_bytes(part.as_bytes()).is_ok();
    let is_type = |(kind, subtype)| is_token(kind) && is_token(subtype);
    let value = HeaderValue::from_str(text).ok();
    let value = value.filter(|_| essence.split_once('/').is_some_and(is_type));
    value.ok_or_else(|| {
        format!("`{text}` is not a media type: use a form such as `text/html; charset=utf-8`")
    })
}

/// A header field of an answer, or what is wrong with which part of it.
pub(crate) fn field(header: &Header) -> Result<(HeaderName, HeaderValue), (&'static str, String)> {
    let name = field_name(&header.name).map_err(|why| ("name", why))?;
    let value = HeaderValue::from_str(&header.value).map_err(|_| {
        let message = "has characters that are not allowed in a header: remove them";
        ("value", message.to_owned())
    })?;
    Ok((name, value))
}

/// The name of a header field of an answer.
pub(crate) fn field_name(text: &str) -> Result<HeaderName, String> {
    let name = header_edit::name(text).map_err(|problem| problem.message)?;
    match name.as_str() {
        "content-type" => Err("is the type of the body: set contentType instead".to_owned()),
        "retry-after" => Err("has a field of its own: set retryAfter instead".to_owned()),
        "date" => Err("is written by the gateway: leave it out".to_owned()),
        _ => Ok(name),
    }
}

/// Seconds of a duration, rounded up.
pub(crate) fn seconds(text: &str) -> Result<NonZeroU32, String> {
    let duration = GatewayDuration::parse(text)
        .map_err(|why| why.to_string())?
        .0;
    let begun = u64::from(duration.subsec_nanos() > 0);
    let seconds = duration.as_secs().saturating_add(begun);
    let seconds = u32::try_from(seconds).ok().and_then(NonZeroU32::new);
    seconds.ok_or_else(|| "is no time to wait: use 1s or more, or leave it out".to_owned())
}

/// Checks the condition of requests that go on to their backends.
pub(crate) fn exception(text: &str, precedence: Precedence) -> Result<(), String> {
    let expression = Expression::parse(text).map_err(|why| why.to_string())?;
    if precedence == Precedence::Overrides && expression.reads_claims() {
        return Err(
            "reads claims, which are not known yet: an overriding policy answers before credentials are \
             verified. Use client.address, request.host, request.path or request.headers"
                .to_owned(),
        );
    }
    Ok(())
}

/// What holds until a body is read for the first time.
const BUILT_IN: &str = "the answer has its status and a text of the gateway";
