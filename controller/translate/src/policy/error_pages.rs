//! Error pages. One with a problem is left out, and the others stay: an error without its page is still an error.

use xds::model::{Content, ErrorPage, ErrorSource, StatusRange};

use super::answer::media_type;
use super::api::{ErrorPageSpec, ErrorSourceSpec, PageBodySpec};
use super::bodies::{Bodies, written};
use crate::status::problem::Problem;
use crate::status::reason::Reason;

/// Lowers the pages of a policy, and returns the problems of those that are left out.
pub(crate) fn lower(
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
        match page(spec, &at, bodies) {
            Ok(Some(page)) => {
                let bytes: usize = page.bodies.iter().map(|it| it.body.len()).sum();
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
            // Its bodies were never read, which their references say.
            Ok(None) => {}
            Err((field, why)) => problem(format!("{at}.{field}"), why),
        }
    }
    ((!pages.is_empty()).then_some(pages), problems)
}

/// A page; `None` if none of its bodies was ever read.
fn page(
    spec: &ErrorPageSpec,
    at: &str,
    bodies: &mut Bodies<'_>,
) -> Result<Option<ErrorPage>, (String, String)> {
    let within = |field: &str, number: usize, most: usize| {
        if (1..=most).contains(&number) {
            return Ok(());
        }
        let why = format!("has {number} items: use 1 to {most}");
        Err((field.to_owned(), why))
    };
    within("statuses", spec.statuses.len(), ErrorPage::MOST_STATUSES)?;
    within("bodies", spec.bodies.len(), ErrorPage::MOST_BODIES)?;
    let statuses = spec.statuses.iter().enumerate().map(|(index, text)| {
        StatusRange::parse(text).map_err(|why| (format!("statuses[{index}]"), why.to_string()))
    });
    let statuses = statuses.collect::<Result<Vec<_>, _>>()?;
    let mut contents = Vec::new();
    for (index, spec) in spec.bodies.iter().enumerate() {
        let field = format!("bodies[{index}]");
        let content = content(spec, &format!("{at}.{field}"), bodies);
        contents.extend(content.map_err(|(part, why)| (format!("{field}{part}"), why))?);
    }
    if contents.is_empty() {
        return Ok(None);
    }
    Ok(Some(ErrorPage {
        statuses,
        source: match spec.source {
            ErrorSourceSpec::Gateway => ErrorSource::Gateway,
            ErrorSourceSpec::Backend => ErrorSource::Backend,
            ErrorSourceSpec::Any => ErrorSource::Any,
        },
        bodies: contents,
    }))
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
/// What holds until a body is read for the first time.
const WITHOUT: &str = "the page is without this type";
