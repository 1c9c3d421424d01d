//! Values that the chart rejects, and the messages.

use charts::{Helm, HelmError};
use serde::Deserialize;
use serde_json::Value;

use crate::cases;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    values: Value,
    says: Vec<String>,
}

#[test]
fn invalid_values_are_rejected_with_the_key_and_the_reason() {
    let Some(helm) = Helm::find() else { return };
    let mut wrong = Vec::new();
    for Case { values, says } in cases("refusals.yaml") {
        match helm.template("gateway", &values.to_string()) {
            Ok(_) => wrong.push(format!("taken: {values}")),
            Err(HelmError(text)) => {
                let missing = says.iter().filter(|part| !text.contains(*part));
                wrong.extend(missing.map(|part| format!("no {part:?} in: {text}")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
