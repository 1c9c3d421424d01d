//! A chart's `values.schema.json`.

use std::fs;

use serde_json::{Map, Value as Json};

use crate::path;

/// The schema of a chart's values, `values.schema.json`.
#[derive(Debug)]
pub struct Schema(Json);

/// A value that a user may set.
#[derive(Debug, Clone, PartialEq)]
pub struct Value {
    /// Path of the value, such as `controller.service.type`.
    pub key: String,
    /// `object`, `list`, `string`, `bool` or `int`.
    pub kind: &'static str,
    /// Its purpose, from the schema's `description`.
    pub description: String,
    /// The value where a user sets none.
    pub default: Json,
}

impl Schema {
    /// That of a chart.
    ///
    /// # Panics
    /// It cannot be read.
    #[must_use]
    pub fn of(chart: &str) -> Self {
        let file = path(chart).join("values.schema.json");
        let text = fs::read_to_string(&file).map_err(|error| error.to_string());
        let parsed =
            text.and_then(|it| serde_json::from_str(&it).map_err(|error| error.to_string()));
        Self(parsed.unwrap_or_else(|error| panic!("{}: {error}", file.display())))
    }

    /// All values that a user may set, by key.
    #[must_use]
    pub fn values(&self) -> Vec<Value> {
        let mut values = Vec::new();
        self.collect(&self.0, "", &mut values);
        values
    }

    /// The description of a section, by its key.
    #[must_use]
    pub fn describe(&self, key: &str) -> &str {
        let segments = key.split('.');
        let field = segments.fold(&self.0, |at, name| &self.resolve(at)["properties"][name]);
        field["description"].as_str().unwrap_or_default()
    }

    /// All fields without a description.
    #[must_use]
    pub fn undescribed(&self) -> Vec<String> {
        let mut found = Vec::new();
        undescribed(&self.0, "", &mut found);
        found
    }

    /// A property with a default is a value, even if that is an object; one without is a section.
    fn collect(&self, section: &Json, prefix: &str, values: &mut Vec<Value>) {
        for (name, field) in fields(section) {
            let key = format!("{prefix}{name}");
            if let Some(default) = field.get("default") {
                values.push(Value {
                    kind: self.kind(field),
                    description: field["description"].as_str().unwrap_or_default().to_owned(),
                    default: default.clone(),
                    key,
                });
            } else {
                self.collect(field, &format!("{key}."), values);
            }
        }
    }

    fn kind(&self, field: &Json) -> &'static str {
        let kind = &self.resolve(field)["type"];
        // Of several types, the first is meant and others are taken too.
        let kind = kind.get(0).unwrap_or(kind);
        match kind.as_str() {
            Some("object") => "object",
            Some("array") => "list",
            Some("string") => "string",
            Some("boolean") => "bool",
            Some("integer") => "int",
            other => panic!("no type of values: {other:?} in {field}"),
        }
    }

    fn resolve<'a>(&'a self, field: &'a Json) -> &'a Json {
        match field["$ref"].as_str().and_then(|it| it.strip_prefix('#')) {
            Some(pointer) => self.0.pointer(pointer).expect("a definition"),
            None => field,
        }
    }
}

fn fields(section: &Json) -> impl Iterator<Item = (&String, &Json)> {
    section["properties"]
        .as_object()
        .into_iter()
        .flat_map(Map::iter)
}

fn undescribed(at: &Json, place: &str, found: &mut Vec<String>) {
    for (name, field) in fields(at) {
        if field["description"].as_str().is_none_or(str::is_empty) {
            found.push(format!("{place}.{name}"));
        }
    }
    match at {
        Json::Object(members) => {
            for (name, member) in members {
                undescribed(member, &format!("{place}.{name}"), found);
            }
        }
        Json::Array(elements) => {
            for element in elements {
                undescribed(element, place, found);
            }
        }
        _ => {}
    }
}
