//! Authorizes proxies by their service account tokens, which the API server reviews. If it is
//! unavailable, tokens are verified with its last known keys.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use kube::api::PostParams;
use kube::{Api, Client};
use ring::digest::{SHA256, digest};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tracing::{debug, warn};
use xds::model::ObjectName;
use xds_grpc::server::{Authorize, AuthorizeError, AuthorizeFuture, ProxyIdentity};

use super::account::gateway_of;
use super::keys::Keys;
use super::token::{Bearer, Token};
use super::zones::Zones;
use super::{AUDIENCE, account};
use crate::outputs::Outputs;

pub(super) struct Authorizer {
    client: Client,
    outputs: Arc<Outputs>,
    reviewed: Mutex<HashMap<TokenHash, CachedReview>>,
    keys: Mutex<Option<Keys>>,
    reviews: Semaphore,
    zones: Zones,
}

/// Hashes, so that the cache has no tokens worth stealing.
type TokenHash = Vec<u8>;

struct CachedReview {
    bearer: Result<Bearer, AuthorizeError>,
    until: Instant,
}

impl Authorize for Authorizer {
    fn authorize<'a>(&'a self, token: &'a str) -> AuthorizeFuture<'a> {
        Box::pin(self.identity(token))
    }
}

impl Authorizer {
    pub(super) fn new(client: Client, outputs: Arc<Outputs>) -> Self {
        Self {
            zones: Zones::new(client.clone()),
            client,
            outputs,
            reviewed: Mutex::default(),
            keys: Mutex::default(),
            reviews: Semaphore::new(REVIEWS),
        }
    }

    async fn identity(&self, token: &str) -> Result<ProxyIdentity, AuthorizeError> {
        let bearer = self.bearer(token).await?;
        self.gateways_known().await?;
        if let Some(isolated) = &*self.outputs.isolated.borrow() {
            let text = format!("this replica may be outdated: {isolated}; connect to another one");
            return Err(AuthorizeError::Unknown(text));
        }
        if let Some(gateway) = gateway_of(&bearer.account, &self.outputs) {
            let zone = match &bearer.node {
                Some(node) => self.zones.of(node).await,
                None => None,
            };
            return Ok(ProxyIdentity {
                gateway,
                pod: bearer.pod,
                zone,
            });
        }
        let account = bearer.account;
        Err(AuthorizeError::Forbidden(format!(
            "the service account {account} was not made for a Gateway of this controller; a proxy \
             runs with the one that the controller made for its Gateway: delete one of another origin"
        )))
    }

    /// Waits until the cluster has been read, so that a proxy that connects meanwhile is served at
    /// once then, instead of after its next attempt.
    async fn gateways_known(&self) -> Result<(), AuthorizeError> {
        let mut known = self.outputs.gateways_known.subscribe();
        let known = timeout(READING, known.wait_for(|are_known| *are_known)).await;
        known.map(drop).map_err(|_| {
            let text = "the controller has not finished reading the cluster; try again";
            AuthorizeError::Unknown(text.to_owned())
        })
    }

    /// The owner of a token.
    async fn bearer(&self, token: &str) -> Result<Bearer, AuthorizeError> {
        let denied = |text: &str| Err(AuthorizeError::Unauthenticated(text.to_owned()));
        let Some(parsed) = Token::parse(token) else {
            return denied("the token is not a service account token");
        };
        if !parsed.claims.is_for(AUDIENCE) {
            let text = format!("the token is not for the audience {AUDIENCE}: project one for it");
            return denied(&text);
        }
        let hash = digest(&SHA256, token.as_bytes()).as_ref().to_vec();
        if let Some(known) = self.known(&hash) {
            return known;
        }
        let bearer = match timeout(REVIEW, self.review(token)).await {
            Ok(Ok(bearer)) => bearer,
            Ok(Err(error)) => return self.verified(&parsed, &error.to_string()),
            Err(_) => return self.verified(&parsed, "no response from the API server"),
        };
        self.remember(hash, bearer.clone());
        bearer
    }

    fn known(&self, hash: &TokenHash) -> Option<Result<Bearer, AuthorizeError>> {
        let reviewed = locked(&self.reviewed);
        let known = reviewed.get(hash)?;
        (Instant::now() < known.until).then(|| known.bearer.clone())
    }

    fn remember(&self, hash: TokenHash, bearer: Result<Bearer, AuthorizeError>) {
        let now = Instant::now();
        let kept = if bearer.is_ok() { ACCEPTED } else { DENIED };
        let mut reviewed = locked(&self.reviewed);
        if reviewed.len() >= MAX_CACHED_TOKENS {
            reviewed.retain(|_, it| now < it.until);
        }
        if reviewed.len() < MAX_CACHED_TOKENS {
            let until = now + kept;
            reviewed.insert(hash, CachedReview { bearer, until });
        }
    }

    /// Requests a review from the API server. An error means that it was unavailable.
    async fn review(&self, token: &str) -> Result<Result<Bearer, AuthorizeError>, kube::Error> {
        // The semaphore is never closed.
        let _turn = self.reviews.acquire().await;
        let review = TokenReview {
            spec: TokenReviewSpec {
                audiences: Some(vec![AUDIENCE.to_owned()]),
                token: token.to_owned(),
            },
            ..TokenReview::default()
        };
        let api: Api<TokenReview> = Api::all(self.client.clone());
        let review = api.create(&PostParams::default(), &review).await?;
        let status = review.status.unwrap_or_default();
        let audiences = status.audiences.unwrap_or_default();
        let is_ours = audiences.iter().any(|it| it == AUDIENCE);
        if status.authenticated != Some(true) || !is_ours {
            let error = status.error.unwrap_or_default();
            debug!(error, "a token was rejected");
            let text = "the API server rejects the token: it has expired, belongs to a deleted pod, \
                 or not of this cluster; the proxy reads its file again";
            return Ok(Err(AuthorizeError::Unauthenticated(text.to_owned())));
        }
        let bearer = bearer(status.user.unwrap_or_default());
        let text = "the token belongs to no service account, or is not bound to a pod: use a projected token";
        Ok(bearer.ok_or_else(|| AuthorizeError::Forbidden(text.to_owned())))
    }

    /// Verifies a token with the last known keys of the API server.
    fn verified(&self, token: &Token<'_>, reason: &str) -> Result<Bearer, AuthorizeError> {
        let Some(keys) = locked(&self.keys).clone() else {
            let text = format!("the token cannot be reviewed now ({reason}); try again");
            warn!(reason, "TokenReview of a proxy failed");
            return Err(AuthorizeError::Unknown(text));
        };
        let bearer = keys.verify(token, SystemTime::now());
        debug!(reason, ?bearer, "verified a token without the API server");
        let bearer = bearer.map_err(|invalid| {
            let text = format!("the token is invalid: {invalid}; the API server was unavailable");
            AuthorizeError::Unauthenticated(text)
        })?;
        if bearer.pod.is_none() {
            let text = "the token is not bound to a pod: use a projected token";
            return Err(AuthorizeError::Forbidden(text.to_owned()));
        }
        Ok(bearer)
    }

    /// Keeps the cluster's keys current. Never ends.
    pub(super) async fn follow_keys(&self) {
        loop {
            let pause = match timeout(REVIEW, Keys::fetch(&self.client)).await {
                Ok(Ok(keys)) => {
                    *locked(&self.keys) = Some(keys);
                    KEYS_AGE
                }
                Ok(Err(error)) => {
                    warn!(
                        %error,
                        "cannot fetch the keys of service account tokens; without them, no proxy \
                         can connect while the API server is unavailable: bind the ClusterRole \
                         system:service-account-issuer-discovery to the controller"
                    );
                    KEYS_RETRY
                }
                Err(_) => KEYS_RETRY,
            };
            tokio::time::sleep(pause).await;
        }
    }
}

/// The owner of a token, from the API server's response.
fn bearer(user: UserInfo) -> Option<Bearer> {
    let name = user.username?;
    let (namespace, name) = name.strip_prefix(account::USER_PREFIX)?.split_once(':')?;
    let mut extra = user.extra?;
    let pod = extra.remove(account::POD_NAME)?.into_iter().next()?;
    let node = extra.remove(account::NODE_NAME);
    let node = node.and_then(|names| names.into_iter().next());
    Some(Bearer {
        account: ObjectName::parse(namespace, name).ok()?,
        pod: Some(pod.into()),
        node: node.map(Into::into),
    })
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Timeout of a review, which normally takes milliseconds.
const REVIEW: Duration = Duration::from_secs(4);

/// How long a proxy waits while the cluster is read. A review before that included, it is shorter than
/// the server's timeout for authorization. Longer waits would keep it from replicas that are ready.
const READING: Duration = Duration::from_secs(5);

/// Concurrent reviews: proxies that reconnect together must not flood the API server.
const REVIEWS: usize = 16;

/// How long a valid token is cached: afterwards, a deleted pod has no access.
const ACCEPTED: Duration = Duration::from_mins(5);

/// How long an invalid token is cached.
const DENIED: Duration = Duration::from_secs(10);

/// Cached tokens, each of 32 bytes and its owner.
const MAX_CACHED_TOKENS: usize = 20_000;

/// Interval of fetching keys: new ones are published long before they sign.
const KEYS_AGE: Duration = Duration::from_mins(10);

/// Wait after a failed fetch.
const KEYS_RETRY: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests;
