//! CEL rules (`x-kubernetes-validations`), evaluated as in an API server.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, OnceLock};

use cel::{Context, Env, ExecutionError, Program};
use serde::Deserialize;
use serde_json::Value;
use xds::model::GatewayDuration;

use super::Schema;
use crate::files::finding::{Reason, Remark};
use crate::files::path::{FieldPath, PathStep};

/// A rule in a CRD. A message is required: a bare expression does not help users.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rule {
    #[serde(rename = "rule")]
    expression: String,
    message: String,
    /// Compiled for the first value that it applies to: most starts need few of the rules.
    #[serde(skip)]
    program: OnceLock<Program>,
}

static ENV: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));

impl Schema {
    pub(crate) fn check_rules(
        &self,
        value: &Value,
        path: &mut FieldPath,
        remarks: &mut Vec<Remark>,
    ) {
        if !self.rules.is_empty() {
            let itself = self.to_cel(value);
            let broken = self
                .rules
                .iter()
                .filter_map(|rule| rule.violated_by(&itself));
            let broken = broken.map(|text| Remark::error(path, Reason::Invalid, text));
            remarks.extend(broken.map(Remark::of_fields));
        }
        match value {
            Value::Object(fields) => {
                for (name, inner) in fields {
                    if let Some(schema) = self.of_field(name) {
                        path.push_field(name);
                        schema.check_rules(inner, path, remarks);
                        path.pop();
                    }
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    if let Some(schema) = &self.items {
                        path.push(PathStep::Item(index));
                        schema.check_rules(item, path, remarks);
                        path.pop();
                    }
                }
            }
            _ => {}
        }
    }

    /// The value for CEL: integers are `int`, and reserved field names are escaped.
    fn to_cel(&self, value: &Value) -> cel::Value {
        match value {
            Value::Null => cel::Value::Null,
            Value::Bool(value) => cel::Value::Bool(*value),
            Value::Number(number) => number.as_i64().map_or_else(
                || cel::Value::Float(number.as_f64().unwrap_or(f64::NAN)),
                cel::Value::Int,
            ),
            Value::String(text) => text.as_str().into(),
            Value::Array(items) => {
                let item = |item| self.items.as_ref().map(|schema| schema.to_cel(item));
                items.iter().filter_map(item).collect::<Vec<_>>().into()
            }
            Value::Object(fields) => {
                let field = |(name, inner): (&String, _)| {
                    let schema = self.of_field(name)?;
                    Some((escape(name), schema.to_cel(inner)))
                };
                fields
                    .iter()
                    .filter_map(field)
                    .collect::<HashMap<_, _>>()
                    .into()
            }
        }
    }
}

impl Rule {
    pub(super) fn program(&self) -> &Program {
        self.program.get_or_init(|| {
            let compiled = ENV.compile(&self.expression);
            compiled.expect("the rules of our definitions compile, which is tested")
        })
    }

    /// The message, if the rule is violated. A rule that cannot be evaluated is violated.
    fn violated_by(&self, itself: &cel::Value) -> Option<String> {
        let mut context = Context::with_env(Arc::clone(&ENV));
        context.add_variable_from_value("self", itself.clone());
        let added = context.add_function("duration", milliseconds);
        added.expect("the environment has no function of that name");
        match self.program().execute(&context) {
            Ok(cel::Value::Bool(true)) => None,
            Ok(_) => Some(self.message.clone()),
            Err(error) => Some(format!("{} (not evaluated: {error})", self.message)),
        }
    }
}

/// CEL's `duration`, which the `cel` crate has only together with a calendar. Rules only compare
/// durations, so a number of milliseconds suffices.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the `cel` crate calls functions with owned arguments"
)]
fn milliseconds(text: Arc<String>) -> Result<i64, ExecutionError> {
    let refusal = |text: String| ExecutionError::function_error("duration", text);
    let parsed = GatewayDuration::parse(&text).map_err(|error| refusal(error.to_string()))?;
    i64::try_from(parsed.0.as_millis()).map_err(|error| refusal(error.to_string()))
}

/// The name of a field in a rule (Kubernetes: "Validation rules", escaping).
fn escape(name: &str) -> String {
    if RESERVED.contains(&name) {
        format!("__{name}__")
    } else {
        name.replace("__", "__underscores__")
            .replace('.', "__dot__")
            .replace('-', "__dash__")
            .replace('/', "__slash__")
    }
}

/// Words that CEL reserves.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];
