//! Settings of policies that are valid and hardly do what was meant: expressions that are never true, entries that
//! others cancel, trust in everybody.

use xds::model::{PathRewriteRule, Substitution, SubstitutionPart};

use super::view::View;
use super::{Diagnosis, finding};
use crate::level::Level;
use crate::network;
use crate::objects::object_ref::ObjectRef;
use crate::policy::api::{
    ErrorPageSpec, ErrorSourceSpec, NetworksSpec, PathRewriteSpec, TrafficPolicy, TrafficPolicySpec,
};
use crate::policy::expression::Expression;
use crate::status::Reason;

/// What was found at a field.
type Doubt = (Level, String, Reason, String);

pub(super) fn examine(view: &View<'_>, found: &mut Vec<Diagnosis>) {
    for policy in view.store.traffic_policies.values() {
        let spec = &policy.spec;
        let mut doubts = Vec::new();
        expressions(spec, &mut doubts);
        rate_limits(spec, &mut doubts);
        trust(spec, &mut doubts);
        spec.networks
            .iter()
            .for_each(|it| networks(it, &mut doubts));
        let pages = spec.error_pages.as_deref().unwrap_or_default();
        error_pages(pages, &mut doubts);
        let rewrite = spec.path_rewrite.iter();
        rewrite.for_each(|it| path_rewrite(it, &mut doubts));
        let object = ObjectRef::of::<TrafficPolicy>(&policy.metadata.name);
        let doubts = doubts.into_iter();
        found.extend(doubts.map(|(level, field, reason, text)| {
            finding(&object, level, (format!("spec.{field}"), reason), text)
        }));
    }
}

fn expressions(spec: &TrafficPolicySpec, doubts: &mut Vec<Doubt>) {
    let mut all = Vec::new();
    if let Some(authorization) = &spec.authorization {
        let lists = [
            ("deny", &authorization.deny),
            ("allow", &authorization.allow),
        ];
        for (list, rules) in lists {
            let rules = rules.iter().enumerate();
            all.extend(
                rules.map(|(index, it)| (format!("authorization.{list}[{index}].when"), &*it.when)),
            );
        }
    }
    if let Some(limit) = &spec.rate_limit {
        let rules = limit.rules.iter().enumerate();
        all.extend(rules.filter_map(|(index, it)| {
            Some((
                format!("rateLimit.rules[{index}].when"),
                it.when.as_deref()?,
            ))
        }));
    }
    if let Some(except) = spec.respond.as_ref().and_then(|it| it.except.as_deref()) {
        all.push(("respond.except".to_owned(), except));
    }
    for (field, text) in all {
        let Ok(expression) = Expression::parse(text) else {
            continue;
        };
        doubts.extend(
            expression
                .impossible()
                .iter()
                .map(|it| (Level::Error, field.clone(), Reason::NeverTrue, it.clone())),
        );
    }
}

fn rate_limits(spec: &TrafficPolicySpec, doubts: &mut Vec<Doubt>) {
    let rules = spec.rate_limit.iter().flat_map(|it| &it.rules);
    for (index, rule) in rules.enumerate() {
        if rule.requests == 0 && rule.when.is_none() && !rule.dry_run {
            let field = format!("rateLimit.rules[{index}].requests");
            let text = "0 refuses every request of the target: write how many a client may send, or with `when` \
                        which requests it is about";
            doubts.push((Level::Warning, field, Reason::RefusesAll, text.to_owned()));
        }
    }
}

fn trust(spec: &TrafficPolicySpec, doubts: &mut Vec<Doubt>) {
    let sources = spec.trusted_sources.iter().flatten().enumerate();
    for (index, _) in sources.filter(|(_, it)| network::is_everything(it)) {
        let field = format!("trustedSources[{index}]");
        let text = "trusts every address, so any client can claim to have any other's, in logs, limits and rules: \
                    list the networks of the proxies in front";
        let doubt = (
            Level::Warning,
            field,
            Reason::TrustsEveryAddress,
            text.to_owned(),
        );
        doubts.push(doubt);
    }
}

fn networks(spec: &NetworksSpec, doubts: &mut Vec<Doubt>) {
    let denied = spec.deny.iter().flatten();
    let denied: Vec<&String> = denied.collect();
    for (index, allowed) in spec.allow.iter().flatten().enumerate() {
        if let Some(wins) = denied.iter().find(|it| network::contains(it, allowed)) {
            let field = format!("networks.allow[{index}]");
            let text = format!(
                "admits nobody, since `{wins}` in networks.deny contains `{allowed}` and wins: remove one of the two"
            );
            doubts.push((Level::Warning, field, Reason::NoEffect, text));
        }
    }
}

fn error_pages(pages: &[ErrorPageSpec], doubts: &mut Vec<Doubt>) {
    for (index, page) in pages.iter().enumerate() {
        let before = &pages[..index];
        let covers = |status: &u16, it: &ErrorPageSpec| {
            let is_for_source = it.source == ErrorSourceSpec::Any || it.source == page.source;
            is_for_source && statuses(it).contains(status)
        };
        let own = statuses(page);
        let is_covered = |status: &u16| before.iter().any(|it| covers(status, it));
        if !own.is_empty() && own.iter().all(is_covered) {
            let field = format!("errorPages[{index}].statuses");
            let text = "pages before this one are for all of its statuses, and the first one is taken: put it before \
                        them";
            doubts.push((Level::Warning, field, Reason::NoEffect, text.to_owned()));
        }
    }
}

/// The statuses that a page is for.
fn statuses(page: &ErrorPageSpec) -> Vec<u16> {
    let ranges = page.statuses.iter().filter_map(|text| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        Some(first.parse::<u16>().ok()?..=last.parse::<u16>().ok()?)
    });
    ranges.flatten().collect()
}

fn path_rewrite(spec: &PathRewriteSpec, doubts: &mut Vec<Doubt>) {
    let Ok(substitution) = Substitution::parse(&spec.substitution) else {
        return;
    };
    if PathRewriteRule::parse(&spec.pattern, substitution.clone()).is_err() {
        return;
    }
    let field = || "pathRewrite.substitution".to_owned();
    let first = substitution.path().first();
    let has_slash = match first {
        Some(SubstitutionPart::Literal(bytes)) => bytes.first() == Some(&b'/'),
        Some(SubstitutionPart::Group(_)) => true,
        None => false,
    };
    if takes_first_slash(&spec.pattern) && !has_slash {
        let text = "the pattern takes the slash at the beginning of paths away, and this puts none there: requests \
                    get status 500 (bad_rewrite). Begin it with `/`";
        doubts.push((
            Level::Error,
            field(),
            Reason::UnsupportedValue,
            text.to_owned(),
        ));
    }
    let groups = groups(&spec.pattern);
    let parts = substitution.path().iter();
    let parts = parts.chain(substitution.query().into_iter().flatten());
    let used = parts.filter_map(|it| match it {
        SubstitutionPart::Group(number) => Some(*number),
        SubstitutionPart::Literal(_) => None,
    });
    if let Some(number) = used.max().filter(|it| usize::from(*it) > groups) {
        let text = format!(
            "`\\{number}` is always empty, since the pattern has {groups} groups: correct the number, or put the part \
             of the pattern in brackets"
        );
        doubts.push((Level::Warning, field(), Reason::NoEffect, text));
    }
}

/// Whether every match of a pattern begins with the first slash.
fn takes_first_slash(pattern: &str) -> bool {
    let after = pattern.strip_prefix("^/");
    after.is_some_and(|it| !it.starts_with(['?', '*', '{', '|']) && !it.contains('|'))
}

/// The number of groups of an extended regular expression that is valid.
fn groups(pattern: &str) -> usize {
    let (mut count, mut bytes) = (0, pattern.bytes().peekable());
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => drop(bytes.next()),
            b'(' => count += 1,
            b'[' => {
                bytes.next_if_eq(&b'^');
                // A bracket in front is one of the characters.
                bytes.next();
                for byte in bytes.by_ref() {
                    if byte == b']' {
                        break;
                    }
                }
            }
            _ => {}
        }
    }
    count
}
