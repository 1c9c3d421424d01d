//! API keys. Proxies get their hashes.

mod key;

use std::collections::BTreeMap;

use http::HeaderName;
use http::header::AUTHORIZATION;
use xds::model::{
    ApiKey, ApiKeyPolicy, ApiKeys, JwtForward, JwtPolicy, JwtProvider, JwtSource, KeyDigest,
    ObjectName,
};

use self::key::digest;
use super::api::ApiKeysSpec;
use super::jwt;
use super::secrets::{self, Findings, Owners};
use crate::backend::referrer::Referrer;
use crate::objects::api::Secret;
use crate::objects::reader::Reader;
use crate::route::header_edit;
use crate::status::problem::{self, Problem};
use crate::status::reason::Reason;

/// The lowered API keys of a policy.
pub(crate) struct LoweredApiKeys {
    pub(crate) policy: ApiKeyPolicy,
    pub(crate) problems: Vec<Problem>,
    /// Secrets and entries that cannot be used.
    pub(crate) refs: Vec<Problem>,
}

/// Lowers the API keys of the policy `from`, which has this JWT policy too.
pub(crate) fn lower(
    reader: &Reader<'_>,
    from: Referrer<'_>,
    spec: &ApiKeysSpec,
    beside: Option<&JwtPolicy>,
) -> LoweredApiKeys {
    let mut problems = Vec::new();
    let mut note = |problem| problems.push(problem);
    if spec.secret_refs.is_empty() {
        note(invalid(
            "secretRefs",
            "names no Secret: refer to one with the keys",
        ));
    }
    let places = sources(spec, beside).unwrap_or_else(|problem| {
        note(problem);
        Vec::new()
    });
    let client_header = spec.client_header.as_deref().map(client_header).transpose();
    let client_header = client_header.unwrap_or_else(|problem| {
        note(problem);
        None
    });
    let mut found = Found::default();
    for (index, reference) in spec.secret_refs.iter().enumerate() {
        let field = format!("secretRefs[{index}]");
        match secrets::named_before(from.namespace, &spec.secret_refs, index) {
            Some(problem) => note(problem.under(&field)),
            None => match secrets::resolve(reader, from, reference) {
                Ok(secret) => found.read(secret, spec.hashed, &field),
                Err(problem) => found.findings.lacks(problem.under(&field)),
            },
        }
    }
    let (keys, refs) = found.into_keys();
    LoweredApiKeys {
        policy: ApiKeyPolicy {
            from: places,
            client_header,
            forward: if spec.forward {
                JwtForward::Keep
            } else {
                JwtForward::Strip
            },
            keys,
        },
        problems,
        refs,
    }
}

/// Where keys are read from. A place of tokens cannot be one: a token would be taken for a key.
fn sources(spec: &ApiKeysSpec, beside: Option<&JwtPolicy>) -> Result<Vec<JwtSource>, Problem> {
    let own_header = JwtSource::Header {
        name: HeaderName::from_static("x-api-key"),
        prefix: String::new(),
    };
    let own = match &spec.from {
        Some(from) => jwt::sources(from).map_err(|problem| problem.under("from"))?,
        None if beside.is_some() => vec![own_header],
        None => vec![bearer(), own_header],
    };
    let providers = beside.iter().flat_map(|jwt| &jwt.providers);
    let taken: Vec<JwtSource> = providers.flat_map(places).collect();
    match own
        .iter()
        .find(|it| taken.iter().any(|other| is_same_place(it, other)))
    {
        None => Ok(own),
        Some(place) => {
            let message =
                format!("`jwt` reads tokens from `{place}` too: use another place for keys");
            Err(invalid("from", message))
        }
    }
}

/// Where the tokens of a provider are read from.
pub(crate) fn places(provider: &JwtProvider) -> Vec<JwtSource> {
    match &*provider.from {
        [] => vec![bearer()],
        from => from.to_vec(),
    }
}

fn bearer() -> JwtSource {
    JwtSource::Header {
        name: AUTHORIZATION,
        prefix: "Bearer ".to_owned(),
    }
}

/// Whether a request could have one value that is both.
fn is_same_place(one: &JwtSource, other: &JwtSource) -> bool {
    match (one, other) {
        (
            JwtSource::Header { name, prefix },
            JwtSource::Header {
                name: other,
                prefix: other_prefix,
            },
        ) => name == other && prefix.trim().eq_ignore_ascii_case(other_prefix.trim()),
        _ => one == other,
    }
}

/// The header with the name of a client.
pub(crate) fn client_header(text: &str) -> Result<HeaderName, Problem> {
    header_edit::name(text).map_err(|problem| Problem {
        reason: Reason::Invalid,
        ..problem.under("clientHeader")
    })
}

/// The keys of the Secrets read so far.
#[derive(Default)]
struct Found {
    /// The entries with each key.
    entries: BTreeMap<KeyDigest, Vec<KeyEntry>>,
    owners: Owners,
    findings: Findings,
}

/// An entry of a Secret.
struct KeyEntry {
    client: String,
    secret: ObjectName,
    field: String,
}

impl Found {
    fn read(&mut self, secret: &Secret, is_hashed: bool, field: &str) {
        let name = &secret.metadata.name;
        let entries: Vec<(&str, &[u8])> = secret.entries().collect();
        let number = entries.len();
        if self.entries.len() + number > MOST_KEYS {
            let message = format!(
                "Secret {name} has {number} keys, and the keys of a policy are at most {MOST_KEYS}: use several \
                 policies"
            );
            self.findings
                .lacks(Problem::new(Reason::InvalidSecretRef, field, message));
            return;
        }
        let mut usable: usize = 0;
        for (client, content) in entries {
            let owned = self.owners.own(client, name).map_err(|owner| {
                format!(
                    "is for a client of Secret {owner}, and names are not shared between namespaces: use another name"
                )
            });
            match owned.and_then(|()| digest(content, is_hashed).map_err(str::to_owned)) {
                Ok(digest) => {
                    usable += 1;
                    self.entries.entry(digest).or_default().push(KeyEntry {
                        client: client.to_owned(),
                        secret: name.clone(),
                        field: field.to_owned(),
                    });
                }
                Err(why) => self.findings.fault(field, || {
                    format!("entry `{client}` of Secret {name} {why}; until then it admits nobody")
                }),
            }
        }
        if usable == 0 {
            let nothing = if number == 0 {
                "no entry"
            } else {
                "no usable entry"
            };
            let message = format!(
                "Secret {name} has {nothing}: add one with the name of the client, and its key as value"
            );
            self.findings
                .lacks(Problem::new(Reason::InvalidSecretRef, field, message));
        }
    }

    /// The keys that are one client's alone, and the problems.
    fn into_keys(mut self) -> (ApiKeys, Vec<Problem>) {
        let mut accepted = Vec::with_capacity(self.entries.len());
        for (digest, entries) in std::mem::take(&mut self.entries) {
            let Some((first, others)) = entries.split_first() else {
                continue;
            };
            if others.iter().all(|other| other.client == first.client) {
                accepted.push(ApiKey {
                    digest,
                    client: first.client.as_str().into(),
                });
                continue;
            }
            self.findings.fault(&first.field, || {
                let names = entries.iter();
                let names = names.map(|it| format!("`{}` of Secret {}", it.client, it.secret));
                format!(
                    "these entries have the same key: {}; until each has its own, they admit nobody",
                    problem::join(names)
                )
            });
        }
        let keys = ApiKeys {
            accepted: accepted.into(),
            is_incomplete: self.findings.is_incomplete(),
        };
        (keys, self.findings.into_refs())
    }
}

fn invalid(field: &str, message: impl std::fmt::Display) -> Problem {
    Problem::new(Reason::Invalid, field, message)
}

/// Most keys of a policy: 16 Ki, which take 1 MiB with names of thirty bytes.
const MOST_KEYS: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(entries: &[(String, &str)]) -> Secret {
        let entries: BTreeMap<_, _> = entries.iter().cloned().collect();
        let metadata = serde_json::json!({"name": "keys", "namespace": "shop"});
        let secret = serde_json::json!({"metadata": metadata, "stringData": entries});
        serde_json::from_value(secret).expect("a Secret")
    }

    fn read(entries: &[(String, &str)]) -> (ApiKeys, Vec<String>) {
        let mut found = Found::default();
        found.read(&secret(entries), false, "secretRefs[0]");
        let (keys, refs) = found.into_keys();
        (keys, refs.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn of_a_secret_without_a_usable_entry_the_keys_are_unknown() {
        let entry = |name: &str, key| (name.to_owned(), key);
        let (keys, refs) = read(&[]);
        assert!(keys.is_incomplete && refs[0].contains("Secret shop/keys has no entry: add one"));
        let (keys, refs) = read(&[entry("a", ""), entry("b", " x")]);
        assert!(keys.is_incomplete && keys.accepted.is_empty());
        let last = refs.last().expect("a problem");
        assert!(
            last.contains("Secret shop/keys has no usable entry: add one"),
            "{last}"
        );
        assert!(last.ends_with(secrets::UNKNOWN_UNTIL_THEN), "{last}");
        let (keys, refs) = read(&[entry("a", ""), entry("b", "0123456789abcdef")]);
        assert_eq!(
            (keys.is_incomplete, keys.accepted.len(), refs.len()),
            (false, 1, 1)
        );
    }

    #[test]
    fn the_first_problems_of_each_reference_are_listed() {
        let mut entries: Vec<_> = (0..100).map(|it| (format!("empty-{it:03}"), "")).collect();
        entries.extend(["a", "b", "c"].map(|name| (name.to_owned(), "0123456789abcdef")));
        let (_, refs) = read(&entries);
        assert_eq!(refs.len(), secrets::FAULTS_SHOWN + 1, "{refs:?}");
        assert!(
            refs[0].contains("entry `empty-000` of Secret shop/keys is empty"),
            "{refs:?}"
        );
        assert_eq!(
            refs[secrets::FAULTS_SHOWN],
            "secretRefs[0]: and 97 more problems with its entries"
        );
    }

    #[test]
    fn a_client_is_of_the_namespace_that_has_it_first() {
        let secret = |namespace: &str, name: &str, key: &str| {
            let metadata = serde_json::json!({"name": name, "namespace": namespace});
            let secret = serde_json::json!({"metadata": metadata, "stringData": {"acme": key}});
            serde_json::from_value::<Secret>(secret).expect("a Secret")
        };
        let mut found = Found::default();
        for (index, (namespace, name)) in [("shop", "keys"), ("shop", "next"), ("else", "keys")]
            .into_iter()
            .enumerate()
        {
            let key = format!("0123456789abcdef-{index}");
            found.read(
                &secret(namespace, name, &key),
                false,
                &format!("secretRefs[{index}]"),
            );
        }
        let (keys, refs) = found.into_keys();
        assert_eq!(
            keys.accepted.len(),
            2,
            "a key is replaced by one in a second Secret"
        );
        let expected = "secretRefs[2]: entry `acme` of Secret else/keys is for a client of Secret shop/keys, and names \
                        are not shared between namespaces: use another name; until then it admits nobody";
        assert_eq!(refs[0].to_string(), expected);
    }

    #[test]
    fn places_of_keys_are_none_of_tokens() {
        let spec = |from: serde_json::Value| ApiKeysSpec {
            from: serde_json::from_value(from).expect("a place"),
            ..ApiKeysSpec::default()
        };
        let texts = |spec: &ApiKeysSpec, jwt: Option<&JwtPolicy>| {
            let sources = sources(spec, jwt).map_err(|problem| problem.message);
            sources.map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let provider = JwtProvider {
            name: "p".to_owned(),
            issuer: "https://issuer".to_owned(),
            audiences: Vec::new(),
            keys: xds::model::JwtKeys::Inline(String::new()),
            from: Vec::new(),
            forward: JwtForward::Strip,
            claims_to_headers: Vec::new(),
            clock_skew: None,
            expiry: xds::model::JwtExpiry::Required,
        };
        let jwt = JwtPolicy {
            mode: xds::model::JwtMode::Strict,
            realm: None,
            providers: vec![provider],
        };
        let own = spec(serde_json::Value::Null);
        let both = ["header:authorization", "header:x-api-key"].map(str::to_owned);
        assert_eq!(texts(&own, None), Ok(both.to_vec()));
        assert_eq!(
            texts(&own, Some(&jwt)),
            Ok(vec!["header:x-api-key".to_owned()])
        );
        let bearer = spec(serde_json::json!({"header": {"name": "Authorization"}}));
        assert!(texts(&bearer, None).is_ok());
        let why = texts(&bearer, Some(&jwt)).expect_err("the same place");
        assert!(
            why.contains("`jwt` reads tokens from `header:authorization` too"),
            "{why}"
        );
        let other =
            spec(serde_json::json!({"header": {"name": "Authorization", "prefix": "Key "}}));
        assert!(texts(&other, Some(&jwt)).is_ok());
    }
}
