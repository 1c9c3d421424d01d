//! Paths that probably match something else than was meant.

use super::view::{Matches, RouteView};
use super::{Diagnosis, finding};
use crate::level::Level;
use crate::route::api::PathMatchType;
use crate::status::Reason;

pub(super) fn examine(route: &RouteView<'_>, found: &mut Vec<Diagnosis>) {
    for (index, rule) in route.rules.iter().enumerate() {
        let Matches::Http(rule) = rule.matches else {
            continue;
        };
        for (at, of_match) in rule.matches.iter().enumerate() {
            let path = &of_match.path;
            let Some(text) = surprise(path.kind, &path.value) else {
                continue;
            };
            let field = format!("spec.rules[{index}].matches[{at}].path.value");
            let field = (field, Reason::LiteralWildcard);
            found.push(finding(&route.object, Level::Warning, field, text));
        }
    }
}

fn surprise(kind: PathMatchType, value: &str) -> Option<String> {
    let (start, _) = value.split_once('*')?;
    match kind {
        PathMatchType::PathPrefix => {
            let prefix = match start.trim_end_matches('/') {
                "" => "/",
                prefix => prefix,
            };
            Some(format!(
                "`*` stands for itself here: `{value}` matches only paths that contain it. PathPrefix `{prefix}` \
                 matches every path below"
            ))
        }
        PathMatchType::Exact => Some(format!(
            "`*` stands for itself here: `{value}` matches only this path. Use PathPrefix for every path below, or \
             RegularExpression"
        )),
        PathMatchType::RegularExpression | PathMatchType::Unknown => None,
    }
}
