//! Generates `values.yaml` and the table in the README from a schema.

use std::fmt::Write as _;

use serde_json::Value as Json;

use crate::schema::Schema;

const BEGIN: &str = "<!-- begin of the generated table of values -->\n";
const END: &str = "<!-- end of the generated table of values -->\n";

/// A table of all values in Markdown.
#[must_use]
pub fn table(schema: &Schema) -> String {
    let mut text = "| Key | Type | Meaning | Default |\n|---|---|---|---|\n".to_owned();
    for value in schema.values() {
        let meaning = value.description.replace('|', "\\|");
        let default = match &value.default {
            Json::Null => "nil".to_owned(),
            default => format!("`{default}`"),
        };
        let _ = writeln!(
            text,
            "| `{}` | {} | {meaning} | {default} |",
            value.key, value.kind
        );
    }
    text
}

/// A README with its table generated from the schema.
///
/// # Panics
///
/// It has no table.
#[must_use]
pub fn with_table(readme: &str, schema: &Schema) -> String {
    let (before, rest) = readme.split_once(BEGIN).expect("a README has a table");
    let (_, after) = rest.split_once(END).expect("the table has an end");
    format!("{before}{BEGIN}{}{END}{after}", table(schema))
}

/// `values.yaml`: all values with their defaults and descriptions.
#[must_use]
pub fn values_file(schema: &Schema) -> String {
    let mut text =
        "# Generated from values.schema.json by UPDATE_GOLDEN=1 cargo test -p charts.\n".to_owned();
    let mut open: Vec<String> = Vec::new();
    for value in schema.values() {
        let mut path: Vec<&str> = value.key.split('.').collect();
        let name = path.pop().unwrap_or_default();
        let shared = open.iter().zip(&path).take_while(|(a, b)| a == b).count();
        open.truncate(shared);
        if path.is_empty() || shared < path.len() {
            text.push('\n');
        }
        for section in &path[shared..] {
            open.push((*section).to_owned());
            let depth = open.len() - 1;
            comment(&mut text, depth, schema.describe(&open.join(".")));
            let _ = writeln!(text, "{}{section}:", "  ".repeat(depth));
        }
        comment(&mut text, open.len(), &value.description);
        let indent = "  ".repeat(open.len());
        let _ = writeln!(text, "{indent}{name}: {}", value.default);
    }
    text
}

/// A description as comment lines of at most 110 characters.
fn comment(text: &mut String, depth: usize, description: &str) {
    let start = format!("{}#", "  ".repeat(depth));
    let mut line = start.clone();
    for word in description.split(' ') {
        if line.len() + 1 + word.len() > 110 && line.len() > start.len() {
            let _ = writeln!(text, "{line}");
            line.clone_from(&start);
        }
        let _ = write!(line, " {word}");
    }
    let _ = writeln!(text, "{line}");
}
