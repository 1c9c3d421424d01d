//! Pages of the error-pages server of ingress-nginx, unchanged, as real clients get them; and that server killed and
//! hung while errors and other requests come as fast as they can.
//!
//! `CUSTOM_ERROR_PAGES` names its folder `images/custom-error-pages/rootfs` in a clone of
//! `https://github.com/kubernetes/ingress-nginx`, from which it is built.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::program::run;
use crate::support::pki::{Authority, authority};
use crate::support::{
    Client, Driver, Gateway, TIMEOUT, gateway, on_both_drivers, origin, raw, refused,
};

on_both_drivers! {
    #[ignore = "needs curl, Go, and the error-pages server that CUSTOM_ERROR_PAGES names"]
    fn clients_get_the_page_of_their_error_in_their_type(driver) {
        in_own_network(driver, "clients_get_the_page_of_their_error_in_their_type", clients_get_pages);
    }

    #[ignore = "needs Go, and the error-pages server that CUSTOM_ERROR_PAGES names"]
    fn a_server_that_is_killed_or_hangs_under_load_costs_its_pages_only(driver) {
        in_own_network(driver, "a_server_that_is_killed_or_hangs_under_load_costs_its_pages_only", fails_under_load);
    }
}

/// What a client sends in `Accept`.
const CLIENTS: [(&str, Option<&str>); 7] = [
    ("curl", None),
    (
        "Chromium",
        Some(
            "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8",
        ),
    ),
    (
        "Firefox",
        Some("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
    ),
    ("axios", Some("application/json, text/plain, */*")),
    ("a client of an API", Some("application/json")),
    ("none", Some("")),
    ("an image", Some("image/png")),
];

/// The content of a page, and its type, as the server has them for the first type that a client accepts.
fn expected(status: u16, accept: Option<&str>) -> (String, &'static str) {
    let number = if [404, 500].contains(&status) {
        status.to_string()
    } else {
        format!("{}xx", status / 100)
    };
    let (file, media_type) = match accept {
        Some(accept) if accept.starts_with("application/json") => ("json", "application/json"),
        // The server repeats what it could not read.
        None => ("html", "*/*"),
        Some("image/png") if status == 404 => {
            return (
                "404 page not found\n".to_owned(),
                "text/plain; charset=utf-8",
            );
        }
        // It has no page of this type and says so with status 404, which is not that of the error.
        Some("image/png") => {
            let reason = http::StatusCode::from_u16(status).expect("a status");
            return (format!("{reason}\n"), "text/plain; charset=utf-8");
        }
        Some(_) => ("html", "text/html"),
    };
    let page = folder().join("www").join(format!("{number}.{file}"));
    (
        std::fs::read_to_string(page).expect("a page of the server"),
        media_type,
    )
}

fn clients_get_pages(driver: Driver) {
    let (_server, ca) = (PageProgram::start(), authority("ca"));
    let trusted = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(trusted.path(), ca.pem()).expect("a file of ours");
    let gateway = before_an_application(driver, &ca);
    let mut answers = 0;
    for version in ["--http1.1", "--http2-prior-knowledge", "--http2"] {
        // The other one agrees on its version by ALPN.
        let address = if version == "--http2" {
            format!("https://{}", gateway.https_address())
        } else {
            format!("http://{}", gateway.address())
        };
        for (client, accept) in CLIENTS {
            for status in STATUSES {
                for method in ["GET", "HEAD"] {
                    let mut curl = Command::new("curl");
                    curl.args(["--silent", "--show-error", "--include", version, "--cacert"])
                        .arg(trusted.path())
                        .arg(format!("{address}/{status}"));
                    if method == "HEAD" {
                        curl.arg("--head");
                    }
                    if let Some(accept) = accept {
                        curl.args(["--header", &format!("Accept: {accept}")]);
                    }
                    let answer = run(&mut curl).replace("\r\n", "\n");
                    let case = format!("{version} {client} {method} {status}: {answer}");
                    expect_page((&answer, &case), status, method, expected(status, accept));
                    answers += 1;
                }
            }
        }
    }
    eprintln!("{answers} answers");
}

const STATUSES: [u16; 6] = [403, 404, 429, 500, 503, 504];

#[track_caller]
fn expect_page(
    (answer, case): (&str, &str),
    status: u16,
    method: &str,
    (body, media_type): (String, &str),
) {
    let (head, content) = answer.split_once("\n\n").expect(case);
    let head = head.to_lowercase();
    let mut lines = head.lines();
    let start = lines.next().expect(case);
    assert_eq!(
        start.split(' ').nth(1),
        Some(&*status.to_string()),
        "{case}"
    );
    let values = |name: &str| {
        let prefix = format!("{name}: ");
        let found = head.lines().filter_map(|line| line.strip_prefix(&prefix));
        found.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(values("content-type"), [media_type], "{case}");
    assert_eq!(values("content-length"), [body.len().to_string()], "{case}");
    assert_eq!(content, if method == "HEAD" { "" } else { &body }, "{case}");
    // Fields of the error stay, and those of its content do not.
    assert_eq!(values("retry-after"), ["7"], "{case}");
    assert_eq!(values("etag"), [""; 0], "{case}");
}

/// An application that answers with the status that a path names, and all of whose errors have pages of the server.
fn before_an_application(driver: Driver, ca: &Authority) -> Gateway {
    // As long as the test: the process of the test has no other.
    let app: &'static crate::support::Origin = Box::leak(Box::new(STATUSES.iter().fold(
        origin(),
        |app, status| {
            let reply = format!(
                "HTTP/1.1 {status} Own\r\nRetry-After: 7\r\nETag: \"a\"\r\nContent-Length: 3\r\n\r\nold"
            );
            app.replies_to(&format!("/{status}"), raw(reply))
        },
    )));
    gateway(driver)
        .https("web", None, &[&ca.server(&["127.0.0.1"])])
        .backend("pages", &[ADDRESS])
        .backend("app", &[app.address()])
        .rule("{backendRefs: [{@app}]}")
        .rule_of("web", "{backendRefs: [{@app}]}")
        .policy(PAGES)
        .start()
}

const PAGES: &str = "errorPages: [{statuses: [400-599], source: Any, \
                     backendRef: {group: gateway-system.io, kind: Backend, name: pages}}]";

/// Clients that ask for errors all the time, more than a shard asks a server for at once; and for what is none.
const FAILING: usize = 80;
const OTHERS: usize = 4;
/// Answers of a kind before the server fails, or is well again.
const ANSWERS: usize = 2_000;

/// What all clients have seen.
#[derive(Default)]
struct Seen {
    pages: AtomicUsize,
    texts: AtomicUsize,
    others: AtomicUsize,
    /// The longest times since the last phase began.
    longest: Mutex<[Duration; 2]>,
    ends: AtomicBool,
}

impl Seen {
    /// Clients go on until so many answers more are of this kind.
    #[track_caller]
    fn waits_for(&self, phase: &str, of: impl Fn(&Self) -> &AtomicUsize) {
        *self.longest.lock().expect("no panic") = Default::default();
        let (begun, before) = (
            Instant::now(),
            [&self.pages, &self.texts, &self.others].map(load),
        );
        let enough = load(of(self)) + ANSWERS;
        while load(of(self)) < enough {
            assert!(begun.elapsed() < TIMEOUT * 6, "{phase}: too few answers");
            thread::park_timeout(Duration::from_millis(5));
        }
        let after = [&self.pages, &self.texts, &self.others].map(load);
        let [pages, texts, others] = [0, 1, 2].map(|it| after[it] - before[it]);
        let [error, other] = *self.longest.lock().expect("no panic");
        eprintln!(
            "{phase}: {:.1?}, {pages} pages, {texts} texts in their place, the longest after {error:.1?}; \
             {others} other requests, the longest {other:.1?}",
            begun.elapsed()
        );
    }

    fn took(&self, kind: usize, time: Duration) {
        let longest = &mut self.longest.lock().expect("no panic")[kind];
        *longest = time.max(*longest);
    }

    /// A client whose errors have the page of the server, or the text of the gateway, and nothing else.
    fn fails(&self, mut client: Client, page: &str) {
        while !self.ends.load(Ordering::Relaxed) {
            let asked = Instant::now();
            let answer = client.gets("/gone").expects(503);
            self.took(0, asked.elapsed());
            let text = answer.text();
            let count = if text == page {
                &self.pages
            } else {
                let media_type = answer.value("content-type");
                assert_eq!(media_type, Some("text/plain; charset=utf-8"), "{answer}");
                &self.texts
            };
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn succeeds(&self, mut client: Client) {
        while !self.ends.load(Ordering::Relaxed) {
            let asked = Instant::now();
            assert_eq!(client.gets("/app").expects(200).text(), "ok");
            self.took(1, asked.elapsed());
            self.others.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn load(count: &AtomicUsize) -> usize {
    count.load(Ordering::Relaxed)
}

fn fails_under_load(driver: Driver) {
    let (app, (_socket, gone)) = (origin(), refused());
    let gateway = gateway(driver)
        .backend("pages", &[ADDRESS])
        .backend("app", &[app.address()])
        .backend("gone", &[gone])
        .rule("{matches: [{path: {value: /app}}], backendRefs: [{@app}]}")
        .rule("{backendRefs: [{@gone}]}")
        .policy(PAGES)
        .shards(2)
        .start();
    let (page, _) = expected(503, Some("text/html"));
    let seen = Seen::default();
    let mut server = PageProgram::start();
    thread::scope(|scope| {
        // If a check fails, clients end too.
        let _end = Ends(&seen.ends);
        for _ in 0..FAILING {
            scope.spawn(|| seen.fails(gateway.client(), &page));
        }
        for _ in 0..OTHERS {
            scope.spawn(|| seen.succeeds(gateway.client()));
        }
        seen.waits_for("served", |it| &it.pages);
        server.signals("-KILL");
        seen.waits_for("killed", |it| &it.texts);
        drop(server);
        server = PageProgram::start();
        seen.waits_for("started again", |it| &it.pages);
        server.signals("-STOP");
        seen.waits_for("hung", |it| &it.texts);
        server.signals("-CONT");
        seen.waits_for("goes on", |it| &it.pages);
    });
}

struct Ends<'e>(&'e AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Where the server listens, whatever it is told.
const ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

/// The running server; killed when dropped.
struct PageProgram(Child);

impl PageProgram {
    #[track_caller]
    fn start() -> Self {
        let child = Command::new(program())
            .env("ERROR_FILES_PATH", pages())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program was built");
        let mut server = Self(child);
        let deadline = Instant::now() + TIMEOUT;
        while TcpStream::connect(ADDRESS).is_err() {
            let ended = server.0.try_wait().expect("our own child");
            assert!(ended.is_none() && Instant::now() < deadline, "{ended:?}");
            thread::park_timeout(Duration::from_millis(5));
        }
        server
    }

    #[track_caller]
    fn signals(&self, signal: &str) {
        run(Command::new("kill").args([signal, &self.0.id().to_string()]));
    }
}

impl Drop for PageProgram {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a test in a process whose network is its own: the port of the server is fixed.
#[track_caller]
fn in_own_network(driver: Driver, test: &str, body: impl FnOnce(Driver)) {
    const INSIDE: &str = "ERROR_PAGES_IN_OWN_NETWORK";
    if std::env::var_os(INSIDE).is_some() {
        return body(driver);
    }
    if std::env::var_os(FOLDER).is_none() {
        eprintln!(
            "SKIPPED: {FOLDER} does not name images/custom-error-pages/rootfs in a clone of ingress-nginx"
        );
        return;
    }
    build();
    let driver = match driver {
        Driver::IoUring => "io_uring",
        Driver::Epoll | Driver::Auto => "epoll",
    };
    let test = format!("error_pages::{driver}::{test}");
    let output = run(Command::new("unshare")
        .args(["--user", "--map-root-user", "--net", "--mount", "sh", "-ec"])
        .arg(AS_IN_ITS_IMAGE)
        .arg(std::env::current_exe().expect("a program"))
        .arg(test)
        .env(INSIDE, "1"));
    assert!(output.contains("1 passed"), "{output}");
    eprintln!("{output}");
}

/// The server knows the types of files by lists of the system, of which its image has one.
const AS_IN_ITS_IMAGE: &str = r#"
    ip link set lo up
    [ ! -e /usr/share/mime ] || mount -t tmpfs none /usr/share/mime
    [ ! -e /etc/mime.types ] || mount --bind "$CUSTOM_ERROR_PAGES/etc/mime.types" /etc/mime.types
    exec "$0" --ignored --nocapture --exact "$1"
"#;

const FOLDER: &str = "CUSTOM_ERROR_PAGES";

/// The folder of the server's source and pages.
#[track_caller]
fn folder() -> PathBuf {
    std::env::var_os(FOLDER).expect("checked before").into()
}

fn program() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("custom-error-pages")
}

fn pages() -> PathBuf {
    program().with_extension("www")
}

#[track_caller]
fn build() {
    static MAKING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = MAKING.lock();
    if program().exists() {
        return;
    }
    std::fs::create_dir_all(pages()).expect("a folder of ours");
    for page in std::fs::read_dir(folder().join("www")).expect("the pages of the server") {
        let page = page.expect("a page").path();
        let copy = pages().join(page.file_name().expect("a file"));
        std::fs::copy(&page, &copy).expect("a file of ours");
        // The first extension of text/html since Go 1.26, with which the server's own pages are not found.
        if copy.extension().is_some_and(|it| it == "html") {
            std::fs::copy(&page, copy.with_extension("ehtml")).expect("a file of ours");
        }
    }
    let mut go = Command::new("go");
    go.args(["build", "-o"]).arg(program()).arg(".");
    run(go.current_dir(folder()));
}
