//! Mistakes with the certificates of listeners: each is made in a Secret that a running gateway reads, and then
//! corrected. What clients get is what the handshake of `gwctl trace` says.

use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use serde::Deserialize;
use serde_json::json;

use super::support::origin;
use super::{Gateway, replace, wait_until_none};

/// A mistake, and what a user sees of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) mistake: String,
    certificate: Flaw,
    pub(super) object: String,
    pub(super) sentence: String,
    /// A part of what `gwctl trace` says, with single spaces.
    pub(super) trace: String,
    pub(super) condition: String,
    pub(super) remedy: String,
}

/// What is wrong with a certificate and its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Flaw {
    Expired,
    NotYetValid,
    OfOtherHost,
    AuthorityFirst,
    KeyOfAnother,
    NoKey,
    NotPem,
}

pub(super) fn cases() -> Vec<Case> {
    serde_saphyr::from_str(include_str!("cases/certificates.yaml")).expect("cases")
}

/// Who signs the certificates.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("a certificate").pem();
        let issuer = Issuer::new(params, key);
        Self { issuer, pem }
    }

    /// A certificate and its key for a host.
    fn signs(&self, host: &str, flaw: Option<Flaw>) -> (String, String) {
        let host = match flaw {
            Some(Flaw::OfOtherHost) => "other.example",
            _ => host,
        };
        let mut params = CertificateParams::new([host.to_owned()]).expect("a name");
        (params.not_before, params.not_after) = match flaw {
            Some(Flaw::Expired) => (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1)),
            Some(Flaw::NotYetValid) => (date_time_ymd(2100, 1, 1), date_time_ymd(2101, 1, 1)),
            _ => (date_time_ymd(2020, 1, 1), date_time_ymd(2100, 1, 1)),
        };
        let key = KeyPair::generate().expect("a key");
        let leaf = params.signed_by(&key, &self.issuer).expect("its key").pem();
        let key = key.serialize_pem();
        match flaw {
            Some(Flaw::AuthorityFirst) => (format!("{}{leaf}", self.pem), key),
            Some(Flaw::KeyOfAnother) => (leaf, KeyPair::generate().expect("a key").serialize_pem()),
            Some(Flaw::NotPem) => ("MIIB".to_owned(), key),
            _ => (leaf, key),
        }
    }

    /// The Secret of a case, right or with its flaw.
    fn secret(&self, case: &Case, flaw: Option<Flaw>) -> String {
        let (certificate, key) = self.signs(&case.host(), flaw);
        let data = match flaw {
            Some(Flaw::NoKey) => json!({"tls.crt": certificate}),
            _ => json!({"tls.crt": certificate, "tls.key": key}),
        };
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/tls",
            "metadata": {"name": "own", "namespace": case.name},
            "stringData": data,
        })
        .to_string()
    }
}

impl Case {
    fn host(&self) -> String {
        format!("{}.example", self.name)
    }

    fn named(&self, text: &str) -> String {
        text.replace("NAME", &self.name)
    }

    /// A Gateway with a route, whose listener has the certificate of the Secret.
    fn objects(&self, port: u16, origin: u16) -> String {
        let gateway = json!({
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "Gateway",
            "metadata": {"name": "edge", "namespace": self.name},
            "spec": {"gatewayClassName": "gateway", "listeners": [{
                "name": "https", "port": port, "protocol": "HTTPS", "hostname": self.host(),
                "tls": {"certificateRefs": [{"name": "own"}]},
            }]},
        });
        let route = self.named(include_str!("right.yaml"));
        let route = route.replace("ORIGIN", &origin.to_string());
        let route = route.replace(
            "{name: edge, namespace: default, sectionName: http}",
            "{name: edge, sectionName: https}",
        );
        format!("{gateway}\n---\n{route}")
    }
}

/// A gateway with a listener for each case.
struct Listeners<'a> {
    gateway: Gateway,
    cases: &'a [Case],
    authority: Authority,
    /// The file with the certificate of the authority.
    trusted: tempfile::NamedTempFile,
}

impl<'a> Listeners<'a> {
    fn start(cases: &'a [Case]) -> Self {
        let (authority, origin) = (Authority::new(), origin());
        let gateway = Gateway::serving(cases.len(), |folder, ports| {
            for (case, port) in cases.iter().zip(ports) {
                replace(folder, &case.name, &case.objects(*port, origin));
                write(folder, case, &authority.secret(case, None));
            }
        });
        let trusted = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(trusted.path(), &authority.pem).expect("a file");
        Self {
            gateway,
            cases,
            authority,
            trusted,
        }
    }

    /// What a trace of a request by HTTPS says.
    fn traces(&self, case: &Case, port: u16) -> String {
        let (port, url) = (port.to_string(), format!("https://{}/", case.host()));
        let trusted = self.trusted.path().to_string_lossy();
        self.gateway
            .traced(&["--port", &port, "--cacert", &trusted, "--", &url])
    }

    /// The cases of which `gwctl status` does not name the mistake, or `gwctl trace` says something else.
    fn unnamed(&self) -> Vec<String> {
        let problems = self.gateway.problems().unwrap_or_default();
        let cases = self.cases.iter().zip(&self.gateway.ports);
        let unnamed = cases.filter_map(|(case, port)| {
            let (object, sentence) = (case.named(&case.object), case.named(&case.sentence));
            let is_named = problems.iter().any(|(level, text)| {
                level == "error" && text.contains(&object) && text.contains(&sentence)
            });
            let traced = self.traces(case, *port);
            let is_found = is_named && traced.contains(&case.named(&case.trace));
            let of_case = problems.iter().filter(|it| it.1.contains(&case.name));
            let of_case: Vec<_> = of_case.collect();
            (!is_found).then(|| format!("{}: {traced}: {of_case:#?}", case.name))
        });
        unnamed.collect()
    }

    /// What is wrong although none of the mistakes is made.
    fn unwell(&self) -> Vec<String> {
        let problems = self.gateway.problems();
        let problems = problems.unwrap_or_else(|| vec![Default::default()]);
        let mut missing: Vec<String> = problems.into_iter().map(|it| it.1).collect();
        for (case, port) in self.cases.iter().zip(&self.gateway.ports) {
            let traced = self.traces(case, *port);
            if !traced.contains("status 200") {
                missing.push(format!("{}: {traced}", case.name));
            }
        }
        missing
    }
}

fn write(folder: &Path, case: &Case, secret: &str) {
    replace(folder, &format!("{}-secret", case.name), secret);
}

#[test]
fn a_mistake_with_a_certificate_is_named_while_it_lasts() {
    let cases = cases();
    let listeners = Listeners::start(&cases);
    let gateway = &listeners.gateway;
    wait_until_none(|| listeners.unwell());
    for case in &cases {
        let secret = listeners.authority.secret(case, Some(case.certificate));
        write(gateway.folder.path(), case, &secret);
    }
    wait_until_none(|| listeners.unnamed());
    assert_eq!(gateway.gwctl(&["status"]).0, Some(1));
    for case in &cases {
        let secret = listeners.authority.secret(case, None);
        write(gateway.folder.path(), case, &secret);
    }
    wait_until_none(|| listeners.unwell());
    assert_eq!(gateway.gwctl(&["status", "--strict"]).0, Some(0));
}
