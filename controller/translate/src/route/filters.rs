//! The filters of a rule or of one of its backends.

use std::fmt;
use std::num::NonZeroU32;

use xds::model::{FilterSet, Filters, Fraction, Mirror};

use super::api::{FilterType, HttpRouteFilter, HttpRouteMatch, MirrorFilter};
use super::rule::RuleNotes;
use super::{cors, external_auth, header_edit, rewrite};
use crate::backend::referrer::Referrer;
use crate::objects::reader::Reader;
use crate::status::problem::Problem;
use crate::status::reason::Reason;

pub(crate) struct Scope<'s> {
    pub(crate) reader: &'s Reader<'s>,
    pub(crate) from: Referrer<'s>,
    pub(crate) matches: &'s [HttpRouteMatch],
}

/// Lowers the filters listed at `at`.
pub(crate) fn lower(
    scope: &Scope<'_>,
    specs: &[HttpRouteFilter],
    at: impl fmt::Display,
    notes: &mut RuleNotes,
) -> Filters {
    let mut filters = FilterSet::default();
    for (index, spec) in specs.iter().enumerate() {
        let refs_before = notes.refs.len();
        let result = add(scope, spec, &mut filters, notes);
        for problem in notes.refs.iter_mut().skip(refs_before) {
            problem.field = format!("{at}[{index}].{}", problem.field);
        }
        notes.keep(result.map_err(|problem| problem.under(format_args!("{at}[{index}]"))));
    }
    if filters.redirect.is_some() && filters.rewrite.is_some() {
        let message = "RequestRedirect and URLRewrite are mutually exclusive: keep one of them";
        notes
            .problems
            .push(Problem::new(Reason::IncompatibleFilters, at, message));
    }
    filters.into()
}

fn add(
    scope: &Scope<'_>,
    spec: &HttpRouteFilter,
    filters: &mut FilterSet,
    notes: &mut RuleNotes,
) -> Result<(), Problem> {
    match spec.kind {
        FilterType::RequestHeaderModifier => {
            let edit = header_edit::lower(present(spec.request_header_modifier.as_deref())?);
            put(&mut filters.request_headers, edit, "requestHeaderModifier")
        }
        FilterType::ResponseHeaderModifier => {
            let edit = header_edit::lower(present(spec.response_header_modifier.as_deref())?);
            put(
                &mut filters.response_headers,
                edit,
                "responseHeaderModifier",
            )
        }
        FilterType::RequestRedirect => {
            let redirect = present(spec.request_redirect.as_deref())?;
            let redirect = rewrite::redirect(redirect, scope.matches);
            put(&mut filters.redirect, redirect, "requestRedirect")
        }
        FilterType::URLRewrite => {
            let rewrite = rewrite::rewrite(present(spec.url_rewrite.as_deref())?, scope.matches);
            put(&mut filters.rewrite, rewrite, "urlRewrite")
        }
        FilterType::Cors => {
            let cors = cors::lower(present(spec.cors.as_deref())?);
            put(&mut filters.cors, cors, "cors")
        }
        FilterType::RequestMirror => {
            let mirror = mirror(scope, present(spec.request_mirror.as_deref())?, notes);
            let mirror = mirror.map_err(|problem| problem.under("requestMirror"))?;
            filters.mirrors.extend(mirror);
            Ok(())
        }
        FilterType::ExternalAuth => {
            let external_auth = present(spec.external_auth.as_deref())
                .and_then(|it| external_auth::lower(scope.reader, scope.from, it));
            let (auth, problem) = external_auth.map_err(|problem| problem.under("externalAuth"))?;
            filters.external_auth.push(auth);
            let problem = problem.map(|problem| problem.under("externalAuth"));
            notes.refs.extend(problem);
            Ok(())
        }
        FilterType::ExtensionRef | FilterType::Unknown => Err(unsupported(spec.kind)),
    }
}

/// The field that belongs to a filter's type.
fn present<T>(field: Option<&T>) -> Result<&T, Problem> {
    field.ok_or_else(|| {
        let message = "the field for this type is required: add it";
        Problem::new(Reason::UnsupportedValue, "type", message)
    })
}

/// Stores a filter, unless there is one of its type already.
fn put<T>(
    place: &mut Option<T>,
    filter: Result<T, Problem>,
    field: &'static str,
) -> Result<(), Problem> {
    let filter = filter.map_err(|problem| problem.under(field))?;
    if place.replace(filter).is_none() {
        return Ok(());
    }
    let message = "this type of filter is used twice: keep one of them";
    Err(Problem::new(Reason::IncompatibleFilters, "type", message))
}

fn unsupported(kind: FilterType) -> Problem {
    let message = format!("filters of type {kind:?} are not supported: remove it");
    Problem::new(Reason::UnsupportedValue, "type", message)
}

/// A mirror with an unresolved reference is left out, so that the request itself is unaffected.
fn mirror(
    scope: &Scope<'_>,
    spec: &MirrorFilter,
    notes: &mut RuleNotes,
) -> Result<Option<Mirror>, Problem> {
    let fraction = fraction(spec)?;
    let (target, problem) = scope.reader.follow(scope.from, (&spec.backend_ref).into());
    let Some(problem) = problem else {
        return Ok(Some(Mirror { target, fraction }));
    };
    notes.refs.push(problem.under("requestMirror.backendRef"));
    Ok(None)
}

fn fraction(spec: &MirrorFilter) -> Result<Option<Fraction>, Problem> {
    let (numerator, denominator, field) = match (spec.percent, spec.fraction) {
        (None, None) => return Ok(None),
        (Some(percent), None) => (percent, 100, "percent"),
        (None, Some(fraction)) => (fraction.numerator, fraction.denominator, "fraction"),
        (Some(_), Some(_)) => {
            let message = "percent and fraction are mutually exclusive: keep one of them";
            return Err(Problem::new(Reason::UnsupportedValue, "percent", message));
        }
    };
    let denominator = NonZeroU32::new(denominator).filter(|it| it.get() >= numerator);
    let denominator = denominator.ok_or_else(|| {
        let message = "invalid fraction: use a numerator that does not exceed the denominator, \
                       and a denominator of at least 1";
        Problem::new(Reason::UnsupportedValue, field, message)
    })?;
    Ok(Some(Fraction {
        numerator,
        denominator,
    }))
}
