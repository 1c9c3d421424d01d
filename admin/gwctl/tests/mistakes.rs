//! A catalogue of mistakes: each is made in the files of a running gateway, and then corrected. What requests get,
//! what `gwctl status` and `gwctl trace` say, and that all of it ends, is asserted; a page of the guides is made of the
//! cases.

#[path = "mistakes/certificates.rs"]
mod certificates;
#[path = "mistakes/flags.rs"]
mod flags;
#[expect(dead_code, reason = "the gateway of other tests, with one file")]
mod support;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
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
    /// A part of what `gwctl trace` says, with single spaces.
    trace: String,
    condition: String,
    remedy: String,
}

fn first() -> usize {
    1
}

fn cases() -> Vec<Case> {
    let files = [
        include_str!("mistakes/cases/general.yaml"),
        include_str!("mistakes/cases/routes.yaml"),
        include_str!("mistakes/cases/backends.yaml"),
        include_str!("mistakes/cases/policies.yaml"),
        include_str!("mistakes/cases/gateways.yaml"),
        include_str!("mistakes/cases/machine.yaml"),
    ];
    let cases = files
        .iter()
        .map(|it| serde_saphyr::from_str::<Vec<Case>>(it).expect("cases"));
    cases.flatten().collect()
}

impl Case {
    /// The object that has the mistake.
    fn named(&self, text: &str) -> String {
        text.replace("NAME", &self.name)
    }

    fn placed(&self, text: &str, servers: Servers) -> String {
        let text = self.named(text);
        let text = text.replace("ORIGIN", &servers.origin.to_string());
        text.replace("BUSY", &servers.busy.to_string())
    }

    fn right(&self, servers: Servers) -> String {
        self.placed(include_str!("mistakes/right.yaml"), servers)
    }

    fn wrong(&self, servers: Servers) -> String {
        let write = self.placed(&self.write, servers);
        let right = self.right(servers);
        let Some(instead_of) = &self.instead_of else {
            return right + &write;
        };
        let instead_of = self.placed(instead_of, servers);
        let mut places = right.match_indices(&instead_of);
        let (at, _) = places.nth(self.nth - 1).expect("the text to replace");
        let end = at + instead_of.len();
        format!("{}{write}{}", &right[..at], &right[end..])
    }
}

/// The ports of servers that the cases name.
#[derive(Clone, Copy)]
struct Servers {
    /// That of the endpoints.
    origin: u16,
    /// One that no listener can have.
    busy: u16,
}

/// A gateway that reads a folder.
struct Gateway {
    process: Child,
    folder: tempfile::TempDir,
    admin: u16,
    /// Those of its listeners.
    ports: Vec<u16>,
    _ports: Ports,
}

impl Gateway {
    /// Starts one with a listener for all cases.
    fn start(servers: Servers, cases: &[Case]) -> Self {
        Self::serving(1, |folder, ports| {
            let edge = format!(
                "{{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {{name: edge}}, spec: \
             {{gatewayClassName: gateway, listeners: [{{name: http, port: {}, protocol: HTTP, \
             allowedRoutes: {{namespaces: {{from: All}}}}}}]}}}}",
                ports[0]
            );
            fs::write(folder.join("edge.yaml"), edge).expect("a file");
            for case in cases {
                replace(folder, &case.name, &case.right(servers));
            }
        })
    }

    /// Starts one with so many ports to listen on, and files that are written first.
    fn serving(count: usize, write: impl FnOnce(&Path, &[u16])) -> Self {
        let free = Ports::free(count + 1);
        let mut ports = free.to_vec();
        let admin = ports.pop().expect("one more");
        let folder = tempfile::tempdir().expect("a folder");
        write(folder.path(), &ports);
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
            ports,
            _ports: free,
        }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gwctl"));
        command.arg(format!("--local=127.0.0.1:{}", self.admin));
        command
    }

    fn gwctl(&self, line: &[&str]) -> (Option<i32>, String) {
        let output = self.command().args(line).output().expect("it runs");
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
        let mut stream = TcpStream::connect(("127.0.0.1", self.ports[0])).ok()?;
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

impl Gateway {
    /// What a trace of a request to the host of a case says, with single spaces.
    fn traces(&self, case: &Case) -> String {
        let (port, url) = (
            self.ports[0].to_string(),
            format!("http://{}.example/api/x", case.name),
        );
        self.traced(&["--port", &port, "--", &url])
    }

    /// What `gwctl trace` says, errors included, with single spaces.
    fn traced(&self, line: &[&str]) -> String {
        let output = self.command().arg("trace").args(line).output();
        let output = output.expect("it runs");
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        let words: Vec<&str> = text.split_whitespace().collect();
        words.join(" ")
    }

    /// What traces of some cases do not say.
    fn untraced<'c>(&self, cases: &'c [Case]) -> Vec<(&'c Case, String)> {
        let traced = cases.iter().map(|case| (case, self.traces(case)));
        let missing = traced.filter(|(case, text)| !text.contains(&case.named(&case.trace)));
        missing.collect()
    }

    /// Makes mistakes at the same time, and corrects them.
    fn shows(&self, cases: &[Case], servers: Servers) {
        for case in cases {
            replace(self.folder.path(), &case.name, &case.wrong(servers));
        }
        wait_until_none(|| self.unnamed(cases));
        let has_errors = cases.iter().any(|it| it.level == "error");
        assert_eq!(self.gwctl(&["status"]).0, Some(i32::from(has_errors)));
        assert_eq!(self.gwctl(&["status", "--strict"]).0, Some(1));
        let untraced = thread::scope(|scope| {
            let parts = cases.chunks(cases.len().div_ceil(TRACERS));
            let traced: Vec<_> = parts
                .map(|part| scope.spawn(move || self.untraced(part)))
                .collect();
            let traced = traced.into_iter().map(|it| it.join().expect("traces"));
            traced.flatten().collect::<Vec<_>>()
        });
        let untraced: Vec<(&str, &str)> = untraced
            .iter()
            .map(|(case, text)| (&*case.name, &**text))
            .collect();
        assert_eq!(untraced, []);
        for case in cases {
            replace(self.folder.path(), &case.name, &case.right(servers));
        }
        wait_until_none(|| self.unwell(cases));
    }

    /// The cases of which `gwctl status` does not name the mistake, or requests get something else.
    fn unnamed(&self, cases: &[Case]) -> Vec<String> {
        let problems = self.problems().unwrap_or_default();
        let missing = cases.iter().filter_map(|case| {
            let (object, sentence) = (case.named(&case.object), case.named(&case.sentence));
            let is_named = problems.iter().any(|(level, text)| {
                *level == case.level && text.contains(&object) && text.contains(&sentence)
            });
            let status = self.asks(case);
            let is_found = is_named && status == Some(case.status);
            let of_case = problems.iter().map(|it| &it.1);
            let of_case: Vec<&String> = of_case.filter(|it| it.contains(&case.name)).collect();
            (!is_found).then(|| format!("{}: {status:?}: {of_case:#?}", case.name))
        });
        missing.collect()
    }

    /// What is wrong although none of these mistakes is made.
    fn unwell(&self, cases: &[Case]) -> Vec<String> {
        let Some(problems) = self.problems() else {
            return vec!["it does not listen yet".to_owned()];
        };
        let mut missing: Vec<String> = problems.into_iter().map(|it| it.1).collect();
        for case in cases {
            let status = self.asks(case);
            if status != Some(200) {
                missing.push(format!("{}: {status:?}", case.name));
            }
        }
        missing
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Replaces a file at once: of one that is empty for a moment, nothing stays in effect.
fn replace(folder: &Path, name: &str, text: &str) {
    let new = folder.join(format!("{name}.new"));
    fs::write(&new, text).expect("a file");
    fs::rename(new, folder.join(format!("{name}.yaml"))).expect("a file");
}

/// Asks again until nothing is missing.
fn wait_until_none(mut missing: impl FnMut() -> Vec<String>) {
    let until = Instant::now() + Duration::from_mins(1);
    loop {
        let missing = missing();
        if missing.is_empty() {
            return;
        }
        assert!(Instant::now() < until, "{missing:#?}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn every_mistake_is_named_while_it_lasts() {
    let cases = cases();
    let servers = Servers {
        origin: origin(),
        busy: origin(),
    };
    let gateway = Gateway::start(servers, &cases);
    wait_until_none(|| gateway.unwell(&cases));
    assert_eq!(gateway.gwctl(&["status", "--strict"]).0, Some(0));
    for cases in cases.chunks(AT_ONCE) {
        gateway.shows(cases, servers);
    }
}

#[test]
fn each_mistake_has_a_name_of_its_own() {
    let cases = cases();
    let mut names: Vec<&str> = cases.iter().map(|it| &*it.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), cases.len());
}

/// Mistakes that are made at the same time: a gateway lists a hundred problems, and some make several.
const AT_ONCE: usize = 30;
/// Traces at the same time.
const TRACERS: usize = 3;

#[test]
fn the_page_of_mistakes_is_made_of_the_cases() {
    let mut page = include_str!("mistakes/page-head.txt").to_owned();
    let cases = cases();
    let statuses: BTreeSet<u16> = cases.iter().map(|it| it.status).collect();
    for status in statuses {
        let what = match status {
            200 => "Requests are served, but not as it was meant".to_owned(),
            status => format!("Requests get status {status}"),
        };
        let _ = write!(
            page,
            "\n## {what}\n\n| mistake | `gwctl status` says | `gwctl trace` says | condition | remedy |\n\
             |---|---|---|---|---|\n"
        );
        for case in cases.iter().filter(|it| it.status == status) {
            let cell = |text: &str| text.replace("NAME", "app").replace('|', "&#124;");
            let _ = writeln!(
                page,
                "| {} | {}: … {}: {} … | {} | {} | {} |",
                case.mistake,
                case.level,
                cell(&case.object),
                cell(&case.sentence),
                cell(&case.trace),
                case.condition,
                case.remedy
            );
        }
    }
    page.push_str(&page_of_certificates());
    page.push_str(&page_of_flags());
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

/// The rows of mistakes with certificates.
fn page_of_certificates() -> String {
    let mut rows = "\n## Clients cannot connect by HTTPS, or refuse the certificate\n\n\
         | mistake | `gwctl status` says | `gwctl trace` says | condition | remedy |\n|---|---|---|---|---|\n"
        .to_owned();
    for case in certificates::cases() {
        let cell = |text: &str| text.replace("NAME", "app").replace('|', "&#124;");
        let _ = writeln!(
            rows,
            "| {} | error: … {}: {} … | {} | {} | {} |",
            case.mistake,
            cell(&case.object),
            cell(&case.sentence),
            cell(&case.trace),
            case.condition,
            case.remedy
        );
    }
    rows
}

/// The rows of mistakes on command lines.
fn page_of_flags() -> String {
    let mut rows =
        "\n## Programs do not start\n\n| mistake | command | it says |\n|---|---|---|\n".to_owned();
    for case in flags::cases() {
        let flags::Case {
            mistake,
            line,
            says,
        } = case;
        let says = says.replace('<', "&lt;");
        let _ = writeln!(rows, "| {mistake} | `{line}` | … {says} … |");
    }
    rows
}
