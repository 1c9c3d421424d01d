//! The certificate of the xDS server: its authority in a Secret and the bundle that proxies trust
//! in a ConfigMap, both in the namespace of the controller. The leader writes them; every replica
//! signs its own certificate. An authority that the user put into the Secret is never replaced.
//!
//! While the next authority is announced, the one before signs. It is kept in a Secret of its own, so that
//! a process that starts in these minutes does not sign with one that proxies do not trust yet.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, ObjectReference, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource as _};
use rustls::ServerConfig;
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::authority::{
    Authority, Generated, InvalidAuthority, LEAF_AGE, certificates, is_generated,
};
use super::authority_report::AuthorityReport;
use super::rotation::Rotation;
use crate::context::Context;

/// Keeps the server's certificate current.
pub(super) struct Certificates {
    context: Context,
    secrets: Api<Secret>,
    config_maps: Api<ConfigMap>,
    name: String,
    /// Names by which proxies reach the server.
    names: Vec<String>,
    rotation: Rotation,
    report: AuthorityReport,
    /// The certificate of the authority that is in its Secret as the one that signs.
    kept: Option<String>,
    /// The authority of the current certificate, and when it was signed.
    issued: Option<(String, Instant)>,
    configs: Option<watch::Sender<Arc<ServerConfig>>>,
}

#[derive(Debug, Error)]
enum Failure {
    #[error("{0}")]
    Api(#[from] Box<kube::Error>),
    #[error(
        "the Secret {} is not a certificate authority: {why}; put a CA certificate and its key into \
         tls.crt and tls.key, or delete the Secret to have one created",
        .secret.name.as_deref().unwrap_or_default()
    )]
    Authority {
        secret: Box<ObjectReference>,
        why: InvalidAuthority,
    },
    #[error("cannot create a certificate: {0}")]
    Generation(#[from] InvalidAuthority),
    #[error("no response from the API server")]
    TimedOut,
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        Self::Api(Box::new(error))
    }
}

impl Certificates {
    pub(super) fn new(context: &Context) -> Self {
        let client: Client = context.client.clone();
        let (service, namespace) = (&context.args.service, &context.args.namespace);
        Self {
            secrets: Api::namespaced(client.clone(), namespace),
            config_maps: Api::namespaced(client, namespace),
            name: format!("{service}-xds-ca"),
            names: vec![
                format!("{service}.{namespace}.svc"),
                format!("{service}.{namespace}.svc.cluster.local"),
                format!("{service}.{namespace}"),
                service.clone(),
                "localhost".to_owned(),
            ],
            rotation: Rotation::default(),
            report: AuthorityReport::register(context),
            kept: None,
            issued: None,
            configs: None,
            context: context.clone(),
        }
    }

    /// Waits for the first certificate.
    pub(super) async fn first(&mut self) -> watch::Receiver<Arc<ServerConfig>> {
        loop {
            self.step().await;
            if let Some(configs) = &self.configs {
                return configs.subscribe();
            }
            sleep(FIRST_DELAY).await;
        }
    }

    /// Follows the Secret, and replaces the certificate before it expires. Never ends.
    pub(super) async fn follow(mut self) {
        loop {
            sleep(INTERVAL).await;
            self.step().await;
        }
    }

    async fn step(&mut self) {
        let step = timeout(TIMEOUT, self.compare(Instant::now()));
        match step.await.unwrap_or(Err(Failure::TimedOut)) {
            Ok(()) => {}
            Err(failure) => self.report_failure(failure).await,
        }
        // Also while the API server is unavailable.
        if let Err(failure) = self.issue(Instant::now()) {
            warn!(%failure, "the xDS server has no certificate");
        }
    }

    async fn report_failure(&mut self, failure: Failure) {
        let effect = match self.rotation.signing() {
            Some(_) => "until then, the previous one stays in use",
            None => "until then, proxies cannot connect and keep their last configuration",
        };
        let problem = format!("{failure}; {effect}");
        match failure {
            Failure::Authority { secret, .. } => {
                let report = self.report.invalid(&secret, problem);
                let _: Result<(), _> = timeout(TIMEOUT, report).await;
            }
            failure => warn!(%failure, "cannot watch the CA of the xDS server"),
        }
    }

    /// Compares the cluster with the desired state, and corrects it as the leader. While the Secret is
    /// invalid, the authority before it stays published.
    async fn compare(&mut self, now: Instant) -> Result<(), Failure> {
        match self.authority().await {
            Ok(None) => Ok(()),
            Ok(Some(authority)) => {
                self.report.valid(authority.not_after);
                if self.rotation.signing().is_none()
                    && let Some(signing) = self.former(&authority).await?
                {
                    self.rotation.set_desired(Arc::new(signing));
                }
                self.rotation.set_desired(Arc::new(authority));
                self.compare_bundle(now).await?;
                self.keep_signing().await
            }
            Err(failure) => {
                let is_invalid = matches!(failure, Failure::Authority { .. });
                if is_invalid && self.rotation.signing().is_some() {
                    self.compare_bundle(now).await?;
                }
                Err(failure)
            }
        }
    }

    async fn compare_bundle(&mut self, now: Instant) -> Result<(), Failure> {
        let config_map = self.published().await?;
        let present = certificates(bundle(config_map.as_ref()));
        self.rotation.set_published(&present, now);
        self.rotation.advance(now);
        let wanted = self.rotation.bundle(now);
        let bundle = wanted.concat();
        if wanted != present && self.context.leadership.is_leader() {
            self.write_bundle(config_map, bundle.clone()).await?;
        }
        self.context
            .outputs
            .authorities
            .send_if_modified(|current| {
                let is_new = **current != *bundle;
                if is_new {
                    *current = bundle.into();
                }
                is_new
            });
        Ok(())
    }

    /// The ConfigMap with the bundle.
    async fn published(&self) -> Result<Option<ConfigMap>, Failure> {
        Ok(self.config_maps.get_opt(&self.name).await?)
    }

    /// The authority that signed before this process started, if it is another one: proxies may not trust the
    /// desired one yet.
    async fn former(&self, desired: &Authority) -> Result<Option<Authority>, Failure> {
        let Some(secret) = self.secrets.get_opt(&self.signing_name()).await? else {
            return Ok(None);
        };
        // One that has expired or is damaged would serve nobody.
        let Ok(former) = read(&secret, SystemTime::now()) else {
            return Ok(None);
        };
        let published = self.published().await?;
        let is_trusted = certificates(bundle(published.as_ref())).contains(&former.pem);
        Ok((former.pem != desired.pem && is_trusted).then_some(former))
    }

    /// As the leader, keeps the authority that signs in its Secret.
    async fn keep_signing(&mut self) -> Result<(), Failure> {
        let Some(signing) = self.rotation.signing() else {
            return Ok(());
        };
        if self.kept.as_ref() == Some(&signing.pem) || !self.context.leadership.is_leader() {
            return Ok(());
        }
        let name = self.signing_name();
        let before = self.secrets.get_opt(&name).await?;
        let data = [(CERTIFICATE, &signing.pem), (KEY, &signing.key_pem)];
        let data =
            data.map(|(entry, pem)| (entry.to_owned(), ByteString(pem.clone().into_bytes())));
        let data = Some(BTreeMap::from(data));
        let pem = signing.pem.clone();
        if before.as_ref().is_none_or(|before| before.data != data) {
            let params = PostParams::default();
            let is_new = before.is_none();
            let secret = Secret {
                metadata: ObjectMeta {
                    name: Some(name.clone()),
                    ..self.metadata(before.map(|it| it.metadata))
                },
                type_: Some("kubernetes.io/tls".to_owned()),
                data,
                ..Secret::default()
            };
            if is_new {
                self.secrets.create(&params, &secret).await?;
            } else {
                self.secrets.replace(&name, &params, &secret).await?;
            }
        }
        self.kept = Some(pem);
        Ok(())
    }

    /// Name of the Secret with the authority that signs.
    fn signing_name(&self) -> String {
        format!("{}-signing", self.name)
    }

    /// The authority of the Secret. The leader generates one if there is none, and in place of a
    /// generated one that is old or has expired. One of the user stays, whatever its age.
    async fn authority(&self) -> Result<Option<Authority>, Failure> {
        let secret = self.secrets.get_opt(&self.name).await?;
        let now = SystemTime::now();
        let Some(secret) = secret else {
            if !self.context.leadership.is_leader() {
                return Ok(None);
            }
            return self.make(None, now).await.map(Some);
        };
        let authority = read(&secret, now);
        let is_old = match &authority {
            Ok(authority) => authority.is_old(now),
            Err(why) => matches!(why, InvalidAuthority::Expired),
        };
        if is_old && is_ours(&secret) && self.context.leadership.is_leader() {
            return self.make(Some(secret), now).await.map(Some);
        }
        authority.map(Some).map_err(|why| Failure::Authority {
            secret: Box::new(secret.object_ref(&())),
            why,
        })
    }

    /// Generates an authority, in place of a generated one that is old, if `before` is there.
    async fn make(&self, before: Option<Secret>, now: SystemTime) -> Result<Authority, Failure> {
        let Generated { certificate, key } = Authority::generate(now)?;
        let params = PostParams::default();
        let is_new = before.is_none();
        // The rest of it, such as annotations, stays as it is.
        let mut secret = before.unwrap_or_else(|| Secret {
            metadata: self.metadata(None),
            type_: Some("kubernetes.io/tls".to_owned()),
            ..Secret::default()
        });
        let data = secret.data.get_or_insert_default();
        for (name, pem) in [(CERTIFICATE, &certificate), (KEY, &key)] {
            data.insert(name.to_owned(), ByteString(pem.clone().into_bytes()));
        }
        if is_new {
            self.secrets.create(&params, &secret).await?;
        } else {
            self.secrets.replace(&self.name, &params, &secret).await?;
        }
        info!(secret = self.name, "created a CA for the xDS server");
        Ok(Authority::parse(
            certificate.as_bytes(),
            key.as_bytes(),
            now,
        )?)
    }

    async fn write_bundle(&self, before: Option<ConfigMap>, bundle: String) -> Result<(), Failure> {
        let is_new = before.is_none();
        let config_map = ConfigMap {
            metadata: self.metadata(before.map(|it| it.metadata)),
            data: Some([(BUNDLE.to_owned(), bundle)].into()),
            ..ConfigMap::default()
        };
        if is_new {
            let params = PostParams::default();
            self.config_maps.create(&params, &config_map).await?;
        } else {
            let (params, patch) = (PatchParams::default(), Patch::Merge(&config_map));
            self.config_maps.patch(&self.name, &params, &patch).await?;
        }
        info!(
            config_map = self.name,
            "published the CA certificates that proxies trust"
        );
        Ok(())
    }

    /// Metadata of our objects. A replacement carries the version that was read, so that no other
    /// write is overwritten.
    fn metadata(&self, before: Option<ObjectMeta>) -> ObjectMeta {
        let labels = BTreeMap::from([(MANAGED_BY.to_owned(), MANAGER.to_owned())]);
        ObjectMeta {
            name: Some(self.name.clone()),
            labels: Some(labels),
            resource_version: before.and_then(|it| it.resource_version),
            ..ObjectMeta::default()
        }
    }

    /// Signs a certificate, if the authority has changed or the last one is due.
    fn issue(&mut self, now: Instant) -> Result<(), Failure> {
        let Some(authority) = self.rotation.signing() else {
            return Ok(());
        };
        let issued = self.issued.as_ref();
        if issued.is_some_and(|(pem, at)| *pem == authority.pem && now < *at + LEAF_AGE) {
            return Ok(());
        }
        let config = authority.server(&self.names, SystemTime::now())?;
        self.issued = Some((authority.pem.clone(), now));
        match &self.configs {
            Some(configs) => drop(configs.send_replace(config)),
            None => self.configs = Some(watch::Sender::new(config)),
        }
        info!("signed a certificate for the xDS server");
        Ok(())
    }
}

/// The bundle in its ConfigMap; empty without one.
fn bundle(config_map: Option<&ConfigMap>) -> &str {
    let data = config_map.and_then(|it| it.data.as_ref());
    data.and_then(|data| data.get(BUNDLE))
        .map_or("", String::as_str)
}

fn read(secret: &Secret, now: SystemTime) -> Result<Authority, InvalidAuthority> {
    Authority::parse(entry(secret, CERTIFICATE), entry(secret, KEY), now)
}

fn entry<'a>(secret: &'a Secret, name: &str) -> &'a [u8] {
    let entry = secret.data.as_ref().and_then(|data| data.get(name));
    entry.map_or(&[], |it| it.0.as_slice())
}

/// Whether a controller generated the authority in the Secret, so that it may be replaced. The label
/// is not enough: it stays when the user puts an authority of theirs into the Secret.
fn is_ours(secret: &Secret) -> bool {
    let labels = secret.metadata.labels.as_ref();
    let manager = labels.and_then(|labels| labels.get(MANAGED_BY));
    manager.is_some_and(|it| it == MANAGER) && is_generated(entry(secret, CERTIFICATE))
}

const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";

/// The ConfigMap entry with the bundle.
const BUNDLE: &str = "ca.crt";

const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
const MANAGER: &str = "gateway-controller";

/// Interval of reading the Secret and the ConfigMap. It is not urgent: a new authority starts
/// signing minutes later.
const INTERVAL: Duration = Duration::from_secs(20);

/// The same, until there is a certificate.
const FIRST_DELAY: Duration = Duration::from_secs(1);

/// Timeout of reading and writing both.
const TIMEOUT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
