//! Overriding policies over generated policies of tenants: whatever a tenant adds, and in whatever order it arrives,
//! no request is admitted that the overriding policy alone refuses.

use std::cell::Cell;
use std::env;
use std::io::ErrorKind;
use std::net::SocketAddr;

use anyhow::{Context as _, Result, bail, ensure};
use hyper::{Method, StatusCode};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::edge_gateway::{EdgeGateway, HOST, TIMEOUT};
use super::kinds::own;
use super::proxy::pods;
use super::random::Random;
use crate::process::print_line;
use crate::test::http;
use crate::test::manifests::route;
use crate::test::scope::Scope;

/// Overriding policies, one after the other.
const ROUNDS: usize = 4;

/// Routes with a policy of their own, in each round.
const TENANTS: usize = 12;

/// A key that nobody here has, so that every token is refused (RFC 7517 appendix A.1).
const KEYS: &str = r#"{"keys": [{"kty": "EC", "crv": "P-256", "kid": "1",
    "x": "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",
    "y": "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}]}"#;

/// Networks that no client is in, and such that all are in: of whatever address a node translates theirs to.
const ELSEWHERE: &[&str] = &["192.0.2.0/24"];
const NETWORKS: [&[&str]; 3] = [ELSEWHERE, &["0.0.0.0/0"], &["10.0.0.0/8", "172.16.0.0/12"]];

/// The metric of connections that networks refuse when they are accepted.
const REFUSED_CONNECTIONS: &str = "gateway_connections_refused_by_network_total{";

/// Requests that policies tell apart: method, path, and the header `x-group`.
const REQUESTS: [(Method, &str, &str); 6] = [
    (Method::GET, "/", "users"),
    (Method::GET, "/", "admins"),
    (Method::POST, "/", "users"),
    (Method::GET, "/admin", "admins"),
    (Method::GET, "/admin", "users"),
    (Method::POST, "/admin", "admins"),
];

/// Conditions on them. The last one cannot be evaluated without a token.
const CONDITIONS: [&str; 6] = [
    "request.method == 'GET'",
    "request.headers['x-group'] == 'admins'",
    "request.path.startsWith('/admin')",
    "cidr('0.0.0.0/0').contains(client.address)",
    "false",
    "claims.group == 'admins'",
];

pub(in crate::test) async fn no_policy_of_a_tenant_admits_what_an_overriding_one_refuses(
    scope: &Scope,
) -> Result<()> {
    let seed = match env::var("E2E_SEED") {
        Ok(seed) => seed.parse().context("E2E_SEED is no number")?,
        Err(_) => u64::from(std::process::id()),
    };
    print_line(&format!("policies are generated with E2E_SEED={seed}"))?;
    let mut random = Random::new(seed);
    let site = EdgeGateway::open(scope).await?;
    let (mut refused, mut admitted, mut closed) = (0, 0, 0);
    for number in 0..ROUNDS {
        let round = Round::generate(&mut random, number);
        let outcome = round.run(&site).await;
        let alone = outcome.with_context(|| format!("E2E_SEED={seed}, {round:?}"))?;
        refused += alone.len();
        admitted += round.admitted(&site, &alone).await?;
        closed += round.closed.get();
    }
    print_line(&format!(
        "{refused} of {} requests were refused by overriding policies alone; beside policies of tenants, {admitted} \
         others were admitted; {closed} connections were closed when they were accepted",
        ROUNDS * REQUESTS.len()
    ))?;
    ensure!(refused > 0, "the overriding policies refused nothing");
    ensure!(
        admitted > 0,
        "nothing was admitted beside policies of tenants"
    );
    Ok(())
}

/// An overriding policy, and what tenants add to it.
#[derive(Debug)]
struct Round {
    number: usize,
    overriding: Value,
    /// Routes and policies, in the order in which they are created.
    tenants: Vec<Value>,
    /// Whether those of the round before are removed before these are added.
    removes_first: bool,
    /// Connections that were closed without an answer.
    closed: Cell<usize>,
}

impl Round {
    fn generate(random: &mut Random, number: usize) -> Self {
        let mut tenants = Vec::new();
        for tenant in 0..TENANTS {
            let name = name(tenant, number);
            let mut route = route("HTTPRoute", 80, "echo");
            route["metadata"] = json!({"name": name, "labels": label(number)});
            route["spec"]["hostnames"] = json!([host(tenant, number)]);
            route["spec"]["rules"][0]["name"] = json!("only");
            tenants.push(route);
            let mut target = json!({
                "group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": name});
            if random.chance(40) {
                target["sectionName"] = json!("only");
            }
            let mut policy = own("TrafficPolicy", &name, &tenants_spec(random, &target));
            policy["metadata"]["labels"] = label(number);
            tenants.push(policy);
        }
        for last in (1..tenants.len()).rev() {
            tenants.swap(last, random.below(last + 1));
        }
        let mut overriding = overriding_spec(random);
        overriding["targetRefs"] = json!([
            {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "edge"}]);
        overriding["precedence"] = json!("Overrides");
        // Its number, in a rule that refuses nothing.
        overriding["authorization"]["deny"]
            .as_array_mut()
            .into_iter()
            .for_each(|rules| rules.push(json!({"name": mark(number), "when": "false"})));
        Self {
            number,
            overriding: own("TrafficPolicy", "overriding", &overriding),
            tenants,
            removes_first: random.chance(50),
            closed: Cell::new(0),
        }
    }

    /// Runs it, and returns the requests that the overriding policy alone refuses.
    async fn run(&self, site: &EdgeGateway<'_>) -> Result<Vec<usize>> {
        // Policies of tenants of the round before are there already: they meet a new overriding one.
        site.scope
            .apply(std::slice::from_ref(&self.overriding))
            .await?;
        until_dumped(site, &[format!("\"{}\"", mark(self.number))]).await?;
        let closed_before = connections_refused(site).await?;
        let mut refused = Vec::new();
        for index in 0..REQUESTS.len() {
            if self.refuses(site.address, HOST, index).await? {
                refused.push(index);
            }
        }
        if let Some(before) = self.number.checked_sub(1) {
            self.expect_refused(site.address, &refused, before).await?;
        }
        let is_done = Cell::new(false);
        let changes = async {
            let changed = self.add(site).await;
            is_done.set(true);
            changed
        };
        // Requests all the time, and once more at the end.
        let requests = async {
            while !is_done.get() {
                self.expect_refused(site.address, &refused, self.number)
                    .await?;
            }
            self.expect_refused(site.address, &refused, self.number)
                .await
        };
        let (changed, requested) = tokio::join!(changes, requests);
        requested?;
        changed?;
        let counted = connections_refused(site).await? - closed_before;
        let closed = self.closed.get();
        ensure!(
            counted == closed,
            "{closed} connections were closed, and networks refused {counted}"
        );
        Ok(refused)
    }

    /// Adds the tenants' objects one after the other, in place of those of the round before.
    async fn add(&self, site: &EdgeGateway<'_>) -> Result<()> {
        if self.removes_first {
            self.remove_former(site).await?;
        }
        site.scope.apply(&self.tenants).await?;
        let names = (0..TENANTS).flat_map(|tenant| {
            let name = format!("{}/{}", site.scope.namespace, name(tenant, self.number));
            [
                format!("HTTPRoute/{name}/"),
                format!("TrafficPolicy/{name}/"),
            ]
        });
        until_dumped(site, &names.collect::<Vec<_>>()).await?;
        if self.removes_first {
            return Ok(());
        }
        self.remove_former(site).await
    }

    async fn remove_former(&self, site: &EdgeGateway<'_>) -> Result<()> {
        let Some(before) = self.number.checked_sub(1) else {
            return Ok(());
        };
        let selector = format!("round=number-{before}");
        let kinds = "httproutes,trafficpolicies";
        let words = ["delete", kinds, "-l", &selector, "--wait=false"];
        site.scope.kubectl(&words, "").await.map(drop)
    }

    /// How many requests are admitted at the tenants' routes.
    async fn admitted(&self, site: &EdgeGateway<'_>, refused: &[usize]) -> Result<usize> {
        let mut admitted = 0;
        for tenant in 0..TENANTS {
            for index in (0..REQUESTS.len()).filter(|it| !refused.contains(it)) {
                let host = host(tenant, self.number);
                admitted += usize::from(!self.refuses(site.address, &host, index).await?);
            }
        }
        Ok(admitted)
    }

    async fn expect_refused(
        &self,
        address: SocketAddr,
        refused: &[usize],
        round: usize,
    ) -> Result<()> {
        for tenant in 0..TENANTS {
            for index in refused {
                let host = host(tenant, round);
                ensure!(
                    self.refuses(address, &host, *index).await?,
                    "{:?} was admitted for {host}",
                    REQUESTS[*index]
                );
            }
        }
        // Other work of this thread has its turn, even if nothing is to be refused.
        tokio::task::yield_now().await;
        Ok(())
    }

    /// Whether the request of an index is refused: by its status, or, where the overriding policy has networks that
    /// refuse clients, by closing the connection, and only so.
    async fn refuses(&self, address: SocketAddr, host: &str, index: usize) -> Result<bool> {
        let request = &REQUESTS[index];
        let status = timeout(TIMEOUT, status(address, host, request)).await;
        let status = status.context("no answer in time")??;
        match (
            status,
            refuses_clients(&self.overriding["spec"]["networks"]),
        ) {
            (None, true) => {
                self.closed.set(self.closed.get() + 1);
                Ok(true)
            }
            (Some(status), false) => Ok(status != StatusCode::OK),
            (None, false) => bail!(
                "the connection of {request:?} for {host} was closed without an answer, although no network of the \
                 overriding policy refuses its client"
            ),
            (Some(status), true) => bail!(
                "{request:?} for {host} got {status}, although the networks of the overriding policy refuse its client"
            ),
        }
    }
}

/// Settings that refuse some requests, and not always all of them.
fn overriding_spec(random: &mut Random) -> Value {
    let mut spec = json!({"authorization": authorization(random)});
    if random.chance(20) {
        spec["networks"] = networks(random);
    }
    if random.chance(40) {
        spec["rateLimit"] = rate_limit(random, 0);
    }
    if random.chance(15) {
        spec["jwt"] = jwt("Strict");
    }
    spec
}

/// Settings that admit as much as they can, or refuse something themselves, or are invalid.
fn tenants_spec(random: &mut Random, target: &Value) -> Value {
    let mut spec = Map::new();
    spec.insert("targetRefs".to_owned(), json!([target]));
    // So that there is a policy in any case.
    let bytes = 1_000 + random.below(1_000);
    spec.insert("limits".to_owned(), json!({"requestBodyBytes": bytes}));
    let mut sets = |name: &str, percent, value: &dyn Fn(&mut Random) -> Value| {
        if random.chance(percent) {
            spec.insert(name.to_owned(), value(random));
        }
    };
    sets("authorization", 60, &|random| match random.below(4) {
        0 => json!({"allow": [{"when": "true"}]}),
        1 => json!({"allow": [{"when": "("}]}),
        _ => authorization(random),
    });
    sets("networks", 50, &|random| match random.below(3) {
        0 => networks(random),
        _ => json!({"allow": ["0.0.0.0/0", "::/0"]}),
    });
    sets("rateLimit", 50, &|random| rate_limit(random, 1_000_000));
    sets("jwt", 40, &|random| {
        jwt(random.one_of(&["Optional", "Strict"]))
    });
    Value::Object(spec)
}

fn authorization(random: &mut Random) -> Value {
    let mut rules = |most| {
        let rules = (0..random.below(most)).map(|_| json!({"when": random.one_of(&CONDITIONS)}));
        rules.collect::<Vec<_>>()
    };
    let (deny, allow) = (rules(2), rules(3));
    let mut made = json!({"deny": deny});
    if !allow.is_empty() {
        made["allow"] = json!(allow);
    }
    if deny.is_empty() {
        made["deny"] = json!([{"when": "false"}]);
    }
    made
}

fn networks(random: &mut Random) -> Value {
    let networks = random.one_of(&NETWORKS);
    let list = random.one_of(&["deny", "allow"]);
    json!({list: networks})
}

/// A rule of so many requests a second: 0 are none.
fn rate_limit(random: &mut Random, requests: usize) -> Value {
    let mut rule = json!({"name": "some", "requests": requests, "per": "Second"});
    if random.chance(80) {
        rule["when"] = json!(random.one_of(&CONDITIONS));
    }
    if random.chance(50) {
        rule["key"] = json!([{"clientAddress": {}}]);
    }
    json!({"rules": [rule]})
}

fn jwt(mode: &str) -> Value {
    json!({"mode": mode, "providers": [{
        "name": "own", "issuer": "https://issuer.example", "jwks": {"inline": KEYS}}]})
}

/// The status of a request on a connection of its own; `None` if the connection is closed before a byte of an answer.
async fn status(
    address: SocketAddr,
    host: &str,
    (method, path, group): &(Method, &str, &str),
) -> Result<Option<StatusCode>> {
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {host}\r\nx-group: {group}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    );
    let mut stream = TcpStream::connect(address)
        .await
        .context("cannot connect")?;
    let mut answer = Vec::new();
    // A peer that has closed refuses what is written; what it sent before can be read all the same.
    let written = stream.write_all(head.as_bytes()).await;
    let read = stream.read_to_end(&mut answer).await;
    match written.and(read) {
        Ok(0) => return Ok(None),
        Ok(_) => {}
        Err(error) => {
            let is_reset = matches!(
                error.kind(),
                ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
            );
            ensure!(
                is_reset && answer.is_empty(),
                "{error}, after {} bytes of an answer",
                answer.len()
            );
            return Ok(None);
        }
    }
    let answer = String::from_utf8_lossy(&answer);
    let code = answer.strip_prefix("HTTP/1.1 ").and_then(|it| it.get(..3));
    let code = code.with_context(|| format!("no status line: {answer}"))?;
    Ok(Some(code.parse()?))
}

/// Whether networks refuse the clients of this test.
fn refuses_clients(networks: &Value) -> bool {
    let is_elsewhere = |list: &Value| *list == json!(ELSEWHERE);
    let (deny, allow) = (&networks["deny"], &networks["allow"]);
    !deny.is_null() && !is_elsewhere(deny) || is_elsewhere(allow)
}

/// Connections that networks have refused, by the proxy's count.
async fn connections_refused(site: &EdgeGateway<'_>) -> Result<usize> {
    let metrics = site.scope.connect(&proxy(site).await?, 15_020).await?;
    let metrics = http::get(metrics, "gateway", "/metrics").await?;
    let counts = metrics
        .lines()
        .filter(|line| line.starts_with(REFUSED_CONNECTIONS))
        .filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok());
    Ok(counts.sum())
}

async fn proxy(site: &EdgeGateway<'_>) -> Result<Pod> {
    let proxies: Api<Pod> = site.scope.api();
    let name = pods(site.scope, "edge").await?.pop().context("a proxy")?;
    Ok(proxies.get(&name).await?)
}

/// Waits until the proxy's configuration has these texts: requests meet it before the dump shows it.
async fn until_dumped(site: &EdgeGateway<'_>, texts: &[String]) -> Result<()> {
    let pod = proxy(site).await?;
    let what = format!("the proxy to have {texts:?}");
    site.scope
        .until(&what, async || {
            let admin = site.scope.forward(&pod, 15_000).await?;
            let dump = http::get(admin, "localhost", "/config_dump").await?;
            Ok(texts.iter().all(|text| dump.contains(text)).then_some(()))
        })
        .await
}

fn name(tenant: usize, round: usize) -> String {
    format!("t{tenant}-{round}")
}

fn host(tenant: usize, round: usize) -> String {
    format!("t{tenant}-{round}.example.com")
}

fn label(round: usize) -> Value {
    json!({"round": format!("number-{round}")})
}

fn mark(round: usize) -> String {
    format!("round-{round}")
}
