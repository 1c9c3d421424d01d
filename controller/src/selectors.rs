//! The selected namespaces: `--discovery-namespace-selectors`.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::Deserialize;
use translate::api::{LabelSelector, Labels, SelectorOperator, SelectorRequirement};

/// Label selectors, one of which has to match. An empty list selects everything.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Selectors(Vec<LabelSelector>);

impl Selectors {
    /// Whether everything is selected, whatever its labels.
    #[must_use]
    pub fn select_everything(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a namespace with these labels is selected.
    #[must_use]
    pub fn select(&self, labels: &Labels) -> bool {
        self.select_everything() || self.0.iter().any(|selector| selector.selects(labels))
    }
}

/// The format of a selector: a misspelt field would select every namespace, so unknown fields are
/// errors.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawSelector {
    #[serde(default)]
    match_labels: BTreeMap<String, String>,
    #[serde(default)]
    match_expressions: Vec<SelectorRequirement>,
}

impl FromStr for Selectors {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let written: Option<Vec<RawSelector>> = serde_saphyr::from_str(text).map_err(|error| {
            format!(
                "{error}: use a list of label selectors, such as [{{matchLabels: {{team: a}}}}]"
            )
        })?;
        let selectors = written.into_iter().flatten().map(|written| {
            for requirement in &written.match_expressions {
                check(requirement)?;
            }
            Ok(LabelSelector {
                match_labels: written.match_labels,
                match_expressions: written.match_expressions,
            })
        });
        selectors.collect::<Result<_, String>>().map(Self)
    }
}

fn check(requirement: &SelectorRequirement) -> Result<(), String> {
    let SelectorRequirement {
        key,
        operator,
        values,
    } = requirement;
    let takes_values = matches!(operator, SelectorOperator::In | SelectorOperator::NotIn);
    match (takes_values, values.is_empty()) {
        (true, true) => Err(format!("{operator:?} of label {key} needs values")),
        (false, false) => Err(format!(
            "{operator:?} of label {key} takes no values: remove them, or use In"
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        let pairs = pairs.iter();
        pairs
            .map(|(key, value)| ((*key).into(), (*value).into()))
            .collect()
    }

    #[test]
    fn selectors_are_ored_and_their_requirements_are_anded() {
        let selectors: Selectors = "
            - matchLabels: {team: a}
              matchExpressions: [{key: stage, operator: In, values: [test, live]}]
            - matchExpressions: [{key: shared, operator: Exists}]"
            .parse()
            .expect("selectors");
        assert!(selectors.select(&labels(&[("team", "a"), ("stage", "test")])));
        assert!(!selectors.select(&labels(&[("team", "a")])));
        assert!(!selectors.select(&labels(&[("stage", "live")])));
        assert!(selectors.select(&labels(&[("shared", "")])));
        assert!(!selectors.select(&labels(&[])));
    }

    #[test]
    fn an_empty_list_of_selectors_selects_every_namespace() {
        for text in ["[]", "", "null"] {
            let selectors: Selectors = text.parse().expect("selectors");
            assert!(selectors.select_everything());
            assert!(selectors.select(&labels(&[])));
        }
    }

    #[test]
    fn selectors_are_parsed_from_json() {
        let text = r#"[{"matchLabels": {"team": "a"}}]"#;
        let selectors: Selectors = text.parse().expect("selectors");
        assert!(selectors.select(&labels(&[("team", "a")])));
    }

    #[test]
    fn invalid_selectors_are_rejected() {
        for text in [
            "{matchLabels: {a: b}}",
            "[{matchLabel: {a: b}}]",
            "[{matchExpressions: [{key: a, operator: In}]}]",
            "[{matchExpressions: [{key: a, operator: Exists, values: [b]}]}]",
            "[{matchExpressions: [{key: a, operator: Gt, values: [b]}]}]",
        ] {
            assert!(text.parse::<Selectors>().is_err(), "{text}");
        }
    }
}
