//! The calls of a set-up, as they were on the wire.

use serde_json::{Value, json};

use crate::support::server::Call;

/// Checks the calls of a first set-up, in their order; look-ups of what is not there yet are left
/// out.
pub(super) fn are_those_of_the_table(calls: &[Call], told: &Value) {
    let mut wire = Wire::new(calls);
    let client_id = told["clientId"].as_str().expect("a client id");
    wire.signs_in();
    let client = wire.registers(client_id, &told["clientSecret"]);
    wire.configures(&client);
    wire.creates_users();
    // The marks of what is removed, then the two policies.
    wire.next("PUT", &client, 204);
    wire.removes_policies(calls);
    assert!(wire.writes.next().is_none(), "there are more calls");

    let last = calls.last().expect("calls");
    let discovery = "GET /realms/master/.well-known/openid-configuration HTTP/1.1";
    assert_eq!(last.request.start, discovery);
    assert_eq!(last.request.header("authorization"), None);
    assert_eq!(last.response.json()["issuer"], told["issuer"]);
}

const ADMIN: &str = "/admin/realms/master";

/// The calls that change something, one after the other.
struct Wire<'a> {
    writes: Box<dyn Iterator<Item = &'a Call> + 'a>,
    /// What the administrator's calls carry.
    bearer: String,
}

impl<'a> Wire<'a> {
    fn new(calls: &'a [Call]) -> Self {
        let writes = calls.iter().filter(|call| call.request.method() != "GET");
        Self {
            writes: Box::new(writes),
            bearer: String::new(),
        }
    }

    /// The next one, which has to be this.
    fn next(&mut self, method: &str, path: &str, status: u16) -> &'a Call {
        let call = self.writes.next();
        let call = call.unwrap_or_else(|| panic!("{method} {path} is missing"));
        assert_eq!(call.request.start, format!("{method} {path} HTTP/1.1"));
        assert_eq!(
            call.response.status(),
            status,
            "{method} {path}: {:?}",
            call.response
        );
        call
    }

    /// The same, of the administrator and with JSON, which is returned.
    fn administers(&mut self, method: &str, path: &str, status: u16) -> (Value, &'a Call) {
        let call = self.next(method, path, status);
        assert_eq!(
            call.request.header("authorization"),
            Some(&*self.bearer),
            "{path}"
        );
        assert_eq!(
            call.request.header("content-type"),
            Some("application/json"),
            "{path}"
        );
        (call.request.json(), call)
    }

    fn signs_in(&mut self) {
        let call = self.next("POST", "/realms/master/protocol/openid-connect/token", 200);
        for field in [
            "client_id=admin-cli",
            "username=admin",
            "password=",
            "grant_type=password",
        ] {
            assert!(call.request.body.contains(field), "{field} is missing");
        }
        let answer = call.response.json();
        let token = answer["access_token"].as_str().expect("a token");
        self.bearer = format!("Bearer {token}");
    }

    /// Returns the path of the client's administration.
    fn registers(&mut self, client_id: &str, secret: &Value) -> String {
        let path = format!("{ADMIN}/clients-initial-access");
        let (body, access) = self.administers("POST", &path, 201);
        assert_eq!(body, json!({"expiration": 0, "count": 1}));
        let access = access.response.json();
        assert_eq!(access["id"], client_id);
        let call = self.next("POST", "/realms/master/clients-registrations/default", 201);
        let initial = format!("bearer {}", access["token"].as_str().expect("a token"));
        assert_eq!(call.request.header("authorization"), Some(&*initial));
        assert_eq!(call.request.json(), json!({"clientId": client_id}));
        let registered = call.response.json();
        assert_eq!(registered["secret"], *secret);
        format!(
            "{ADMIN}/clients/{}",
            registered["id"].as_str().expect("an id")
        )
    }

    fn configures(&mut self, client: &str) {
        let (body, _) = self.administers("PUT", client, 204);
        for field in [
            "serviceAccountsEnabled",
            "directAccessGrantsEnabled",
            "authorizationServicesEnabled",
        ] {
            assert_eq!(body[field], true, "{field}");
        }
        assert_eq!(body["redirectUris"], json!(["*"]));
        let mappers = format!("{client}/protocol-mappers/models");
        let (body, _) = self.administers("POST", &mappers, 201);
        let config = json!({
            "claim.name": "group",
            "jsonType.label": "String",
            "user.attribute": "group",
            "id.token.claim": "true",
            "access.token.claim": "true",
        });
        let mapper = json!({
            "name": "group",
            "protocol": "openid-connect",
            "protocolMapper": "oidc-usermodel-attribute-mapper",
            "config": config,
        });
        assert_eq!(body, mapper);
        // Not of the table: without them, tokens have another audience and no group.
        self.next("POST", &mappers, 201);
        self.next("PUT", &format!("{ADMIN}/users/profile"), 200);
    }

    fn creates_users(&mut self) {
        for (name, group) in [("user1", "users"), ("user2", "admins")] {
            let (body, _) = self.administers("POST", &format!("{ADMIN}/users"), 201);
            assert_eq!(
                (&body["username"], &body["enabled"]),
                (&json!(name), &json!(true))
            );
            assert_eq!(body["attributes"], json!({"group": group}));
            for field in ["email", "firstName", "lastName"] {
                assert!(body[field].is_string(), "{field} of {name}");
            }
            let credential = &body["credentials"][0];
            let kind = (&credential["type"], &credential["temporary"]);
            assert_eq!(kind, (&json!("password"), &json!(false)));
        }
    }

    fn removes_policies(&mut self, calls: &[Call]) {
        let is_list = |call: &&Call| {
            let target = call.request.target();
            let list = format!("{ADMIN}/components?type=");
            call.request.method() == "GET" && target.starts_with(&list)
        };
        let listed = calls
            .iter()
            .rev()
            .find(is_list)
            .expect("policies are listed");
        let listed = listed.response.json();
        let mut removed = 0;
        for policy in listed.as_array().expect("a list") {
            let anonymous = policy["subType"] == "anonymous";
            let provider = &policy["providerId"];
            if provider == "trusted-hosts" || (provider == "allowed-client-templates" && anonymous)
            {
                let id = policy["id"].as_str().expect("an id");
                let call = self.next("DELETE", &format!("{ADMIN}/components/{id}"), 204);
                assert_eq!(call.request.header("authorization"), Some(&*self.bearer));
                removed += 1;
            }
        }
        assert_eq!(removed, 2);
    }
}
