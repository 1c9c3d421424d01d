//! Names of a Gateway's workload (GEP-1762), shared by the deployer and those that look it up.

use ring::digest::{SHA256, digest};

/// A name valid for a Service, a pod's host name and a label value: at most 63 bytes. A longer one
/// is truncated, with a digest for uniqueness.
#[must_use]
pub fn child_name(name: &str) -> String {
    if name.len() <= LABEL_BYTES {
        return name.to_owned();
    }
    let end = name.floor_char_boundary(KEPT_BYTES);
    // A `-` must not follow a dot.
    let kept = name.get(..end).unwrap_or_default().trim_end_matches('.');
    format!("{kept}-{}", suffix(name))
}

/// The same for a Service, whose name is a DNS label: no dots, and starting with a letter, which API
/// servers before Kubernetes 1.36 require.
#[must_use]
pub fn service_name(name: &str) -> String {
    let is_label = !name.contains('.') && name.starts_with(|it: char| it.is_ascii_alphabetic());
    if is_label {
        return child_name(name);
    }
    with_suffix(&format!("gw-{}", name.replace('.', "-")), name)
}

/// The name of a Service that no [`service_name`] of another object of this name has.
#[must_use]
pub fn distinct_service_name(name: &str) -> String {
    let plain = service_name(name);
    with_suffix(&plain, &format!("{name}/"))
}

/// A label with a digest of `distinct` at its end.
fn with_suffix(label: &str, distinct: &str) -> String {
    let end = label.floor_char_boundary(KEPT_BYTES);
    format!(
        "{}-{}",
        label.get(..end).unwrap_or_default(),
        suffix(distinct)
    )
}

fn suffix(name: &str) -> String {
    let hash = digest(&SHA256, name.as_bytes());
    let bytes = hash.as_ref().iter().take(HASH_BYTES);
    bytes.fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

/// The label of pods with the Gateway that they belong to, by its [`child_name`].
pub const GATEWAY_NAME: &str = "gateway.networking.k8s.io/gateway-name";
/// Limit of a label value, a Service's name and a pod's host name in bytes (RFC 1123 label).
const LABEL_BYTES: usize = 63;
/// Bytes kept of a long name, before the digest.
const KEPT_BYTES: usize = 50;
/// Bytes of the digest, each with two digits.
const HASH_BYTES: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_truncated_and_stay_distinct() {
        assert_eq!(child_name("edge"), "edge");
        let (one, other) = (child_name(&"a".repeat(253)), child_name(&"a".repeat(252)));
        assert_eq!((one.len(), other.len()), (63, 63));
        assert_ne!(one, other);
        assert!(one.starts_with(&format!("{}-", "a".repeat(50))), "{one}");
    }

    /// A name with a dot before a `-` is not a DNS name, so the API server would refuse each object.
    #[test]
    fn a_truncated_name_does_not_end_with_a_dot() {
        let name = format!("{}.{}", "a".repeat(49), "b".repeat(30));
        let child = child_name(&name);
        assert!(
            child.starts_with(&format!("{}-", "a".repeat(49))),
            "{child}"
        );
    }

    #[test]
    fn a_distinct_name_is_a_label_that_no_gateway_of_the_name_has() {
        for name in ["edge-metrics", "1st.example-metrics", &"a".repeat(253)] {
            let distinct = distinct_service_name(name);
            assert_ne!(distinct, service_name(name));
            assert!(
                distinct.len() <= 63 && !distinct.contains('.'),
                "{distinct}"
            );
        }
    }

    #[test]
    fn service_names_are_valid_dns_labels() {
        assert_eq!(service_name("edge"), "edge");
        for name in ["shop.example.com", "1st", &"a.".repeat(120)] {
            let service = service_name(name);
            let is_label = service
                .chars()
                .all(|it| it.is_ascii_alphanumeric() || it == '-');
            assert!(
                is_label && service.len() <= 63 && service.starts_with("gw-"),
                "{service}"
            );
        }
        assert_ne!(service_name("a.b"), service_name("a-b"));
        assert_ne!(service_name("a.b"), service_name("a..b"));
    }
}
