//! What the machine's list of processes shows while `gwctl idp` runs: no password, secret or token.

use std::collections::HashSet;
use std::fs;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::json;

use crate::support::message::Message;
use crate::support::provider::{ADMIN_TOKEN, CLIENT_SECRET, INITIAL_TOKEN, answer_to};
use crate::support::server::{Server, json as answer};

const ADMIN_PASSWORD: &str = "adm1n-0f-pr0cesses";
const USER_PASSWORD: &str = "us3r-0f-pr0cesses";

/// A command line and an environment.
type Process = (String, String);

#[test]
fn no_secret_is_in_the_list_of_processes() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, password: &str| {
        let path = folder.path().join(name);
        fs::write(&path, password).expect("a file");
        path.display().to_string()
    };
    let admin = file("admin", ADMIN_PASSWORD);
    let user = file("user", USER_PASSWORD);
    let setup = ["setup", "--user-password-file", &user];
    let token = ["token", "--user", "user1", "--password-file", &user];
    for (command, answers) in [
        (&setup[..], answer_to as fn(&Message) -> Message),
        (&token[..], answers_of_a_client),
    ] {
        // gwctl waits for each answer meanwhile.
        let seen: Arc<Mutex<HashSet<Process>>> = Arc::default();
        let looks = Arc::clone(&seen);
        let server = Server::new(move |request, _| {
            let processes = processes();
            looks.lock().expect("no look panicked").extend(processes);
            answers(request)
        });
        let output = Command::new(env!("CARGO_BIN_EXE_gwctl"))
            .arg("idp")
            .args(command)
            .args(["--url", &server.url(), "--admin-user", "admin"])
            .args(["--admin-password-file", &admin])
            .stdin(Stdio::null())
            .output()
            .expect("gwctl runs");
        assert!(output.status.success(), "{output:?}");
        let sent: String = server
            .take()
            .iter()
            .map(|it| it.request.body.clone())
            .collect();
        assert!(
            sent.contains(ADMIN_PASSWORD) && sent.contains(USER_PASSWORD),
            "{sent}"
        );
        let seen = seen.lock().expect("no look panicked");
        let own = seen.iter().any(|(line, _)| line.contains(&server.url()));
        assert!(own, "gwctl is not among the processes");
        for (line, environment) in &*seen {
            let secrets = [
                ADMIN_PASSWORD,
                USER_PASSWORD,
                ADMIN_TOKEN,
                INITIAL_TOKEN,
                CLIENT_SECRET,
            ];
            for secret in secrets {
                assert!(!line.contains(secret), "{secret} is in {line}");
                assert!(
                    !environment.contains(secret),
                    "{secret} is in the environment of {line}"
                );
            }
        }
    }
}

/// A provider with our client.
fn answers_of_a_client(request: &Message) -> Message {
    match request.target() {
        "/admin/realms/master/clients" => {
            let client = json!({
                "id": "internal", "clientId": "the-client",
                "attributes": {"managed-by": "gwctl"},
            });
            answer(200, &json!([client]).to_string())
        }
        target if target.ends_with("/client-secret") => {
            answer(200, &json!({"value": CLIENT_SECRET}).to_string())
        }
        _ => answer_to(request),
    }
}

/// Those of the machine, as far as they may be read.
fn processes() -> Vec<Process> {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let read = |path| {
        let bytes = fs::read(path).unwrap_or_default();
        String::from_utf8_lossy(&bytes).replace('\0', " ")
    };
    let process = |entry: fs::DirEntry| {
        let folder = entry.path();
        folder
            .join("cmdline")
            .is_file()
            .then(|| (read(folder.join("cmdline")), read(folder.join("environ"))))
    };
    entries.filter_map(process).collect()
}
