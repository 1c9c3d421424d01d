//! Random objects of a kind, made from its schema: of the right types, with values at the edges of
//! what the schema allows and, now and then, beyond.

use anyhow::{Context as _, Result};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use serde_json::{Map, Value, json};

use crate::test::control_plane::random::Random;
use crate::test::scope::Scope;

/// Deepest nesting of generated values: what no schema describes could go on forever.
const DEPTH: usize = 12;

/// Most entries of a generated list. Larger ones are what `attacks` makes.
const ITEMS: i64 = 24;

/// The schema of a kind's `spec`.
pub(super) struct Schema {
    pub(super) kind: &'static str,
    spec: Value,
}

impl Schema {
    /// Reads the schema of the version that the API server stores.
    pub(super) async fn read(scope: &Scope, kind: &'static str, name: &str) -> Result<Self> {
        let definitions: Api<CustomResourceDefinition> = Api::all(scope.client.clone());
        let definition = definitions.get(name).await?;
        let mut versions = definition.spec.versions.into_iter();
        let version = versions.find(|it| it.storage).context("a stored version")?;
        let schema = serde_json::to_value(version.schema).context("a schema")?;
        let spec = schema["openAPIV3Schema"]["properties"]["spec"].clone();
        Ok(Self { kind, spec })
    }

    /// A random `spec`.
    pub(super) fn generate(&self, random: &mut Random) -> Value {
        value(&self.spec, "spec", random, DEPTH)
    }
}

fn value(schema: &Value, name: &str, random: &mut Random, depth: usize) -> Value {
    if let Some(choices) = schema["enum"].as_array()
        && random.chance(95)
    {
        return choices[random.below(choices.len())].clone();
    }
    if schema["x-kubernetes-int-or-string"] == true {
        return json!(random.between(0, 65_535));
    }
    match schema["type"].as_str() {
        _ if depth == 0 => Value::Null,
        Some("object") => object(schema, random, depth),
        Some("array") => {
            let least = schema["minItems"].as_i64().unwrap_or(0);
            let most = schema["maxItems"].as_i64().unwrap_or(ITEMS).min(ITEMS);
            let most = if random.chance(90) {
                most.min(least + 2)
            } else {
                most
            };
            let count = random.between(least, most);
            (0..count)
                .map(|_| value(&schema["items"], name, random, depth - 1))
                .collect()
        }
        Some("boolean") => json!(random.chance(50)),
        Some("integer" | "number") => integer(schema, random),
        Some("string") => json!(text(schema, name, random)),
        // Any value is allowed.
        _ => random
            .one_of(&[
                &json!({"labels": "app"}),
                &json!({"spec": {"template": {"spec": {"containers": "none"}}}}),
                &json!({"metadata": {"labels": {"app": 1}}, "spec": {"replicas": "many"}}),
                &json!([]),
                &json!("text"),
            ])
            .clone(),
    }
}

fn object(schema: &Value, random: &mut Random, depth: usize) -> Value {
    let mut made = Map::new();
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let is_required = required.iter().any(|it| it == name);
        if is_required || random.chance(35) {
            made.insert(name.clone(), value(field, name, random, depth - 1));
        }
    }
    let more = &schema["additionalProperties"];
    if more.is_object() && random.chance(50) {
        let key = random.one_of(&[
            "app",
            "example.com/key",
            "gateway.networking.k8s.io/gateway-name",
        ]);
        made.insert(key.to_owned(), value(more, key, random, depth - 1));
    }
    Value::Object(made)
}

fn integer(schema: &Value, random: &mut Random) -> Value {
    let least = schema["minimum"].as_f64().unwrap_or(0.0);
    let most = schema["maximum"].as_f64().unwrap_or(2_147_483_647.0);
    #[expect(clippy::cast_possible_truncation, reason = "bounds of 32-bit numbers")]
    let (least, most) = (least as i64, most as i64);
    match random.below(10) {
        0 => json!(least),
        1 => json!(most),
        2 => json!(least - 1),
        _ => json!(random.between(least, most.min(least.saturating_add(100)))),
    }
}

/// A value that makes sense for the field, or one that is as long as it may be.
fn text(schema: &Value, name: &str, random: &mut Random) -> String {
    let longest = schema["maxLength"].as_i64().unwrap_or(1024);
    if random.chance(2) {
        return "a".repeat(usize::try_from(longest.min(16_384)).unwrap_or(0));
    }
    let mut named = VALUES.iter().filter(|(names, _)| names.contains(&name));
    let choices = named.next().map_or(OTHERS, |(_, values)| values);
    random.one_of(choices).to_owned()
}

/// What fields of these names hold, so that much of what is generated is accepted and leads
/// somewhere.
const VALUES: &[(&[&str], &[&str])] = &[
    (
        &["group"],
        &["gateway.networking.k8s.io", "gateway-system.io", ""],
    ),
    (
        &["kind"],
        &[
            "Gateway",
            "ListenerSet",
            "HTTPRoute",
            "Service",
            "Backend",
            "Secret",
            "ConfigMap",
        ],
    ),
    (
        &["name", "sectionName"],
        &[
            "edge",
            "epoll",
            "port-80",
            "service-1",
            "listeners-0",
            "random-0",
            "missing",
        ],
    ),
    (
        &["namespace"],
        &["default", "gateway-system", "kube-system", "missing"],
    ),
    (
        &["hostname", "hostnames", "host"],
        &[
            "shop.example.com",
            "*.example.com",
            "a.test",
            "169.254.169.254",
            "localhost",
            "*",
        ],
    ),
    (
        &["path", "value", "replacePrefixMatch", "replaceFullPath"],
        &[
            "/",
            "/moved-1",
            "/a/../b",
            r"/(\w{20}N|a+)+",
            ".*",
            "%2e%2e",
            "\u{e9}",
        ],
    ),
    (
        &["when"],
        &[
            "request.path.startsWith('/')",
            "request.headers['a'].matches('(a+)+$')",
            "[1,2,3].all(a, [1,2,3].all(b, a*b > 0))",
            "claims.group == 'x'",
            "(",
        ],
    ),
    (
        &["url", "issuer"],
        &[
            "http://10.255.255.1/",
            "https://issuer.example",
            "http://169.254.169.254/keys",
            "x",
        ],
    ),
    (
        &["trustedSources"],
        &["0.0.0.0/0", "::/0", "10.0.0.0/8", "10.0.0.0"],
    ),
    (
        &["inline"],
        &[
            r#"{"keys": []}"#,
            "{",
            r#"{"keys": [{"kty": "oct", "k": "AAAA"}]}"#,
        ],
    ),
];

const OTHERS: &[&str] = &[
    "1s", "0s", "1h", "10ms", "edge", "echo", "x-header", "true", "1",
];
