//! Label selectors.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Labels, Text};

/// Selects objects by their labels; an empty selector selects every object.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LabelSelector {
    /// Labels that must have these values.
    #[serde(default, deserialize_with = "super::null_as_default")]
    pub match_labels: BTreeMap<String, String>,
    /// Requirements that must all hold.
    #[serde(default, deserialize_with = "super::null_as_default")]
    pub match_expressions: Vec<SelectorRequirement>,
}

/// One requirement of a selector.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SelectorRequirement {
    pub key: String,
    /// How its value is compared.
    pub operator: SelectorOperator,
    /// The values of `In` and `NotIn`.
    #[serde(default, deserialize_with = "super::null_as_default")]
    pub values: Vec<String>,
}

/// How a label is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
pub enum SelectorOperator {
    /// It has one of the values.
    In,
    /// It is missing or has none of the values.
    NotIn,
    Exists,
    DoesNotExist,
}

impl LabelSelector {
    /// Whether an object of these labels is selected.
    #[must_use]
    pub fn selects(&self, labels: &Labels) -> bool {
        self.match_labels
            .iter()
            .all(|(key, value)| labels.get(&**key).is_some_and(|it| **it == **value))
            && self
                .match_expressions
                .iter()
                .all(|requirement| requirement.holds(labels.get(&*requirement.key)))
    }
}

impl SelectorRequirement {
    fn holds(&self, label: Option<&Text>) -> bool {
        let is = |label: &Text| self.values.iter().any(|value| **value == **label);
        let listed = || label.is_some_and(is);
        match self.operator {
            SelectorOperator::In => listed(),
            SelectorOperator::NotIn => !listed(),
            SelectorOperator::Exists => label.is_some(),
            SelectorOperator::DoesNotExist => label.is_none(),
        }
    }
}
