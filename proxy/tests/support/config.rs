//! Writes the Gateway API YAML that a test's gateway runs with.

use std::fmt::Write as _;
use std::net::SocketAddr;

use super::pki::{Authority, Credential};

/// The configuration of a test, in order.
#[derive(Debug, Clone, Default)]
pub(super) struct Config {
    listeners: Vec<Listener>,
    /// Ports that the listeners share.
    pub(super) ports: usize,
    /// The index of the HTTPS listener.
    pub(super) https: Option<usize>,
    gateway: Vec<String>,
    backends: Vec<(String, Vec<SocketAddr>)>,
    /// Protocols of backends other than HTTP/1.1.
    protocols: Vec<(String, String)>,
    routes: Vec<Route>,
    /// Each policy's target and fields.
    policies: Vec<(String, String)>,
    extra: Vec<String>,
}

/// A listener: its name, its port by number, and its other fields (the inside of a YAML flow
/// mapping).
#[derive(Debug, Clone)]
struct Listener {
    name: String,
    port: usize,
    fields: String,
}

impl Listener {
    /// Whether it is of this protocol.
    fn is_of(&self, protocol: &str) -> bool {
        let mut fields = self.fields.split(',').map(str::trim);
        fields.any(|field| field.strip_prefix("protocol: ") == Some(protocol))
    }

    /// The kind of its routes.
    fn route_kind(&self) -> &'static str {
        let kinds = [("TCP", "TCPRoute"), ("UDP", "UDPRoute")];
        let kind = kinds.iter().find(|(protocol, _)| self.is_of(protocol));
        kind.map_or("HTTPRoute", |(_, kind)| kind)
    }
}

#[derive(Debug, Clone)]
struct Route {
    listener: String,
    rules: Vec<String>,
}

impl Config {
    /// An HTTP listener with its own port.
    pub(super) fn http(&mut self, name: &str) {
        self.listen(name, self.ports, "protocol: HTTP".to_owned());
        self.ports += 1;
    }

    /// A listener with these fields, on its own port or on that of another listener.
    pub(super) fn listener(&mut self, name: &str, beside: Option<&str>, fields: &str) {
        let mut listeners = self.listeners.iter();
        let other = beside.and_then(|beside| listeners.find(|it| it.name == beside));
        let port = other.map_or(self.ports, |other| other.port);
        self.ports = self.ports.max(port + 1);
        self.listen(name, port, fields.to_owned());
    }

    /// An HTTPS listener, on the port shared by all of them.
    pub(super) fn https(
        &mut self,
        name: &str,
        hostname: Option<&str>,
        certificates: &[&Credential],
    ) {
        let port = *self.https.get_or_insert(self.ports);
        self.ports = self.ports.max(port + 1);
        let mut references = Vec::new();
        for (number, pair) in certificates.iter().enumerate() {
            let secret = format!("{name}-{number}");
            self.secret(&secret, pair);
            references.push(format!("{{name: {secret}}}"));
        }
        let hostname = hostname.map_or(String::new(), |name| format!(", hostname: \"{name}\""));
        let references = references.join(", ");
        let tls = format!("protocol: HTTPS{hostname}, tls: {{certificateRefs: [{references}]}}");
        self.listen(name, port, tls);
    }

    /// Makes a listener terminate TLS with this certificate.
    pub(super) fn seal(&mut self, name: &str, pair: &Credential) {
        let mut listeners = self.listeners.iter_mut();
        let listener = listeners.find(|listener| listener.name == name);
        let fields = &mut listener.expect("a declared listener").fields;
        *fields = format!("protocol: HTTPS, tls: {{certificateRefs: [{{name: {name}}}]}}");
        self.secret(name, pair);
    }

    fn listen(&mut self, name: &str, port: usize, fields: String) {
        self.listeners.push(Listener {
            name: name.to_owned(),
            port,
            fields,
        });
    }

    /// Drops the last listener; its port stays out of use.
    pub(super) fn without_last_listener(&mut self) {
        self.listeners.pop();
    }

    /// A Secret with a certificate and its key, which replaces an earlier one of that name.
    pub(super) fn secret(&mut self, name: &str, pair: &Credential) {
        self.without_secret(name);
        self.extra.push(tls_secret(name, pair));
    }

    /// Removes a Secret; returns how its document begins.
    pub(super) fn without_secret(&mut self, name: &str) -> String {
        let kind = secret_head(name);
        self.extra.retain(|document| !document.starts_with(&kind));
        kind
    }

    /// A Secret with these entries in the place of a certificate and its key.
    pub(super) fn broken_secret(&mut self, name: &str, entries: &str) {
        let kind = self.without_secret(name);
        let text = format!("{kind}type: Opaque\nstringData: {entries}\n");
        self.extra.push(text);
    }

    /// A `ConfigMap` with the certificate of an authority.
    pub(super) fn authority(&mut self, name: &str, authority: &Authority) {
        self.extra.push(format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata:\n  ca.crt: |\n{}",
            indented(&authority.pem())
        ));
    }

    /// A field of the Gateway's spec; `@https` is the port of HTTPS.
    pub(super) fn gateway_field(&mut self, field: &str) {
        self.gateway.push(field.to_owned());
    }

    /// A backend of these addresses.
    pub(super) fn backend(&mut self, name: &str, addresses: &[SocketAddr]) {
        self.backends.retain(|(known, _)| known != name);
        self.backends.push((name.to_owned(), addresses.to_vec()));
    }

    /// The protocol of a backend.
    pub(super) fn speaks(&mut self, name: &str, protocol: &str) {
        self.protocols.push((name.to_owned(), protocol.to_owned()));
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

    pub(super) fn without_rules(&mut self) {
        self.routes.clear();
    }

    /// A `TrafficPolicy` with these fields (a YAML flow mapping's inside). The target is
    /// `Kind/name`, or `Kind/name/section`.
    pub(super) fn policy(&mut self, target: &str, fields: &str) {
        let fields = self.with_references(fields);
        self.policies.push((target_ref(target), fields));
    }

    /// A raw document.
    pub(super) fn document(&mut self, yaml: &str) {
        self.extra.push(yaml.to_owned());
    }

    /// All of it as YAML, listeners on these ports.
    pub(super) fn yaml(&self, ports: &[u16]) -> String {
        let mut yaml = String::from(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: gw}\n\
             spec:\n  gatewayClassName: gateway\n",
        );
        let mut push = |text: String| yaml.push_str(&text);
        for field in &self.gateway {
            let port = self.https.and_then(|https| ports.get(https));
            let port = port.copied().unwrap_or_default().to_string();
            push(format!("  {}\n", field.replace("@https", &port)));
        }
        push("  listeners:\n".to_owned());
        for Listener { name, port, fields } in &self.listeners {
            if let Some(port) = ports.get(*port) {
                push(format!("  - {{name: {name}, port: {port}, {fields}}}\n"));
            }
        }
        for (number, route) in self.routes.iter().enumerate() {
            let mut listeners = self.listeners.iter();
            let listener = listeners.find(|listener| listener.name == route.listener);
            push(format!(
                "---\napiVersion: gateway.networking.k8s.io/v1\nkind: {}\n\
                 metadata: {{name: route-{number}}}\nspec:\n  \
                 parentRefs: [{{name: gw, sectionName: {}}}]\n  rules:\n",
                listener.map_or("HTTPRoute", Listener::route_kind),
                route.listener
            ));
            for rule in &route.rules {
                push(format!("  - {rule}\n"));
            }
        }
        for (name, addresses) in &self.backends {
            push(format!(
                "---\napiVersion: gateway-system.io/v1alpha1\nkind: Backend\n\
                 metadata: {{name: {name}}}\nspec:\n"
            ));
            if let Some((_, protocol)) = self.protocols.iter().find(|(of, _)| of == name) {
                push(format!("  protocol: {protocol}\n"));
            }
            push("  addresses:\n".to_owned());
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
                "the backend `{name}` is named, but not declared before"
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

/// A Secret with a certificate and its key.
pub(crate) fn tls_secret(name: &str, pair: &Credential) -> String {
    format!(
        "{}type: kubernetes.io/tls\nstringData:\n  tls.crt: |\n{}  tls.key: |\n{}",
        secret_head(name),
        indented(&pair.pem()),
        indented(&pair.key_pem())
    )
}

/// How the document of a Secret begins.
fn secret_head(name: &str) -> String {
    format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}}}\n")
}

fn indented(text: &str) -> String {
    text.lines().fold(String::new(), |mut text, line| {
        let _ = writeln!(text, "    {line}");
        text
    })
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
