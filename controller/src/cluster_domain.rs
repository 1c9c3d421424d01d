//! The domain of the cluster's names, which kubelet tells pods by the search domains of `resolv.conf`.

use std::fs;

use translate::CLUSTER_DOMAIN;

/// The domain of this pod's cluster; the usual one outside of a cluster.
#[must_use]
pub fn cluster_domain() -> String {
    let text = fs::read_to_string(RESOLV_CONF).unwrap_or_default();
    let domain = of(&text).unwrap_or(CLUSTER_DOMAIN);
    domain.to_owned()
}

/// The domain after `svc.` among the search domains, of which the last line counts.
fn of(resolv_conf: &str) -> Option<&str> {
    let last_first = resolv_conf.lines().rev();
    let mut search = last_first.filter_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some("search")).then_some(words)
    });
    let mut domains = search.next()?;
    let domain = domains.find_map(|name| name.strip_prefix("svc."))?;
    Some(domain.trim_end_matches('.')).filter(|domain| !domain.is_empty())
}

const RESOLV_CONF: &str = "/etc/resolv.conf";

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn the_domain_follows_svc_among_the_search_domains() {
        for (text, domain) in [
            (
                "search gateway-system.svc.cluster.local svc.cluster.local cluster.local corp.example\n\
                 nameserver 10.96.0.10\noptions ndots:5\n",
                Some("cluster.local"),
            ),
            (
                "nameserver 10.0.0.10\nsearch a.svc.k8s.example. svc.k8s.example. k8s.example.\n",
                Some("k8s.example"),
            ),
            ("search corp.example\nnameserver 10.0.0.1\n", None),
            ("search svc.\n", None),
            ("# search svc.cluster.local\n", None),
            ("", None),
        ] {
            assert_eq!(of(text), domain, "{text}");
        }
    }
}
