//! Keycloak in a namespace of its own, as `k8s/idp/keycloak.yaml` installs it: set up through a
//! forwarded port, its policy applied, its users distinguished by their group, and deleted with its
//! namespace.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use hyper::StatusCode;
use ring::rand::{SecureRandom as _, SystemRandom};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::edge_gateway::{EdgeGateway, HOST, send};
use crate::home;
use crate::test::http::{HttpResponse, request};
use crate::test::manifests::route;
use crate::test::objects::expected_condition;
use crate::test::port_forward::ForwardedPort;
use crate::test::scope::Scope;

const NAMESPACE: &str = "identity-provider";

/// The policy that `gwctl idp setup` makes for the Gateway.
const POLICY: &str = "identity-provider";

/// Where proxies fetch its keys.
const KEYS: &str = "keycloak.identity-provider.svc.cluster.local:8080";

pub(in crate::test) async fn keycloak_users_are_distinguished_by_their_group(
    scope: &Scope,
) -> Result<()> {
    let site = EdgeGateway::open(scope).await?;
    let provider = scope.within(NAMESPACE);
    let passwords = Passwords::make()?;
    provider
        .kubectl(&["create", "namespace", NAMESPACE], "")
        .await?;
    let outcome = async {
        install(&provider, &passwords).await?;
        let keycloak = Keycloak {
            scope,
            port: ForwardedPort::to_service(&provider, "keycloak", 8080).await?,
            passwords: &passwords,
        };
        keycloak.set_up_twice().await?;
        protect_admins(scope).await?;
        groups_decide(&site, &keycloak).await?;
        what_a_gateway_enforces_holds(&site, &keycloak).await?;
        let gone = keycloak.idp("cleanup", &[]).await?;
        ensure!(
            gone.contains("created at the provider is removed"),
            "{gone}"
        );
        Ok(())
    };
    let outcome: Result<()> = outcome.await;
    // Waits until nothing of it is left.
    let removed = provider
        .kubectl(&["delete", "namespace", NAMESPACE], "")
        .await;
    outcome?;
    removed?;
    let all = [
        "get",
        "pods,services,deployments,replicasets,secrets",
        "--ignore-not-found",
    ];
    let remaining = provider.kubectl(&all, "").await?;
    ensure!(remaining.is_empty(), "these are left: {remaining}");
    Ok(())
}

/// Files with passwords, which no command line shows.
struct Passwords {
    folder: TempDir,
}

impl Passwords {
    fn make() -> Result<Self> {
        let folder = tempfile::tempdir().context("cannot make a folder for passwords")?;
        let passwords = Self { folder };
        for file in [passwords.admin(), passwords.users()] {
            let mut bytes = [0; 16];
            let filled = SystemRandom::new().fill(&mut bytes);
            filled.ok().context("the kernel has no random bytes")?;
            let text = format!("{:032x}", u128::from_ne_bytes(bytes));
            fs::write(file, text).context("cannot write a password")?;
        }
        Ok(passwords)
    }

    fn admin(&self) -> PathBuf {
        self.folder.path().join("admin")
    }

    fn users(&self) -> PathBuf {
        self.folder.path().join("users")
    }
}

/// As the manifests tell to install it.
async fn install(provider: &Scope, passwords: &Passwords) -> Result<()> {
    let password = format!("--from-file=password={}", text(&passwords.admin()));
    let secret = ["create", "secret", "generic", "keycloak-admin", &password];
    provider.kubectl(&secret, "").await?;
    let manifests = home::repository().join("k8s/idp/keycloak.yaml");
    provider
        .kubectl(&["apply", "-f", &text(&manifests)], "")
        .await?;
    // On two busy cores, its first start takes minutes.
    let started = ["rollout", "status", "deployment/keycloak", "--timeout=900s"];
    provider.kubectl(&started, "").await.map(drop)
}

/// A Keycloak that runs.
struct Keycloak<'a> {
    scope: &'a Scope,
    port: ForwardedPort,
    passwords: &'a Passwords,
}

impl Keycloak<'_> {
    /// Runs a command of `gwctl idp`.
    async fn idp(&self, command: &str, more: &[&str]) -> Result<String> {
        let url = format!("http://127.0.0.1:{}", self.port.number());
        let password = text(&self.passwords.admin());
        let provider = ["--url", &url, "--admin-user", "admin"];
        let password = ["--admin-password-file", &password];
        let words = [&["idp", command], &provider[..], &password, more].concat();
        self.scope.gwctl(&words).await
    }

    async fn set_up_twice(&self) -> Result<()> {
        let password = text(&self.passwords.users());
        let users = ["--user-password-file", &password];
        let policy = ["--target", "gateway/edge", "--apply", "--keys-from", KEYS];
        let words = [&users[..], &policy, &["-o", "json"]].concat();
        let first: Value = serde_json::from_str(&self.idp("setup", &words).await?)?;
        ensure!(
            first["changed"] == true && first["clientSecret"].is_string(),
            "nothing was set up"
        );
        let second: Value = serde_json::from_str(&self.idp("setup", &words).await?)?;
        ensure!(
            second["changed"] == false && second["clientId"] == first["clientId"],
            "the second run changed something: {second}"
        );
        self.idp("status", &[]).await.map(drop)
    }

    async fn token(&self, user: &str) -> Result<String> {
        let password = text(&self.passwords.users());
        let words = ["--user", user, "--password-file", &password];
        Ok(self.idp("token", &words).await?.trim().to_owned())
    }
}

/// A route that only one group may use.
async fn protect_admins(scope: &Scope) -> Result<()> {
    let mut admins = route("HTTPRoute", 80, "echo");
    admins["metadata"]["name"] = json!("admins");
    admins["spec"]["rules"][0]["matches"] = json!([{"path": {"value": "/admins"}}]);
    let policy = json!({
        "apiVersion": "gateway-system.io/v1alpha1", "kind": "TrafficPolicy",
        "metadata": {"name": "admins"},
        "spec": {
            "targetRefs": [
                {"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "admins"},
            ],
            "authorization": {"allow": [{"name": "admins", "when": "claims.group == 'admins'"}]},
        },
    });
    scope.apply(&[admins, policy]).await
}

async fn groups_decide(site: &EdgeGateway<'_>, keycloak: &Keycloak<'_>) -> Result<()> {
    site.until(HOST, "/", StatusCode::UNAUTHORIZED).await?;
    site.until(HOST, "/admins", StatusCode::UNAUTHORIZED)
        .await?;
    for (user, group, admins) in [
        ("user1", "users", StatusCode::FORBIDDEN),
        ("user2", "admins", StatusCode::OK),
    ] {
        let what = format!("{user} to be let in");
        let answer = site
            .scope
            .until(&what, async || {
                let answer = get_with_token(site, "/", &keycloak.token(user).await?).await;
                Ok(answer.ok().filter(|it| it.status == StatusCode::OK))
            })
            .await?;
        let echoed: Value = serde_json::from_str(&answer.body)?;
        let headers = &echoed["headers"];
        ensure!(
            headers["X-Group"] == json!([group]) && headers["Authorization"].is_null(),
            "the backend saw {headers}"
        );
        let answer = get_with_token(site, "/admins", &keycloak.token(user).await?).await?;
        ensure!(answer.status == admins, "{user}: {answer:?}");
    }
    Ok(())
}

/// A policy of the route lifts what a replaceable one of its Gateway requires, and nothing of what an overriding one
/// does, whichever is there first.
async fn what_a_gateway_enforces_holds(
    site: &EdgeGateway<'_>,
    keycloak: &Keycloak<'_>,
) -> Result<()> {
    let scope = site.scope;
    let policy = scope.object("TrafficPolicy", POLICY).await?;
    let policy = policy.context("the policy of `gwctl idp setup` is missing")?;
    let mut lenient = policy["spec"]["jwt"].clone();
    lenient["mode"] = json!("Optional");
    let lifting = json!({"spec": {
        "jwt": lenient, "authorization": {"allow": [{"name": "all", "when": "true"}]},
    }});
    patch(scope, "admins", &lifting).await?;
    site.until(HOST, "/admins", StatusCode::OK).await?;
    let enforcing = json!({"spec": {
        "precedence": "Overrides",
        "authorization": {"allow": [{"name": "admins", "when": "claims.group == 'admins'"}]},
    }});
    patch(scope, POLICY, &enforcing).await?;
    for is_first in [false, true] {
        if is_first {
            scope.delete("TrafficPolicy", "admins").await?;
            protect_admins(scope).await?;
            patch(scope, "admins", &lifting).await?;
        }
        let partly = expected_condition("Programmed", "True", "PartiallyProgrammed");
        let message = scope.condition("TrafficPolicy", "admins", partly).await?;
        ensure!(message.contains("jwt"), "{message}");
        site.until(HOST, "/admins", StatusCode::UNAUTHORIZED)
            .await?;
        for (user, expected) in [("user1", StatusCode::FORBIDDEN), ("user2", StatusCode::OK)] {
            let answer = get_with_token(site, "/admins", &keycloak.token(user).await?).await?;
            ensure!(answer.status == expected, "{user}: {answer:?}");
        }
    }
    Ok(())
}

async fn patch(scope: &Scope, policy: &str, change: &Value) -> Result<()> {
    let change = format!("--patch={change}");
    let words = ["patch", "trafficpolicy", policy, "--type=merge", &change];
    scope.kubectl(&words, "").await.map(drop)
}

/// One request with a token.
async fn get_with_token(site: &EdgeGateway<'_>, path: &str, token: &str) -> Result<HttpResponse> {
    let token = format!("Bearer {token}");
    let request = request(HOST, path, &[("authorization", &token)])?;
    send(site.address, request).await
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
