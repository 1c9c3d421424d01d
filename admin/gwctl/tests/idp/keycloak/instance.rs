//! A real Keycloak on this machine, behind a recorder.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::step;
use crate::support::gwctl::{Run, USER_PASSWORD, idp};
use crate::support::message::send;
use crate::support::server::Server;

#[path = "../../../../../proxy/tests/support/port.rs"]
pub(super) mod port;

/// It ends with this.
pub(super) struct Keycloak {
    pub(super) recorder: Server,
    password: String,
    state: TempDir,
    is_running: bool,
}

impl Keycloak {
    pub(super) fn start() -> Self {
        step("starting Keycloak");
        let state = tempfile::tempdir().expect("a folder");
        let port = port::Ports::free(1)[0];
        let started = script(&state).args(["start", &port.to_string()]).status();
        assert!(started.expect("the script runs").success(), "it starts");
        let password = std::fs::read_to_string(state.path().join("admin-password"));
        Self {
            recorder: Server::before(port),
            password: password.expect("it was written").trim().to_owned(),
            state,
            is_running: true,
        }
    }

    pub(super) fn stop(&mut self) {
        if std::mem::take(&mut self.is_running) {
            let stopped = script(&self.state).arg("stop").status();
            assert!(stopped.expect("the script runs").success(), "it stops");
        }
    }

    /// Where it is reached.
    pub(super) fn url(&self) -> String {
        self.recorder.url()
    }

    pub(super) fn idp(&self, line: &str) -> Run {
        idp(&self.url(), &self.password, line)
    }

    /// An access token of a user for the client.
    pub(super) fn token(&self, user: &str, client: &(String, String)) -> String {
        let granted = self.grant(user, client, "");
        granted["access_token"]
            .as_str()
            .expect("a token")
            .to_owned()
    }

    /// What a user is granted for the client.
    pub(super) fn grant(&self, user: &str, (id, secret): &(String, String), more: &str) -> Value {
        self.grant_with(&format!(
            "client_id={id}&client_secret={secret}&username={user}&password={USER_PASSWORD}\
             &grant_type=password{more}"
        ))
    }

    /// The answer of the token endpoint to a form. Asked for by the name that tokens have to carry.
    pub(super) fn grant_with(&self, form: &str) -> Value {
        let path = "/realms/master/protocol/openid-connect/token";
        let kind = "Content-Type: application/x-www-form-urlencoded".to_owned();
        let answer = send(self.recorder.port, "POST", path, &[kind], form);
        assert_eq!(answer.status(), 200, "{answer:?}");
        answer.json()
    }

    pub(super) fn admin_token(&self) -> String {
        let password = &self.password;
        let granted = self.grant_with(&format!(
            "client_id=admin-cli&username=admin&password={password}&grant_type=password"
        ));
        granted["access_token"]
            .as_str()
            .expect("a token")
            .to_owned()
    }

    /// An administrator's call below the realm; null where nothing comes back.
    pub(super) fn admin(&self, method: &str, path: &str, body: &Value) -> Value {
        let lines = [
            format!("Authorization: Bearer {}", self.admin_token()),
            "Content-Type: application/json".to_owned(),
        ];
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let path = format!("/admin/realms/master{path}");
        // At the name that the token carries.
        let answer = send(self.recorder.port, method, &path, &lines, &body);
        assert!(
            (200..300).contains(&answer.status()),
            "{method} {path}: {answer:?}"
        );
        match &*answer.body {
            "" => Value::Null,
            _ => answer.json(),
        }
    }

    /// All that a set-up may touch.
    pub(super) fn inventory(&self) -> Value {
        let read = |path: &str| self.admin("GET", path, &Value::Null);
        let sorted = |path: &str| {
            let mut list = read(path).as_array().expect("a list").clone();
            list.sort_by_key(|it| it["id"].to_string());
            list
        };
        let ids = |path| {
            sorted(path)
                .iter()
                .map(|it| it["id"].clone())
                .collect::<Vec<_>>()
        };
        let policies = "/components?type=org.keycloak.services.clientregistration.policy\
                        .ClientRegistrationPolicy";
        let mut policies = sorted(policies);
        for policy in &mut policies {
            // Lists are sets.
            for list in policy["config"]
                .as_object_mut()
                .into_iter()
                .flat_map(|it| it.values_mut())
            {
                if let Some(list) = list.as_array_mut() {
                    list.sort_by_key(Value::to_string);
                }
            }
        }
        json!({
            "clients": ids("/clients"),
            "users": ids("/users"),
            "initial access tokens": ids("/clients-initial-access"),
            "policies": policies,
            "profile": read("/users/profile"),
        })
    }

    /// Checks that a text shows neither passwords nor the client's secret.
    #[track_caller]
    pub(super) fn has_no_secret(&self, text: &str, (_, secret): &(String, String)) {
        for (what, secret) in [
            ("the administrator's password", &*self.password),
            ("the users' password", USER_PASSWORD),
            ("the client's secret", secret),
            ("a token", "eyJ"),
        ] {
            assert!(!text.contains(secret), "{what} is in {text}");
        }
    }
}

impl Drop for Keycloak {
    fn drop(&mut self) {
        if self.is_running {
            let _ = script(&self.state).arg("stop").status();
        }
    }
}

fn script(state: &TempDir) -> Command {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(folder.join("../../k8s/idp/keycloak"));
    command.env("IDP_STATE", state.path());
    command
}
