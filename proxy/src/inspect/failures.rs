//! What does not work, for the dump: ports, key sets and objects in files, each with the objects that users wrote.

use std::collections::BTreeSet;

use admin_types::dump::{BindDown, KeysMissing, Problem};
use xds::model::{JwtKeys, Model, PolicyKey};

use crate::config::in_force::{self, FileProblem, MissingKeys};
use crate::limits::{OWNERS_SHOWN, PROBLEMS_SHOWN};

/// The binds that could not be bound, with the listeners that nobody can reach because of it.
pub(super) fn binds(down: &[in_force::BindDown], model: &Model) -> Vec<BindDown> {
    let shown = down.iter().map(|down| {
        let listeners = model.listeners.values();
        let listeners = listeners.filter(|it| it.bind == down.key).map(|it| {
            let (object, name) = it.key.object_and_name();
            format!("{}, listener `{name}`", spaced(object))
        });
        BindDown {
            bind: down.key.to_string(),
            address: down.address.to_string(),
            reason: down.reason.clone(),
            listeners: first(listeners.collect()),
        }
    });
    shown.collect()
}

/// The key sets whose current keys are not known, with the policies that need them.
pub(super) fn keys(missing: &[MissingKeys], model: &Model) -> Vec<KeysMissing> {
    let shown = missing.iter().map(|keys| KeysMissing {
        from: keys.from.clone(),
        policies: first(policies(keys, model)),
        seconds: keys.since.elapsed().as_secs(),
        was_fetched: keys.was_fetched,
        error: keys.error.clone(),
    });
    shown.collect()
}

/// The policies with a provider whose keys are these.
fn policies(keys: &MissingKeys, model: &Model) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for policy in model.policies.values() {
        for provider in policy.spec.jwt.iter().flat_map(|jwt| &jwt.providers) {
            if matches!(&provider.keys, JwtKeys::Remote { location, .. } if *location == keys.location)
            {
                let object = object(&policy.key);
                found.insert(format!("{object}, provider `{}`", provider.name));
            }
        }
    }
    found
}

/// `<Kind> <namespace>/<name>` of the object that a key is about.
fn object(key: &PolicyKey) -> String {
    let key = key.as_str();
    let end = key.match_indices('/').nth(2).map(|(end, _)| end);
    spaced(key.get(..end.unwrap_or(key.len())).unwrap_or(key))
}

/// `<Kind> <namespace>/<name>` of `<Kind>/<namespace>/<name>`.
fn spaced(object: &str) -> String {
    object.replacen('/', " ", 1)
}

/// The first ones: a policy may be one of thousands with the same issuer.
fn first(names: BTreeSet<String>) -> Vec<String> {
    names.into_iter().take(OWNERS_SHOWN).collect()
}

/// The first problems, which are the worst, and how many others there are.
pub(super) fn problems(problems: &[FileProblem]) -> Vec<Problem> {
    let (shown, rest) = problems.split_at(problems.len().min(PROBLEMS_SHOWN));
    let shown = shown.iter().map(|it| Problem {
        level: it.level.to_string(),
        text: it.text.clone(),
        hosts: it.hosts.clone(),
    });
    let rest = rest.first().map(|worst| Problem {
        level: worst.level.to_string(),
        text: format!(
            "and {} more: `gateway check` and the log of the gateway have all of them",
            rest.len()
        ),
        hosts: Vec::new(),
    });
    shown.chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use translate::Level;

    use super::*;

    #[test]
    fn problems_beyond_those_that_are_shown_are_counted() {
        let listed = |count: usize| -> Vec<FileProblem> {
            let problems = (0..count).map(|it| FileProblem {
                level: Level::Warning,
                text: it.to_string(),
                hosts: Vec::new(),
            });
            problems.collect()
        };
        let shown = problems(&listed(PROBLEMS_SHOWN));
        assert_eq!(shown.len(), PROBLEMS_SHOWN);
        assert!(shown.iter().all(|it| !it.text.contains("more")));
        let shown = problems(&listed(PROBLEMS_SHOWN + 7));
        let last = shown.last().expect("problems");
        assert!(last.text.starts_with("and 7 more: "), "{}", last.text);
        assert_eq!(last.level, "warning");
    }
}
