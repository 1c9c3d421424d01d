//! Sessions hold while the session key is replaced and proxies are: no client is moved to another pod, and no request
//! fails.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;

use anyhow::{Context as _, Result, ensure};
use hyper::StatusCode;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::NAMESPACE;
use super::edge_gateway::{EdgeGateway, HOST, pod_of, send};
use super::features::begin_session;
use super::live_traffic::rolled_out;
use crate::test::http::{HttpResponse, request};
use crate::test::manifests::{gateway, listener, route};
use crate::test::scope::Scope;

/// Clients, each with a session of its own.
const CLIENTS: usize = 12;

/// Responses before and after each event.
const ANSWERS: usize = 20 * CLIENTS;

/// Proxies, and pods of the backend.
const REPLICAS: u32 = 3;

pub(in crate::test) async fn a_new_key_and_new_proxies_move_no_session(
    scope: &Scope,
) -> Result<()> {
    let site = three_replicas(scope).await?;
    let system = scope.within(NAMESPACE);
    let secret = format!("session-keys.{}.edge", scope.namespace);
    let mut sessions = Vec::new();
    for _ in 0..CLIENTS {
        sessions.push(begin_session(&site, "set-cookie", None).await?);
    }
    let load = Load::start(site.address, sessions);
    let happened = async {
        load.until_answers(&site, ANSWERS).await?;
        let before = signing(&system, &secret).await?;
        let rotate = [
            "annotate",
            "secret",
            &secret,
            "gateway-system.io/rotate=now",
        ];
        system.kubectl(&rotate, "").await?;
        scope
            .until("the new key to sign", async || {
                let now = signing(&system, &secret).await?;
                Ok((now != before).then_some(()))
            })
            .await?;
        load.until_answers(&site, ANSWERS).await?;
        let restart = ["rollout", "restart", "deployment/edge"];
        scope.kubectl(&restart, "").await?;
        rolled_out(scope, "edge").await?;
        load.until_answers(&site, ANSWERS).await
    };
    let happened = happened.await;
    let Counts {
        answered,
        moved,
        failed,
    } = load.stop().await;
    happened?;
    ensure!(
        moved == 0 && failed.is_empty(),
        "{moved} of {answered} moved, {} failed: {:?}",
        failed.len(),
        failed.iter().take(5).collect::<Vec<_>>()
    );
    Ok(())
}

/// A Gateway of three proxies whose clients have sessions at three pods.
async fn three_replicas(scope: &Scope) -> Result<EdgeGateway<'_>> {
    let parameters = json!({
        "apiVersion": "gateway-system.io/v1alpha1", "kind": "GatewayParameters",
        "metadata": {"name": "edge"}, "spec": {"replicas": REPLICAS},
    });
    scope.apply(&[parameters]).await?;
    let mut edge = gateway(&[listener(80, "HTTP")]);
    edge["spec"]["infrastructure"] = json!({"parametersRef": {
        "group": "gateway-system.io", "kind": "GatewayParameters", "name": "edge"}});
    let site = EdgeGateway::open_with(scope, edge, REPLICAS).await?;
    let mut sticky = route("HTTPRoute", 80, "echo");
    sticky["spec"]["rules"][0]["sessionPersistence"] =
        json!({"type": "Cookie", "cookie": {"name": "seat"}});
    scope.apply(&[sticky]).await?;
    for deployment in ["edge", "echo"] {
        rolled_out(scope, deployment).await?;
    }
    Ok(site)
}

/// The key that signs, in base64.
async fn signing(system: &Scope, secret: &str) -> Result<Value> {
    let secrets: Api<Secret> = system.api();
    let secret = secrets.get(secret).await?;
    let entry = secret.data.as_ref().and_then(|data| data.get("keys"));
    let keys: Value = serde_json::from_slice(&entry.context("an entry with keys")?.0)?;
    let mut keys = keys.as_array().context("a list of keys")?.iter();
    let signing = keys.find(|it| it["role"] == "Signing");
    Ok(signing.context("a key that signs")?["key"].clone())
}

/// Clients with a session each, which send one request after the other, each on a new connection, so that it
/// reaches any proxy.
struct Load {
    clients: JoinSet<()>,
    state: Rc<State>,
}

#[derive(Default)]
struct State {
    answered: Cell<usize>,
    moved: Cell<usize>,
    failed: RefCell<Vec<String>>,
    stopping: Cell<bool>,
}

struct Counts {
    answered: usize,
    moved: usize,
    failed: Vec<String>,
}

impl Load {
    /// Must be called within a `LocalSet`.
    fn start(address: SocketAddr, sessions: Vec<(String, String)>) -> Self {
        let state = Rc::new(State::default());
        let mut clients = JoinSet::new();
        for session in sessions {
            clients.spawn_local(run_client(address, session, Rc::clone(&state)));
        }
        Self { clients, state }
    }

    /// Waits for this many more responses.
    async fn until_answers(&self, site: &EdgeGateway<'_>, more: usize) -> Result<()> {
        let wanted = self.state.answered.get() + more;
        let is_reached = async || Ok((self.state.answered.get() >= wanted).then_some(()));
        site.scope.until("answers to sessions", is_reached).await
    }

    async fn stop(mut self) -> Counts {
        self.state.stopping.set(true);
        while self.clients.join_next().await.is_some() {}
        Counts {
            answered: self.state.answered.get(),
            moved: self.state.moved.get(),
            failed: self.state.failed.take(),
        }
    }
}

/// Keeps the cookies that it gets, as a browser does.
async fn run_client(address: SocketAddr, session: (String, String), state: Rc<State>) {
    let (mut cookie, pod) = session;
    while !state.stopping.get() {
        let answer = match ask(address, &cookie).await {
            Ok(answer) => answer,
            Err(error) => {
                state.failed.borrow_mut().push(format!("{error:#}"));
                continue;
            }
        };
        if pod_of(&answer).as_ref() != Some(&pod) {
            state.moved.set(state.moved.get() + 1);
        }
        if let Some(new) = answer.header("set-cookie").split(';').next()
            && !new.is_empty()
        {
            new.clone_into(&mut cookie);
        }
        state.answered.set(state.answered.get() + 1);
    }
}

async fn ask(address: SocketAddr, cookie: &str) -> Result<HttpResponse> {
    let answer = send(address, request(HOST, "/", &[("cookie", cookie)])?).await?;
    ensure!(answer.status == StatusCode::OK, "{}", answer.status);
    Ok(answer)
}
