//! Settings of policies that are valid and hardly do what was meant: expressions that are never true, entries that
//! others cancel, trust in everybody.

use std::collections::{BTreeMap, BTreeSet};

use xds::model::{PathRewriteRule, StatusRange, Substitution, SubstitutionPart};

use super::networks::NetworkSet;
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
        let namespace = &policy.metadata.name.namespace;
        let targets = policy.spec.target_refs.iter();
        let mut targets = targets.filter_map(|it| it.object(namespace));
        // Of one that is for nothing, its condition says so.
        let is_in_use = targets.any(|it| view.store.contains(&it));
        if !is_in_use || !view.room.take(namespace, steps(&policy.spec)) {
            continue;
        }
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
    for (field, text) in expressions_of(spec) {
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

/// The expressions of a policy, by field.
fn expressions_of(spec: &TrafficPolicySpec) -> Vec<(String, &str)> {
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
    all
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
    let denied = spec.deny.iter().flatten().map(|it| &**it);
    let denied = NetworkSet::new(denied);
    for (index, allowed) in spec.allow.iter().flatten().enumerate() {
        if let Some(wins) = denied.containing(allowed) {
            let field = format!("networks.allow[{index}]");
            let text = format!(
                "admits nobody, since `{wins}` in networks.deny contains `{allowed}` and wins: remove one of the two"
            );
            doubts.push((Level::Warning, field, Reason::NoEffect, text));
        }
    }
}

fn error_pages(pages: &[ErrorPageSpec], doubts: &mut Vec<Doubt>) {
    let mut of_sources: BTreeMap<ErrorSourceSpec, BTreeSet<u16>> = BTreeMap::new();
    for (index, page) in pages.iter().enumerate() {
        let own = statuses(page);
        let before = [ErrorSourceSpec::Any, page.source];
        let before: Vec<&BTreeSet<u16>> =
            before.iter().filter_map(|it| of_sources.get(it)).collect();
        let mut is_covered = own
            .iter()
            .map(|status| before.iter().any(|it| it.contains(status)));
        if !own.is_empty() && is_covered.all(|it| it) {
            let field = format!("errorPages[{index}].statuses");
            let text = "pages before this one are for all of its statuses, and the first one is taken: put it before \
                        them";
            doubts.push((Level::Warning, field, Reason::NoEffect, text.to_owned()));
        }
        of_sources.entry(page.source).or_default().extend(own);
    }
}

/// The statuses that a page is for.
fn statuses(page: &ErrorPageSpec) -> BTreeSet<u16> {
    let ranges = page.statuses.iter();
    let ranges = ranges.filter_map(|it| StatusRange::parse(it).ok());
    let ranges = ranges.map(|it| (it.first(), it.last()));
    let mut ranges: Vec<(u16, u16)> = ranges.collect();
    ranges.sort_unstable();
    let (mut statuses, mut next) = (BTreeSet::new(), 0);
    // Each status once, however many ranges have it.
    for (first, last) in ranges {
        statuses.extend(first.max(next)..=last);
        next = next.max(last.saturating_add(1));
    }
    statuses
}

/// What examining a policy takes, as what [`Room`](super::room::Room) counts.
fn steps(spec: &TrafficPolicySpec) -> usize {
    let networks = spec.networks.iter();
    let networks = networks.flat_map(|it| [&it.allow, &it.deny]).flatten();
    let networks: usize = networks.map(Vec::len).sum();
    let pages = spec.error_pages.as_deref().map_or(0, <[_]>::len);
    let expressions: usize = expressions_of(spec).iter().map(|it| it.1.len()).sum();
    let patterns = spec.path_rewrite.iter().map(|it| it.pattern.len());
    1 + networks + pages * STATUSES + (expressions + patterns.sum::<usize>()) * PER_BYTE
}

/// Statuses that a page can be for.
const STATUSES: usize = 200;
/// Steps that compiling a byte of an expression takes.
const PER_BYTE: usize = 10;

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
        // With nothing in its place, what follows the match may begin with a slash.
        let (level, which) = if first.is_some() || leaves_no_slash(&spec.pattern) {
            (Level::Error, String::new())
        } else {
            let such = such_path(&spec.pattern);
            let such = such.map_or_else(String::new, |it| format!(", such as `{it}`,"));
            let which = format!(" for paths in which no slash follows the match{such}");
            (Level::Warning, which)
        };
        let text = format!(
            "the pattern takes the slash at the beginning of paths away, and this puts none there: requests{which} \
             get status 500 (bad_rewrite). Begin it with `/`"
        );
        doubts.push((level, field(), Reason::UnsupportedValue, text));
    }
    let groups = groups(&spec.pattern);
    let parts = substitution.path().iter();
    let parts = parts.chain(substitution.query().into_iter().flatten());
    let used = parts.filter_map(|it| match it {
        SubstitutionPart::Group(number) => Some(*number),
        SubstitutionPart::Literal(_) => None,
    });
    if let Some(number) = used.max().filter(|it| usize::from(*it) > groups) {
        let groups = match groups {
            0 => "no group".to_owned(),
            1 => "only 1 group".to_owned(),
            groups => format!("only {groups} groups"),
        };
        let text = format!(
            "`\\{number}` is always empty, since the pattern has {groups}: correct the number, or put the part of the \
             pattern in brackets"
        );
        doubts.push((Level::Warning, field(), Reason::NoEffect, text));
    }
}

/// Whether every match of a pattern begins with the first slash.
fn takes_first_slash(pattern: &str) -> bool {
    let after = pattern.strip_prefix("^/");
    after.is_some_and(|it| !it.starts_with(['?', '*', '{', '|']) && !it.contains('|'))
}

/// Whether what follows a match hardly ever begins with a slash: the match ends behind one, or at the end of the path.
fn leaves_no_slash(pattern: &str) -> bool {
    let pattern = pattern.trim_end_matches(')');
    ENDS.iter().any(|it| pattern.ends_with(it)) && !pattern.ends_with("\\$")
}

/// How patterns end that take a path to its end, or to a slash.
const ENDS: [&str; 4] = ["/", "$", ".*", ".+"];

/// A path that a pattern matches whole, where that is plain to see.
fn such_path(pattern: &str) -> Option<&str> {
    let path = pattern.strip_prefix('^')?;
    let is_plain = |it: u8| it.is_ascii_alphanumeric() || b"/-_~".contains(&it);
    path.bytes().all(is_plain).then_some(path)
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
