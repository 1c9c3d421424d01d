//! The API server: objects written one by one or many at once, watched, and removed.

use std::future::Future;
use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use futures_lite::StreamExt as _;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use kube::api::{DeleteParams, PostParams};
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::task::{JoinHandle, JoinSet};

/// Writes at the same time.
const WRITERS: usize = 8;

/// Interval at which conditions are polled.
const POLL: Duration = Duration::from_millis(100);

/// Timeout for deleting namespaces with their content.
const REMOVAL: Duration = Duration::from_mins(20);

/// The label of the benchmark's namespaces.
const NAMESPACE_LABEL: &str = "gateway-bench";

pub(crate) struct Cluster {
    pub(crate) client: Client,
}

/// A watch, which ends when this is dropped.
pub(crate) struct Followed(JoinHandle<()>);

impl Drop for Followed {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Cluster {
    /// The cluster of KUBECONFIG.
    pub(crate) async fn connect() -> Result<Self> {
        if std::env::var_os("KUBECONFIG").is_none() {
            bail!("KUBECONFIG names no cluster: run this with `e2e exec -- …`");
        }
        let client = Client::try_default()
            .await
            .context("KUBECONFIG cannot be used")?;
        client
            .apiserver_version()
            .await
            .context("the API server cannot be reached: run this with `e2e exec -- …`")?;
        Ok(Self { client })
    }

    /// The objects of a kind.
    pub(crate) fn api(
        &self,
        version: &str,
        kind: &str,
        namespace: Option<&str>,
    ) -> Api<DynamicObject> {
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let gvk = GroupVersionKind::gvk(group, version, kind);
        let resource = match kind {
            "GatewayParameters" => ApiResource::from_gvk_with_plural(&gvk, "gatewayparameters"),
            _ => ApiResource::from_gvk(&gvk),
        };
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }

    /// The objects of an object's kind and namespace.
    fn api_of(&self, object: &Value) -> Api<DynamicObject> {
        let text = |field: &str| object[field].as_str().unwrap_or_default();
        let namespace = object["metadata"]["namespace"].as_str();
        self.api(text("apiVersion"), text("kind"), namespace)
    }

    /// Creates a namespace with this name prefix.
    pub(crate) async fn namespace(&self, prefix: &str) -> Result<String> {
        let namespace = serde_json::from_value(json!({
            "metadata": {"generateName": format!("{prefix}-"), "labels": {NAMESPACE_LABEL: "yes"}},
        }))?;
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let created = namespaces
            .create(&PostParams::default(), &namespace)
            .await
            .context("cannot make a namespace")?;
        Ok(created.name_any())
    }

    /// Removes all namespaces that any run made, and waits until they are gone.
    pub(crate) async fn remove_leftovers(&self) -> Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let ours = ListParams::default().labels(NAMESPACE_LABEL);
        for namespace in namespaces.list(&ours).await? {
            if namespace.metadata.deletion_timestamp.is_none() {
                let name = namespace.name_any();
                namespaces.delete(&name, &DeleteParams::default()).await?;
            }
        }
        self.until("our namespaces to be gone", REMOVAL, async || {
            Ok(namespaces.list(&ours).await?.items.is_empty().then_some(()))
        })
        .await
    }

    pub(crate) async fn create(&self, object: &Value) -> Result<()> {
        let api = self.api_of(object);
        let typed = serde_json::from_value(object.clone())?;
        api.create(&PostParams::default(), &typed)
            .await
            .with_context(|| format!("cannot create {} {}", object["kind"], object["metadata"]))?;
        Ok(())
    }

    /// Creates objects, several at the same time.
    pub(crate) async fn create_all(&self, objects: impl IntoIterator<Item = Value>) -> Result<()> {
        run_concurrently(objects.into_iter().map(|object| {
            let cluster = self.another();
            async move { cluster.create(&object).await }
        }))
        .await
    }

    /// Updates objects to these, several at the same time.
    pub(crate) async fn patch_all(&self, objects: impl IntoIterator<Item = Value>) -> Result<()> {
        run_concurrently(objects.into_iter().map(|object| {
            let cluster = self.another();
            async move { cluster.patch(&object).await }
        }))
        .await
    }

    /// Merges these fields into an object.
    pub(crate) async fn patch(&self, object: &Value) -> Result<()> {
        let name = name_of(object)?;
        let patch = Patch::Merge(object);
        self.api_of(object)
            .patch(name, &PatchParams::default(), &patch)
            .await
            .with_context(|| format!("cannot change {} {name}", object["kind"]))?;
        Ok(())
    }

    /// Deletes objects, several at the same time.
    pub(crate) async fn delete_all(&self, objects: impl IntoIterator<Item = Value>) -> Result<()> {
        run_concurrently(objects.into_iter().map(|object| {
            let api = self.api_of(&object);
            async move {
                api.delete(name_of(&object)?, &DeleteParams::default())
                    .await?;
                Ok(())
            }
        }))
        .await
    }

    /// Calls back for every object of a kind: first the existing ones, then every change.
    pub(crate) fn follow(
        api: Api<DynamicObject>,
        mut see: impl FnMut(DynamicObject) + 'static,
    ) -> Followed {
        Followed(tokio::task::spawn_local(async move {
            let mut events = pin!(watcher(api, watcher::Config::default()));
            while let Some(event) = events.next().await {
                match event {
                    Ok(watcher::Event::Apply(it) | watcher::Event::InitApply(it)) => see(it),
                    Ok(_) => {}
                    Err(_) => tokio::time::sleep(POLL).await,
                }
            }
        }))
    }

    /// Waits until `check` finds something; its errors end the wait.
    pub(crate) async fn until<T>(
        &self,
        what: &str,
        timeout: Duration,
        mut check: impl AsyncFnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        let deadline = Instant::now() + timeout;
        loop {
            let found = check().await;
            if let Some(found) = found.with_context(|| format!("waiting for {what}"))? {
                return Ok(found);
            }
            if Instant::now() > deadline {
                bail!("waited {} s for {what}", timeout.as_secs());
            }
            tokio::time::sleep(POLL).await;
        }
    }

    fn another(&self) -> Self {
        let client = self.client.clone();
        Self { client }
    }
}

fn name_of(object: &Value) -> Result<&str> {
    let name = object["metadata"]["name"].as_str();
    name.context("an object has a name")
}

/// Runs requests concurrently, up to this many. The first error ends them.
async fn run_concurrently<F>(calls: impl Iterator<Item = F>) -> Result<()>
where
    F: Future<Output = Result<()>> + 'static,
{
    let mut under_way = JoinSet::new();
    for call in calls {
        while under_way.len() >= WRITERS {
            under_way
                .join_next()
                .await
                .context("calls are under way")???;
        }
        under_way.spawn_local(call);
    }
    while let Some(done) = under_way.join_next().await {
        done??;
    }
    Ok(())
}
