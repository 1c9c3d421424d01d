//! Writes the Gateway API YAML that a test's gateway runs with.

use std::fmt::Write as _;
use std::net::SocketAddr;

/// What a test configures, in the order it was said.
#[derive(Debug, Clone, Default)]
pub(super) struct Config {
    pub(super) listeners: Vec<String>,
    backends: Vec<(String, Vec<SocketAddr>)>,
    routes: Vec<Route>,
    /// What each policy aims at, and its fields.
    policies: Vec<(String, String)>,
    extra: Vec<String>,
}

#[derive(Debug, Clone)]
struct Route {
    listener: String,
    rules: Vec<String>,
}

impl Config {
    /// A backend of these addresses.
    pub(super) fn backend(&mut self, name: &str, addresses: &[SocketAddr]) {
        self.backends.retain(|(known, _)| known != name);
        self.backends.push((name.to_owned(), addresses.to_vec()));
    }

    /// A rule (a YAML flow mapping) of a listener; `@name` stands for a reference to a backend.
    pub(super) fn rule(&mut self, listener: &str, rule: &str) {
        let rule = self.with_references(rule);
        match self
            .routes
            .iter_mut()
            .find(|route| route.listener == listener)
        {
            Some(route) => route.rules.push(rule),
            None => self.routes.push(Route {
                listener: listener.to_owned(),
                rules: vec![rule],
            }),
        }
    }

    /// Forgets every rule.
    pub(super) fn without_rules(&mut self) {
        self.routes.clear();
    }

    /// A `TrafficPolicy` with these fields (a YAML flow mapping's inside). The target is
    /// `Kind/name`, or `Kind/name/section`.
    pub(super) fn policy(&mut self, target: &str, fields: &str) {
        self.policies.push((target_ref(target), fields.to_owned()));
    }

    /// A document as it stands.
    pub(super) fn document(&mut self, yaml: &str) {
        self.extra.push(yaml.to_owned());
    }

    /// All of it as YAML, listeners on these ports.
    pub(super) fn yaml(&self, ports: &[u16]) -> String {
        let mut yaml = String::from(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: gw}\n\
             spec:\n  gatewayClassName: gateway\n  listeners:\n",
        );
        let mut push = |text: String| yaml.push_str(&text);
        for (name, port) in self.listeners.iter().zip(ports) {
            push(format!(
                "  - {{name: {name}, port: {port}, protocol: HTTP}}\n"
            ));
        }
        for (number, route) in self.routes.iter().enumerate() {
            push(format!(
                "---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n\
                 metadata: {{name: route-{number}}}\nspec:\n  \
                 parentRefs: [{{name: gw, sectionName: {}}}]\n  rules:\n",
                route.listener
            ));
            for rule in &route.rules {
                push(format!("  - {rule}\n"));
            }
        }
        for (name, addresses) in &self.backends {
            push(format!(
                "---\napiVersion: gateway-system.io/v1alpha1\nkind: Backend\n\
                 metadata: {{name: {name}}}\nspec:\n  addresses:\n"
            ));
            for address in addresses {
                push(format!(
                    "  - {{host: {}, port: {}}}\n",
                    address.ip(),
                    address.port()
                ));
            }
        }
        for (number, (target, fields)) in self.policies.iter().enumerate() {
            push(format!(
                "---\napiVersion: gateway-system.io/v1alpha1\nkind: TrafficPolicy\n\
                 metadata: {{name: policy-{number}}}\nspec:\n  \
                 targetRefs: [{target}]\n  {fields}\n"
            ));
        }
        for document in &self.extra {
            push(format!("---\n{document}\n"));
        }
        yaml
    }

    fn with_references(&self, rule: &str) -> String {
        let mut text = String::new();
        let mut rest = rule;
        while let Some((before, after)) = rest.split_once('@') {
            let end = after
                .find(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
                .unwrap_or(after.len());
            let (name, on) = after.split_at(end);
            let known = self.backends.iter().any(|(backend, _)| backend == name);
            assert!(
                known,
                "the rule names the backend `{name}`, which is not declared before it"
            );
            let _ = write!(
                text,
                "{before}group: gateway-system.io, kind: Backend, name: {name}"
            );
            rest = on;
        }
        text + rest
    }
}

fn target_ref(target: &str) -> String {
    let mut parts = target.split('/');
    let (kind, name) = (parts.next().unwrap_or_default(), parts.next());
    let group = match kind {
        "Backend" => "gateway-system.io",
        _ => "gateway.networking.k8s.io",
    };
    let name = name.expect("a target is `Kind/name`, or `Kind/name/section`");
    let section = parts
        .next()
        .map(|section| format!(", sectionName: {section}"));
    let section = section.unwrap_or_default();
    format!("{{group: {group}, kind: {kind}, name: {name}{section}}}")
}
