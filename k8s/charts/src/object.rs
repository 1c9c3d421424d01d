//! Kubernetes objects, as rendered.

use serde_json::Value;

/// A Kubernetes object, as rendered.
#[derive(Debug, Clone, PartialEq)]
pub struct Object(pub Value);

/// The objects in a text of YAML documents.
///
/// # Panics
/// It is not YAML.
#[must_use]
pub fn objects(text: &str) -> Vec<Object> {
    let documents = text.split("\n---\n");
    let parsed = documents.map(|document| {
        serde_saphyr::from_str::<Value>(document)
            .unwrap_or_else(|error| panic!("{error} in:\n{document}"))
    });
    parsed.filter(|it| !it.is_null()).map(Object).collect()
}

impl Object {
    /// Kind of the object, such as `Deployment`.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.0["kind"].as_str().unwrap_or_default()
    }

    /// Name of the object, `metadata.name`.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// Kind and name: `Deployment/gateway`.
    #[must_use]
    pub fn title(&self) -> String {
        format!("{}/{}", self.kind(), self.name())
    }

    /// The value at a path; null if there is none. A path is a JSON pointer, in which `list[NAME]`
    /// is the element of a list that has this name.
    #[must_use]
    pub fn at(&self, path: &str) -> &Value {
        let segments = path.split('/').skip(1);
        segments.fold(&self.0, |value, segment| step(value, segment))
    }
}

fn step<'a>(value: &'a Value, segment: &str) -> &'a Value {
    let segment = segment.replace("~1", "/").replace("~0", "~");
    if let Some((list, name)) = segment.strip_suffix(']').and_then(|it| it.split_once('[')) {
        let elements = value[list].as_array();
        let found = elements
            .into_iter()
            .flatten()
            .find(|element| element["name"] == name);
        return found.unwrap_or(&Value::Null);
    }
    match (value, segment.parse::<usize>()) {
        (Value::Array(elements), Ok(index)) => elements.get(index).unwrap_or(&Value::Null),
        _ => &value[&segment],
    }
}
