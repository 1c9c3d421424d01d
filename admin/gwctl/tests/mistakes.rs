//! A catalogue of mistakes: each is made in the files of a running gateway, and then corrected. What requests get,
//! what `gwctl status` says, and that all of it ends, is asserted; a page of the guides is made of the cases.

#[expect(dead_code, reason = "the gateway of other tests, with one file")]
mod support;

use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::Value;

use self::support::port::Ports;
use self::support::{binary, origin};

/// A mistake, and what a user sees of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    mistake: String,
    /// The right text that `write` replaces; without it, that is added.
    #[serde(default, rename = "instead of")]
    instead_of: Option<String>,
    write: String,
    /// Which occurrence is replaced, from 1.
    #[serde(default = "first")]
    nth: usize,
    status: u16,
    level: String,
    object: String,
    sentence: String,
    condition: String,
    remedy: String,
}

fn first() -> usize {
    1
}

fn cases() -> Vec<Case> {
    serde_saphyr::from_str(include_str!("mistakes/cases.yaml")).expect("cases")
}

impl Case {
    /// The object that has the mistake.
    fn named(&self, text: &str) -> String {
        text.replace("NAME", &self.name)
    }

    fn right(&self, origin: u16) -> String {
        let text = include_str!("mistakes/right.yaml");
        self.named(text).replace("ORIGIN", &origin.to_string())
    }

    fn wrong(&self, origin: u16) -> String {
        let origin_text = origin.to_string();
        let write = self.named(&self.write).replace("ORIGIN", &origin_text);
        let right = self.right(origin);
        let Some(instead_of) = &self.instead_of else {
            return right + &write;
        };
        let instead_of = self.named(instead_of).replace("ORIGIN", &origin_text);
        let mut places = right.match_indices(&instead_of);
        let (at, _) = places.nth(self.nth - 1).expect("the text to replace");
        let end = at + instead_of.len();
        format!("{}{write}{}", &right[..at], &right[end..])
    }
}

/// A gateway that reads a folder.
struct Gateway {
    process: Child,
    folder: tempfile::TempDir,
    admin: u16,
    port: u16,
    _ports: Ports,
}

impl Gateway {
    fn start(origin: u16, cases: &[Case]) -> Self {
        let ports = Ports::free(2);
        let [port, admin] = ports[..] else {
            panic!("two were asked for")
        };
        let folder = tempfile::tempdir().expect("a folder");
        let edge = format!(
            "{{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {{name: edge}}, spec: \
             {{gatewayClassName: gateway, listeners: [{{name: http, port: {port}, protocol: HTTP, \
             allowedRoutes: {{namespaces: {{from: All}}}}}}]}}}}"
        );
        fs::write(folder.path().join("edge.yaml"), edge).expect("a file");
        for case in cases {
            write(folder.path(), case, &case.right(origin));
        }
        let process = Command::new(binary())
            .args(["run", "--shards", "1", "--config"])
            .arg(folder.path())
            .arg(format!("--admin-address=127.0.0.1:{admin}"))
            .args(["--metrics-address=off", "--readiness-address=off"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the gateway starts");
        Self {
            process,
            folder,
            admin,
            port,
            _ports: ports,
        }
    }

    fn gwctl(&self, line: &[&str]) -> (Option<i32>, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_gwctl"))
            .arg(format!("--local=127.0.0.1:{}", self.admin))
            .args(line)
            .output()
            .expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), text)
    }

    /// Problems, each with its level.
    fn problems(&self) -> Option<Vec<(String, String)>> {
        let (_, text) = self.gwctl(&["status", "-o", "json"]);
        let reports: Value = serde_json::from_str(&text).ok()?;
        let problems = reports[0]["problems"].as_array()?.iter();
        let text = |it: &Value, name: &str| it[name].as_str().unwrap_or_default().to_owned();
        Some(
            problems
                .map(|it| (text(it, "level"), text(it, "text")))
                .collect(),
        )
    }

    /// The status of a request to the host of a case.
    fn asks(&self, case: &Case) -> Option<u16> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        let request = format!(
            "GET /api/x HTTP/1.1\r\nhost: {}.example\r\nconnection: close\r\n\r\n",
            case.name
        );
        stream.write_all(request.as_bytes()).ok()?;
        let mut response = Vec::new();
        stream.read_to_end(&mut response).ok()?;
        let response = String::from_utf8_lossy(&response);
        response.split(' ').nth(1)?.parse().ok()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn write(folder: &Path, case: &Case, text: &str) {
    fs::write(folder.join(format!("{}.yaml", case.name)), text).expect("a file");
}

/// Asks again until nothing is missing.
fn wait_until_none(mut missing: impl FnMut() -> Vec<String>) {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let missing = missing();
        if missing.is_empty() {
            return;
        }
        assert!(Instant::now() < until, "{missing:#?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn every_mistake_is_named_while_it_lasts() {
    let (cases, origin) = (cases(), origin());
    let gateway = Gateway::start(origin, &cases);
    let is_well = || -> Vec<String> {
        let problems = gateway.problems();
        let mut missing: Vec<String> = match problems {
            None => return vec!["it does not listen yet".to_owned()],
            Some(problems) => problems.into_iter().map(|it| it.1).collect(),
        };
        for case in &cases {
            let status = gateway.asks(case);
            if status != Some(200) {
                missing.push(format!("{}: {status:?}", case.name));
            }
        }
        missing
    };
    wait_until_none(is_well);
    assert_eq!(gateway.gwctl(&["status", "--strict"]).0, Some(0));
    for case in &cases {
        write(gateway.folder.path(), case, &case.wrong(origin));
    }
    wait_until_none(|| {
        let problems = gateway.problems().unwrap_or_default();
        let missing = cases.iter().filter_map(|case| {
            let (object, sentence) = (case.named(&case.object), case.named(&case.sentence));
            let is_named = problems.iter().any(|(level, text)| {
                *level == case.level && text.contains(&object) && text.contains(&sentence)
            });
            let status = gateway.asks(case);
            let is_found = is_named && status == Some(case.status);
            let of_case = problems.iter().map(|it| &it.1);
            let of_case: Vec<&String> = of_case.filter(|it| it.contains(&case.name)).collect();
            (!is_found).then(|| format!("{}: {status:?}: {of_case:#?}", case.name))
        });
        missing.collect()
    });
    assert_eq!(gateway.gwctl(&["status"]).0, Some(1));
    for case in &cases {
        write(gateway.folder.path(), case, &case.right(origin));
    }
    wait_until_none(is_well);
}

#[test]
fn the_page_of_mistakes_is_made_of_the_cases() {
    let mut page = include_str!("mistakes/page-head.txt").to_owned();
    for status in [200, 403, 404, 500, 503] {
        let cases = cases();
        let with_status: Vec<&Case> = cases.iter().filter(|it| it.status == status).collect();
        let what = match status {
            200 => "Requests are served, but not as it was meant".to_owned(),
            status => format!("Requests get status {status}"),
        };
        let _ = write!(
            page,
            "\n## {what}\n\n| mistake | `gwctl status` says | condition | remedy |\n|---|---|---|---|\n"
        );
        for case in with_status {
            let sentence = case.sentence.replace("NAME", "app");
            let _ = writeln!(
                page,
                "| {} | {}: … {}: {} … | {} | {} |",
                case.mistake,
                case.level,
                case.object.replace("NAME", "app"),
                sentence.replace('|', "&#124;"),
                case.condition,
                case.remedy
            );
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../k8s/MISTAKES.md");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, &page).expect("the page");
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "run with UPDATE_GOLDEN=1, since the cases have changed"
    );
}
