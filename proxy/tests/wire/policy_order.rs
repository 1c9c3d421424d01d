//! The order of policies, as RESOURCES.md draws it: of several that refuse a request, the first in that order does.

use serde_json::json;

use super::external_auth::allow;
use super::h2_websocket::websocket;
use super::jwt::{asks, bearer, claims, policy};
use crate::support::frames::{HEADERS, Peer};
use crate::support::{
    Client, GatewayBuilder, Origin, Pair, SideProtocol, SideTransport, Signer, on_every_pair,
    origin, status,
};

/// The Gateway's own policy: of networks, of the rate of a client's address, and maintenance.
const OVERRIDING: &str = "precedence: Overrides
  trustedHops: 1
  networks: {deny: [198.51.100.0/24]}
  rateLimit: {rules: [{name: each, key: [{clientAddress: {}}], requests: 1, per: Day}]}
  respond: {status: 503, except: \"!('x-maintenance' in request.headers)\"}";

/// What the route adds, beside tokens.
const OWN: &str = "networks: {deny: [203.0.113.0/24]}
  rateLimit: {rules: [
    {name: late, when: \"claims.plan == 'none'\", requests: 0},
    {name: early, when: \"'x-early' in request.headers\", requests: 0}]}
  authorization: {deny: [{when: \"claims.group == 'none'\"}]}
  respond: {status: 410, except: \"!('x-answer' in request.headers)\"}";

/// A gateway whose route `/a` has all of them, CORS and an authorization server.
fn gateway_with_all(pair: Pair, app: &Origin, auth: &Origin, signer: &Signer) -> GatewayBuilder {
    let cors = "{type: CORS, cors: {allowOrigins: ['https://a.test']}}";
    let server =
        "{type: ExternalAuth, externalAuth: {protocol: HTTP, backendRef: {@auth}, http: {}}}";
    pair.backend(pair.gateway(), "app", &[app.address()])
        .backend("auth", &[auth.address()])
        .rule(&format!(
            "{{matches: [{{path: {{value: /a}}}}], filters: [{cors}, {server}], backendRefs: [{{@app}}]}}"
        ))
        .policy(OVERRIDING)
        .policy_of("HTTPRoute/route-0", &format!("{OWN}\n  {}", policy("Strict", signer, "")))
}

/// A client, each of whose requests comes from another address, so that none of them is the second one of a client.
struct Requests<'a> {
    client: Client,
    signer: &'a Signer,
    sent: u32,
}

impl Requests<'_> {
    /// The next address that no network refuses.
    fn address(&mut self) -> String {
        self.sent += 1;
        format!("192.0.2.{}", self.sent)
    }

    /// The status of a request with these fields.
    fn status(&mut self, fields: &[&str]) -> u16 {
        let address = self.address();
        self.status_from(&address, "/a", fields)
    }

    fn status_from(&mut self, address: &str, path: &str, fields: &[&str]) -> u16 {
        let mut lines = vec![format!("X-Forwarded-For: {address}")];
        lines.extend(fields.iter().map(|field| (*field).to_owned()));
        asks(&mut self.client, path, &lines).status()
    }

    /// The status of a request with a token of this group and plan.
    fn status_of(&mut self, group: &str, plan: &str, fields: &[&str]) -> u16 {
        let mut claims = claims();
        claims["group"] = json!(group);
        claims["plan"] = json!(plan);
        let token = bearer(&self.signer.signs("key", &claims));
        let fields: Vec<&str> = fields
            .iter()
            .copied()
            .chain(token.iter().map(String::as_str))
            .collect();
        self.status(&fields)
    }

    fn status_of_preflight(&mut self, address: &str, fields: &[&str]) -> u16 {
        let fields = fields.join("\r\n");
        self.client.sends(format!(
            "OPTIONS /a HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: {address}\r\nOrigin: https://a.test\r\n\
             Access-Control-Request-Method: GET\r\n{fields}\r\n\r\n"
        ));
        self.client.reads().status()
    }
}

/// The rows of the table of RESOURCES.md: what refuses, and the statuses of each form of a request.
fn refusals() -> Vec<Vec<&'static str>> {
    let text = include_str!("../../../k8s/RESOURCES.md");
    let (_, table) = text.split_once("\n| refused by |").expect("a table");
    let rows = table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect())
        .collect()
}

/// The fields of a policy that refuses every request.
fn refusing(what: &str, signer: &Signer) -> String {
    match what {
        "`networks`" => "networks: {allow: [192.0.2.0/24]}".to_owned(),
        "a mistake in a policy" => "networks: {allow: [none]}".to_owned(),
        "`rateLimit`" => "rateLimit: {rules: [{name: all, requests: 0}]}".to_owned(),
        "`jwt`" => policy("Strict", signer, ""),
        "`basicAuth`" => "basicAuth: {secretRefs: [{name: none}]}".to_owned(),
        "`apiKeys`" => "apiKeys: {secretRefs: [{name: none}]}".to_owned(),
        "`authorization`" => "authorization: {deny: [{when: 'true'}]}".to_owned(),
        "`authorization`, with `errorPages`" => {
            let page = "{statuses: ['403'], bodies: [{contentType: text/html, body: a page}]}";
            format!("authorization: {{deny: [{{when: 'true'}}]}}\n  errorPages: [{page}]")
        }
        "`respond` with status 410" => "respond: {status: 410, body: gone}".to_owned(),
        "`pathRewrite` to what is no path" => {
            "pathRewrite: {pattern: '^/', substitution: none}".to_owned()
        }
        other => panic!("{other} is not known to this test"),
    }
}

/// The handshake of a WebSocket over HTTP/1.1.
const UPGRADE: &str = "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                       Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

/// The number that a cell begins with.
fn number(cell: &str) -> &str {
    cell.split(' ').next().unwrap_or_default()
}

on_every_pair! {
    /// Each request would be refused by all steps that follow.
    fn of_several_policies_that_refuse_a_request_the_first_one_does(pair) {
        let (app, auth, signer) = (origin(), origin().replies(status(402)), Signer::p256());
        let gateway = gateway_with_all(pair, &app, &auth, &signer).start();
        let mut requests = Requests { client: pair.client(&gateway), signer: &signer, sent: 0 };
        let all = ["X-Early: 1", "X-Maintenance: 1", "X-Answer: 1"];

        for _ in 0..2 {
            let refused = requests.status_from("198.51.100.1", "/nowhere", &all);
            assert_eq!(refused, 403, "overriding networks, which come before its rate");
        }
        let address = requests.address();
        for (expected, step) in [(404, "no rule"), (429, "the rate of an address, which counts that too")] {
            assert_eq!(requests.status_from(&address, "/nowhere", &all), expected, "{step}");
        }
        assert_eq!(requests.status_from("203.0.113.1", "/nowhere", &all), 404, "no rule");
        assert_eq!(requests.status_from("203.0.113.2", "/a", &all), 403, "networks");
        assert_eq!(requests.status_of_preflight("203.0.113.3", &all), 403, "networks, of preflights too");
        let address = requests.address();
        let answered = requests.status_of_preflight(&address, &all);
        assert!(answered < 300, "a preflight, {answered}");
        assert_eq!(requests.status(&all), 429, "a rate that reads no claim");
        assert_eq!(requests.status(&all[1..]), 503, "maintenance");
        assert_eq!(requests.status(&all[2..]), 401, "no token");
        assert_eq!(requests.status_of("none", "none", &all[2..]), 403, "authorization");
        assert_eq!(requests.status_of("some", "none", &all[2..]), 429, "a rate that reads claims");
        assert_eq!(auth.requests().len(), 0, "no server has been asked yet");
        assert_eq!(requests.status_of("some", "some", &all[2..]), 402, "its authorization server");
        auth.now_replies(allow(""));
        assert_eq!(requests.status_of("some", "some", &all[2..]), 410, "respond");
        assert_eq!(app.requests().len(), 0, "no backend has been asked yet");
        assert_eq!(requests.status_of("some", "some", &[]), 200);
        assert_eq!((auth.requests().len(), app.requests().len()), (3, 1));
    }

    fn a_refusal_is_the_same_in_every_form_of_a_request(pair) {
        let (app, signer) = (origin(), Signer::p256());
        let rows = refusals();
        assert_eq!(rows.len(), 10);
        for row in rows {
            let [what, plain, http_1_0, head, expect, upgrade, grpc] = row[..] else { panic!("{row:?}") };
            let fields = refusing(what, &signer);
            let gateway = pair.gateway_to(&app).policy_of("HTTPRoute/route-0", &fields).start();
            let status = |request: &str| {
                let mut client = pair.client(&gateway);
                // A 100 would be the first.
                let answer = client.sends(format!("{request}\r\n")).reads_head();
                answer.status().to_string()
            };
            let post = "POST / HTTP/1.1\r\nHost: a.test\r\n";
            assert_eq!(status("GET / HTTP/1.1\r\nHost: a.test\r\n"), plain, "{what}");
            assert_eq!(status(&format!("{post}Content-Length: 4\r\nExpect: 100-continue\r\n")), expect, "{what}");
            if matches!(pair.client, SideProtocol::H1) {
                let mut client = pair.client(&gateway);
                let answer = client.sends("GET / HTTP/1.0\r\nHost: a.test\r\n\r\n").reads();
                assert_eq!(answer.status().to_string(), http_1_0, "{what}");
                client.expects_close();
                assert_eq!(status(UPGRADE), upgrade, "{what}");
            } else if matches!(pair.from, SideTransport::Nothing) {
                let mut peer = Peer::client(gateway.address());
                let status = peer.sends(websocket(1)).next_of(HEADERS).status();
                assert_eq!(status.map(|it| it.to_string()).as_deref(), Some(upgrade), "{what}");
            }
            let mut client = pair.client(&gateway);
            // The next response begins after the head of the first one.
            for _ in 0..2 {
                let answer = client.sends("HEAD / HTTP/1.1\r\nHost: a.test\r\n\r\n").reads_head();
                assert_eq!(answer.status().to_string(), head, "{what}");
            }
            let call = format!("{post}Content-Type: application/grpc\r\nTE: trailers\r\nContent-Length: 0\r\n\r\n");
            let answer = pair.client(&gateway).sends(call).expects(200);
            assert_eq!(answer.value("grpc-status"), Some(number(grpc)), "{what}: {answer}");
            assert_eq!(answer.text(), "", "{what}");
        }
        assert!(app.requests().is_empty());
    }
}
