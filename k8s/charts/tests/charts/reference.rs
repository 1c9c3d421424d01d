//! The reference of the fields of our kinds, made from their CRDs.

use std::fmt::Write as _;

use charts::path;
use serde_json::Value;

use crate::{check_file, read};

const INTRODUCTION: &str = "\
# Reference of fields

All fields of the kinds of `gateway-system.io/v1alpha1`, made from their [CRDs](crds) by a test. `kubectl explain trafficpolicy.spec` shows the
same on a cluster. [RESOURCES.md](RESOURCES.md) explains how the fields work together, with examples.

A field is optional unless its type says `required`. `[]` stands for each item of a list, `{}` for each value of a map.
";

/// The kinds, by file.
const KINDS: [&str; 3] = ["trafficpolicies", "backends", "gatewayparameters"];

#[test]
fn the_reference_of_fields_is_that_of_the_definitions() {
    let mut page = INTRODUCTION.to_owned();
    for plural in KINDS {
        let file = path(&format!("../crds/gateway-system.io_{plural}.yaml"));
        let definition: Value = serde_saphyr::from_str(&read(&file)).expect("a definition");
        write_kind(&mut page, &definition);
    }
    check_file(&path("../REFERENCE.md"), &page);
}

/// A section for a kind, with a part for each of its fields.
fn write_kind(page: &mut String, definition: &Value) {
    let kind = definition["spec"]["names"]["kind"].as_str();
    let kind = kind.expect("a kind");
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let spec = &schema["properties"]["spec"];
    let about = description(schema);
    write_line(page, format_args!("\n## {kind}\n\n{about}"));
    write_rules(page, spec);
    let (mut plain, mut structured) = (Vec::new(), Vec::new());
    for field in fields(spec) {
        if has_fields(field.schema) {
            structured.push(field);
        } else {
            plain.push(field);
        }
    }
    write_table(page, &plain);
    for field in structured {
        let (name, of, about) = (&field.path, type_of(&field), description(field.schema));
        write_line(
            page,
            format_args!("\n### {kind} `{name}`\n\n{}. {about}", sentence(&of)),
        );
        write_rules(page, field.schema);
        let mut rows = Vec::new();
        add_rows(field.schema, "", &mut rows);
        write_table(page, &rows);
    }
}

/// A field in a table.
struct Field<'a> {
    path: String,
    schema: &'a Value,
    is_required: bool,
}

/// The fields of an object, by name.
fn fields(schema: &Value) -> Vec<Field<'_>> {
    let required = schema["required"].as_array();
    let required = |name: &String| required.is_some_and(|all| all.iter().any(|it| it == name));
    let all = schema["properties"].as_object().into_iter().flatten();
    let all = all.map(|(name, schema)| Field {
        path: name.clone(),
        schema,
        is_required: required(name),
    });
    all.collect()
}

/// The schema of the items of a list, or of the values of a map, with how a path writes it.
fn inner(schema: &Value) -> Option<(&'static str, &Value)> {
    let (items, values) = (&schema["items"], &schema["additionalProperties"]);
    match (items.is_object(), values.is_object()) {
        (true, _) => Some(("[]", items)),
        (_, true) => Some(("{}", values)),
        _ => None,
    }
}

fn has_fields(schema: &Value) -> bool {
    schema["properties"].is_object() || inner(schema).is_some_and(|(_, of)| has_fields(of))
}

/// The fields below a schema, each before its own.
fn add_rows<'a>(schema: &'a Value, prefix: &str, rows: &mut Vec<Field<'a>>) {
    if let Some((step, of)) = inner(schema) {
        add_rows(of, &format!("{prefix}{step}"), rows);
    }
    let dot = if prefix.is_empty() { "" } else { "." };
    for field in fields(schema) {
        let path = format!("{prefix}{dot}{}", field.path);
        let below = field.schema;
        rows.push(Field {
            path: path.clone(),
            ..field
        });
        add_rows(below, &path, rows);
    }
}

fn write_table(page: &mut String, rows: &[Field<'_>]) {
    if rows.is_empty() {
        return;
    }
    page.push_str("\n| field | type | default, limits | meaning |\n|---|---|---|---|\n");
    for field in rows {
        let (of, limits) = (type_of(field), limits(field.schema));
        let (name, about) = (&field.path, description(field.schema));
        let rules = messages(field.schema).map(|it| format!(" {}.", sentence(it)));
        let about = about + &rules.collect::<String>();
        let cells = [format!("`{name}`"), of, limits, about].map(|it| it.replace('|', "\\|"));
        write_line(page, format_args!("| {} |", cells.join(" | ")));
    }
}

/// What the API server requires of several fields together.
fn write_rules(page: &mut String, schema: &Value) {
    let rules: Vec<&str> = messages(schema).collect();
    if !rules.is_empty() {
        page.push('\n');
    }
    for rule in rules {
        write_line(page, format_args!("- {rule}"));
    }
}

fn messages(schema: &Value) -> impl Iterator<Item = &str> {
    let rules = schema["x-kubernetes-validations"].as_array();
    let rules = rules.into_iter().flatten();
    rules.filter_map(|it| it["message"].as_str())
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|it| it.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

/// The description in one line.
fn description(schema: &Value) -> String {
    let text = schema["description"].as_str().unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn type_of(field: &Field<'_>) -> String {
    let name = type_name(field.schema);
    if field.is_required {
        format!("{name}, required")
    } else {
        name
    }
}

fn type_name(schema: &Value) -> String {
    let own = schema["type"].as_str().unwrap_or("any");
    match inner(schema) {
        Some(("[]", items)) => format!("list of {}", type_name(items)),
        Some((_, values)) => format!("map of {}", type_name(values)),
        None if schema["x-kubernetes-int-or-string"] == true => "integer or string".to_owned(),
        None => own.to_owned(),
    }
}

/// The default, the allowed values, and the bounds of a value.
fn limits(schema: &Value) -> String {
    let mut all = Vec::new();
    if let Some(value) = schema.get("default") {
        all.push(format!("default `{}`", plain(value)));
    }
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<String> = values.iter().map(|it| format!("`{}`", plain(it))).collect();
        all.push(values.join(", "));
    }
    for (from, to, of) in [
        ("minimum", "maximum", ""),
        ("minLength", "maxLength", " characters"),
        ("minItems", "maxItems", " items"),
        ("minProperties", "maxProperties", " fields"),
    ] {
        match (schema.get(from), schema.get(to)) {
            (Some(from), Some(to)) => all.push(format!("{from} to {to}{of}")),
            (Some(from), None) => all.push(format!("at least {}", counted(from, of))),
            (None, Some(to)) => all.push(format!("at most {}", counted(to, of))),
            (None, None) => {}
        }
    }
    if let Some(format) = schema["format"]
        .as_str()
        .filter(|it| !it.starts_with("int"))
    {
        all.push(format!("format `{format}`"));
    }
    if let Some(pattern) = schema["pattern"].as_str() {
        all.push(format!("pattern `{pattern}`"));
    }
    let own = all.join("; ");
    match inner(schema).map(|(_, of)| limits(of)) {
        Some(of) if !of.is_empty() && own.is_empty() => format!("each: {of}"),
        Some(of) if !of.is_empty() => format!("{own}; each: {of}"),
        _ => own,
    }
}

/// A number of things, whose name is in the plural.
fn counted(count: &Value, of: &str) -> String {
    let of = if *count == 1 {
        of.trim_end_matches('s')
    } else {
        of
    };
    format!("{count}{of}")
}

/// A value without the quotes of a text.
fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn write_line(page: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = writeln!(page, "{line}");
}
