//! The client that tokens are issued to: registered, marked as created by `gwctl`, and with the
//! mappers that add `group` and the audience to its tokens.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::admin::Admin;
use super::changes::Changes;
use super::failure::{Purpose, refused, unreadable};
use super::password::Secret;
use super::provider::{ADMIN, Bearer, Body, Call, REALM};

/// A client, as the provider lists it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Client {
    /// Its id in the provider's admin API.
    pub(super) id: String,
    /// Its client id, as in tokens.
    #[serde(rename = "clientId")]
    pub(super) name: String,
    #[serde(default)]
    pub(super) attributes: BTreeMap<String, String>,
    #[serde(default)]
    service_accounts_enabled: bool,
    #[serde(default)]
    direct_access_grants_enabled: bool,
    #[serde(default)]
    authorization_services_enabled: bool,
    #[serde(default)]
    redirect_uris: Vec<String>,
}

/// An initial access token.
#[derive(Deserialize)]
struct InitialAccess {
    id: String,
    #[serde(default)]
    token: String,
}

/// A client that was registered.
#[derive(Deserialize)]
struct Registered {
    id: String,
    secret: String,
}

/// A protocol mapper, which adds a claim to tokens.
#[derive(Deserialize)]
struct Mapper {
    id: String,
    name: String,
    #[serde(rename = "protocolMapper")]
    kind: String,
    #[serde(default)]
    config: BTreeMap<String, Value>,
}

/// The client that `setup` made.
pub(super) struct CreatedClient {
    /// Its id in the provider's admin API.
    pub(super) id: String,
    /// Its client id, as in tokens.
    pub(super) client_id: String,
    /// The secret, until it was printed.
    pub(super) secret: Option<Secret>,
}

impl Client {
    /// Finds our client: by its mark, or by the initial access token that it was registered with,
    /// where a run was interrupted before it was marked.
    ///
    /// # Errors
    /// The provider refuses, or several clients have the mark.
    pub(super) async fn find(admin: &Admin) -> Result<Option<Self>> {
        let what = "list the clients";
        let clients: Vec<Self> = admin.read(what, &format!("{ADMIN}/clients")).await?;
        let mut ours = clients.iter().filter(|client| client.is_marked());
        match (ours.next(), ours.next()) {
            (Some(first), Some(second)) => bail!(
                "both clients {} and {} are marked as made by gwctl: delete one of them",
                first.name,
                second.name
            ),
            (Some(client), None) => return Ok(Some(client.clone())),
            (None, _) => {}
        }
        let what = "list the initial access tokens";
        let path = format!("{ADMIN}/clients-initial-access");
        let tokens: Vec<InitialAccess> = admin.read(what, &path).await?;
        let is_ours = |client: &Self| tokens.iter().any(|token| token.id == client.name);
        Ok(clients.into_iter().find(is_ours))
    }

    /// The path of its administration.
    pub(super) fn path(&self) -> String {
        path(&self.id)
    }

    /// Whether it has the mark and the settings that `setup` gives it.
    pub(super) fn is_configured(&self) -> bool {
        self.is_marked()
            && self.service_accounts_enabled
            && self.direct_access_grants_enabled
            && self.authorization_services_enabled
            && self.redirect_uris == ["*"]
    }

    fn is_marked(&self) -> bool {
        self.attributes.get(MARK).is_some_and(|by| by == "gwctl")
    }

    /// Its secret.
    ///
    /// # Errors
    /// The provider refuses.
    pub(super) async fn secret(&self, admin: &Admin) -> Result<Secret> {
        #[derive(Deserialize)]
        struct Credential {
            value: String,
        }
        let path = format!("{}/client-secret", self.path());
        let credential: Credential = admin.read("read the client's secret", &path).await?;
        Ok(Secret::new(credential.value))
    }
}

/// Creates or corrects our client.
///
/// # Errors
/// The provider refuses.
pub(super) async fn ensure(admin: &Admin, changes: &mut Changes) -> Result<CreatedClient> {
    let (made, is_configured) = match Client::find(admin).await? {
        Some(client) => {
            // A client without the mark is from an interrupted run, so its secret is unknown.
            let secret = if client.is_marked() {
                None
            } else {
                Some(client.secret(admin).await?)
            };
            let is_configured = client.is_configured();
            let (id, client_id) = (client.id, client.name);
            (
                CreatedClient {
                    id,
                    client_id,
                    secret,
                },
                is_configured,
            )
        }
        None => (register(admin, changes).await?, false),
    };
    if !is_configured {
        update(admin, &made.id, &[]).await?;
        changes.record(format_args!("configured the client {}", made.client_id));
    }
    ensure_mapper(admin, &made, &group_mapper(), changes).await?;
    let audience = audience_mapper(&made.client_id);
    ensure_mapper(admin, &made, &audience, changes).await?;
    Ok(made)
}

/// Gives a client its settings and our mark, and further attributes.
///
/// # Errors
/// The provider refuses.
pub(super) async fn update(admin: &Admin, id: &str, attributes: &[(&str, &str)]) -> Result<()> {
    // All of them each time: without it, authorization services would be switched off.
    let mut body = json!({
        "serviceAccountsEnabled": true,
        "directAccessGrantsEnabled": true,
        "authorizationServicesEnabled": true,
        "redirectUris": ["*"],
        "attributes": {MARK: "gwctl"},
    });
    for (name, value) in attributes {
        body["attributes"][*name] = (*value).into();
    }
    admin.update("configure the client", &path(id), &body).await
}

/// Registers a client, named after the initial access token that it uses.
async fn register(admin: &Admin, changes: &mut Changes) -> Result<CreatedClient> {
    let what = "get an initial access token";
    let path = format!("{ADMIN}/clients-initial-access");
    let body = json!({"expiration": 0, "count": 1});
    let access: InitialAccess = admin.create_and_read(what, &path, &body).await?;
    let token = Secret::new(access.token);
    let what = "register a client";
    let provider = admin.provider();
    let call = Call {
        method: Method::POST,
        path: &format!("{REALM}/clients-registrations/default"),
        bearer: Some(Bearer {
            scheme: "bearer",
            token: &token,
        }),
        body: Body::Json(&json!({"clientId": access.id})),
    };
    let response = provider.send(&call).await?;
    if !response.status.is_success() {
        return Err(refused(
            Purpose::Registration,
            what,
            &provider.url,
            &response,
        ));
    }
    let registered = serde_json::from_slice::<Registered>(&response.body);
    let registered = registered.map_err(|_| unreadable(what, &provider.url, &response))?;
    changes.record(format_args!("registered the client {}", access.id));
    Ok(CreatedClient {
        id: registered.id,
        client_id: access.id,
        secret: Some(Secret::new(registered.secret)),
    })
}

/// Whether a client has the mappers that `setup` gives it.
///
/// # Errors
/// The provider refuses.
pub(super) async fn has_mappers(admin: &Admin, client: &Client) -> Result<bool> {
    let mappers = mappers(admin, &client.id).await?;
    let desired = [group_mapper(), audience_mapper(&client.name)];
    Ok(desired.iter().all(|desired| {
        let named = mappers
            .iter()
            .find(|mapper| desired["name"] == *mapper.name);
        named.is_some_and(|mapper| mapper.is(desired))
    }))
}

async fn ensure_mapper(
    admin: &Admin,
    client: &CreatedClient,
    desired: &Value,
    changes: &mut Changes,
) -> Result<()> {
    let mappers = mappers(admin, &client.id).await?;
    let known = mappers
        .iter()
        .find(|mapper| desired["name"] == *mapper.name);
    let name = desired["name"].as_str().unwrap_or_default();
    let path = format!("{}/protocol-mappers/models", path(&client.id));
    match known {
        Some(mapper) if mapper.is(desired) => return Ok(()),
        Some(mapper) => {
            let mut body = desired.clone();
            body["id"] = mapper.id.as_str().into();
            let path = format!("{path}/{}", mapper.id);
            admin.update("correct a mapper", &path, &body).await?;
            changes.record(format_args!("corrected the mapper `{name}`"));
        }
        None => {
            admin.create("create a mapper", &path, desired).await?;
            changes.record(format_args!("created the mapper `{name}`"));
        }
    }
    Ok(())
}

async fn mappers(admin: &Admin, id: &str) -> Result<Vec<Mapper>> {
    let path = format!("{}/protocol-mappers/models", path(id));
    admin.read("list the client's mappers", &path).await
}

impl Mapper {
    /// Whether the mapper has the desired settings. The provider adds further ones.
    fn is(&self, desired: &Value) -> bool {
        let config = desired["config"].as_object();
        let mut config = config.into_iter().flatten();
        desired["protocolMapper"] == *self.kind
            && config.all(|(name, value)| self.config.get(name) == Some(value))
    }
}

fn group_mapper() -> Value {
    json!({
        "name": "group",
        "protocol": "openid-connect",
        "protocolMapper": "oidc-usermodel-attribute-mapper",
        "config": {
            "claim.name": "group",
            "jsonType.label": "String",
            "user.attribute": "group",
            "id.token.claim": "true",
            "access.token.claim": "true",
        },
    })
}

/// Without it access tokens are for `account`, as those of every other client.
fn audience_mapper(client_id: &str) -> Value {
    json!({
        "name": "gateway-audience",
        "protocol": "openid-connect",
        "protocolMapper": "oidc-audience-mapper",
        "config": {
            "included.client.audience": client_id,
            "id.token.claim": "false",
            "access.token.claim": "true",
        },
    })
}

fn path(id: &str) -> String {
    format!("{ADMIN}/clients/{id}")
}

/// The attribute that marks a client as created by `gwctl`.
pub(super) const MARK: &str = "managed-by";
