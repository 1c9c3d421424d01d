//! Error pages. One with a problem is left out, and the others stay: an error without its page is still an error.

use xds::model::{Content, ErrorPage, ErrorSource, PageContent, StatusRange};

use super::answer::media_type;
use super::api::{ErrorPageSpec, ErrorSourceSpec, PageBodySpec};
use super::bodies::{Bodies, written};
use crate::backend::referrer::Referrer;
use crate::status::problem::Problem;
use crate::status::reason::Reason;

/// Lowers the pages of the policy `from`, and returns the problems of those that are left out.
pub(crate) fn lower(
    from: Referrer<'_>,
    specs: &[ErrorPageSpec],
    bodies: &mut Bodies<'_>,
) -> (Option<Vec<ErrorPage>>, Vec<Problem>) {
    let mut problems = Vec::new();
    let mut problem = |field: String, why: String| {
        let why = why + LEFT_OUT;
        problems.push(Problem::new(Reason::Invalid, field, why));
    };
    if specs.is_empty() {
        problem(String::new(), "has no page: add one".to_owned());
    }
    let mut pages = Vec::new();
    let mut room = ErrorPage::MOST_BYTES;
    for (index, spec) in specs.iter().enumerate() {
        let at = format!("[{index}]");
        if index >= ErrorPage::MOST_PAGES {
            let most = ErrorPage::MOST_PAGES;
            problem(at, format!("is beyond the {most} pages of a policy"));
            break;
        }
        match page(from, spec, &at, bodies) {
            Ok(Some(page)) => {
                let bytes = page.content.bytes();
                match room.checked_sub(bytes) {
                    Some(left) => {
                        room = left;
                        pages.push(page);
                    }
                    None => problem(
                        format!("{at}.bodies"),
                        format!(
                            "the bodies of a policy have {} bytes at most: use smaller ones, or several policies",
                            ErrorPage::MOST_BYTES
                        ),
                    ),
                }
            }
            // Its references do not resolve, which their problems say.
            Ok(None) => {}
            Err((field, why)) => problem(format!("{at}.{field}"), why),
        }
    }
    ((!pages.is_empty()).then_some(pages), problems)
}

/// A page; `None` if none of its bodies was ever read, or its server does not resolve.
fn page(
    from: Referrer<'_>,
    spec: &ErrorPageSpec,
    at: &str,
    bodies: &mut Bodies<'_>,
) -> Result<Option<ErrorPage>, (String, String)> {
    within("statuses", spec.statuses.len(), ErrorPage::MOST_STATUSES)?;
    let statuses = spec.statuses.iter().enumerate().map(|(index, text)| {
        StatusRange::parse(text).map_err(|why| (format!("statuses[{index}]"), why.to_string()))
    });
    let statuses = statuses.collect::<Result<Vec<_>, _>>()?;
    let content = match &spec.backend_ref {
        Some(_) if !spec.bodies.is_empty() => {
            let why = "set exactly one of bodies and backendRef".to_owned();
            return Err(("bodies".to_owned(), why));
        }
        Some(reference) => {
            let field = format!("{at}.backendRef");
            bodies.follow(from, reference, &field, UNRESOLVED)
        }
        None => page_bodies(spec, at, bodies)?,
    };
    Ok(content.map(|content| ErrorPage {
        statuses,
        source: match spec.source {
            ErrorSourceSpec::Gateway => ErrorSource::Gateway,
            ErrorSourceSpec::Backend => ErrorSource::Backend,
            ErrorSourceSpec::Any => ErrorSource::Any,
        },
        content,
    }))
}

fn within(field: &str, number: usize, most: usize) -> Result<(), (String, String)> {
    if (1..=most).contains(&number) {
        return Ok(());
    }
    let why = format!("has {number} items: use 1 to {most}");
    Err((field.to_owned(), why))
}

/// The bodies of a page; `None` if none of them was ever read.
fn page_bodies(
    spec: &ErrorPageSpec,
    at: &str,
    bodies: &mut Bodies<'_>,
) -> Result<Option<PageContent>, (String, String)> {
    within("bodies", spec.bodies.len(), ErrorPage::MOST_BODIES)?;
    let mut contents = Vec::new();
    for (index, spec) in spec.bodies.iter().enumerate() {
        let field = format!("bodies[{index}]");
        let content = content(spec, &format!("{at}.{field}"), bodies);
        contents.extend(content.map_err(|(part, why)| (format!("{field}{part}"), why))?);
    }
    Ok((!contents.is_empty()).then_some(PageContent::Bodies(contents)))
}

/// A body with its type; `None` if it was never read.
fn content(
    spec: &PageBodySpec,
    at: &str,
    bodies: &mut Bodies<'_>,
) -> Result<Option<Content>, (&'static str, String)> {
    let media_type = media_type(&spec.content_type).map_err(|why| (".contentType", why))?;
    let body = match (&spec.body, &spec.body_from) {
        (Some(text), None) => Some(written(text).map_err(|why| (".body", why))?),
        (None, Some(reference)) => bodies.read(reference, &format!("{at}.bodyFrom"), WITHOUT),
        _ => return Err(("", "set exactly one of body and bodyFrom".to_owned())),
    };
    Ok(body.map(|body| Content { media_type, body }))
}

/// What happens to a page with a problem.
const LEFT_OUT: &str = "; the page is left out, the others stay";
/// What holds while a page server does not resolve.
const UNRESOLVED: &str = "its errors get the next page that is for them";
/// What holds until a body is read for the first time.
const WITHOUT: &str = "the page is without this type";
