//! Which Gateway a proxy may see: by its service account token, which the API server reviews. While it
//! is away, the keys that it had tell.

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
use xds_grpc::server::{Answer, Authorize, Denied, Identity};

use super::account::gateway_of;
use super::keys::Keys;
use super::token::{Bearer, Token};
use super::{AUDIENCE, account};
use crate::outputs::Outputs;

pub(super) struct Authorizer {
    client: Client,
    outputs: Arc<Outputs>,
    reviewed: Mutex<HashMap<TokenHash, Reviewed>>,
    keys: Mutex<Option<Keys>>,
    reviews: Semaphore,
}

/// The cache has no tokens, which would be worth stealing.
type TokenHash = Vec<u8>;

struct Reviewed {
    bearer: Result<Bearer, Denied>,
    until: Instant,
}

impl Authorize for Authorizer {
    fn authorize<'a>(&'a self, token: &'a str) -> Answer<'a> {
        Box::pin(self.identity(token))
    }
}

impl Authorizer {
    pub(super) fn new(client: Client, outputs: Arc<Outputs>) -> Self {
        Self {
            client,
            outputs,
            reviewed: Mutex::default(),
            keys: Mutex::default(),
            reviews: Semaphore::new(REVIEWS),
        }
    }

    async fn identity(&self, token: &str) -> Result<Identity, Denied> {
        let bearer = self.bearer(token).await?;
        if let Some(gateway) = gateway_of(&bearer.account, &self.outputs.infrastructure) {
            let pod = bearer.pod;
            return Ok(Identity { gateway, pod });
        }
        if !self.outputs.published.views().is_complete() {
            let text = "the controller has not finished reading the cluster; try again";
            return Err(Denied::Unknown(text.to_owned()));
        }
        let account = bearer.account;
        Err(Denied::Forbidden(format!(
            "the service account {account} belongs to no Gateway of this controller; a proxy runs \
             with the one that the controller made for its Gateway"
        )))
    }

    /// Whose a token is.
    async fn bearer(&self, token: &str) -> Result<Bearer, Denied> {
        let denied = |text: &str| Err(Denied::Unauthenticated(text.to_owned()));
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

    fn known(&self, hash: &TokenHash) -> Option<Result<Bearer, Denied>> {
        let reviewed = locked(&self.reviewed);
        let known = reviewed.get(hash)?;
        (Instant::now() < known.until).then(|| known.bearer.clone())
    }

    fn remember(&self, hash: TokenHash, bearer: Result<Bearer, Denied>) {
        let now = Instant::now();
        let kept = if bearer.is_ok() { ACCEPTED } else { DENIED };
        let mut reviewed = locked(&self.reviewed);
        if reviewed.len() >= REMEMBERED {
            reviewed.retain(|_, it| now < it.until);
        }
        if reviewed.len() < REMEMBERED {
            let until = now + kept;
            reviewed.insert(hash, Reviewed { bearer, until });
        }
    }

    /// Asks the API server. An error says that it could not be asked.
    async fn review(&self, token: &str) -> Result<Result<Bearer, Denied>, kube::Error> {
        // Never closed.
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
            return Ok(Err(Denied::Unauthenticated(text.to_owned())));
        }
        let bearer = bearer(status.user.unwrap_or_default());
        let text = "the token belongs to no service account, or is not bound to a pod: use a projected token";
        Ok(bearer.ok_or_else(|| Denied::Forbidden(text.to_owned())))
    }

    /// Verifies a token by the keys that the API server had.
    fn verified(&self, token: &Token<'_>, reason: &str) -> Result<Bearer, Denied> {
        let Some(keys) = locked(&self.keys).clone() else {
            let text = format!("the token cannot be reviewed now ({reason}); try again");
            warn!(reason, "TokenReview of a proxy failed");
            return Err(Denied::Unknown(text));
        };
        let bearer = keys.verify(token, SystemTime::now());
        debug!(reason, ?bearer, "verified a token without the API server");
        let bearer = bearer.map_err(|invalid| {
            let text = format!("the token is invalid: {invalid}; the API server was unavailable");
            Denied::Unauthenticated(text)
        })?;
        if bearer.pod.is_none() {
            let text = "the token is not bound to a pod: use a projected token";
            return Err(Denied::Forbidden(text.to_owned()));
        }
        Ok(bearer)
    }

    /// Keeps the keys of the cluster current. Never ends.
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

/// Whose a token is, as the API server says.
fn bearer(user: UserInfo) -> Option<Bearer> {
    let name = user.username?;
    let (namespace, name) = name.strip_prefix(account::USER_PREFIX)?.split_once(':')?;
    let mut extra = user.extra?;
    let pod = extra.remove(account::POD_NAME)?.into_iter().next()?;
    Some(Bearer {
        account: ObjectName::parse(namespace, name).ok()?,
        pod: Some(pod.into()),
    })
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long a review may take, which the API server answers in milliseconds.
const REVIEW: Duration = Duration::from_secs(4);

/// Reviews at a time. Proxies that reconnect together may not flood the API server.
const REVIEWS: usize = 16;

/// How long a token is taken for valid without asking again: a deleted pod has no longer access.
const ACCEPTED: Duration = Duration::from_mins(5);

/// How long a refused token is not asked for again.
const DENIED: Duration = Duration::from_secs(10);

/// Tokens that are remembered, of 32 bytes and what they are of.
const REMEMBERED: usize = 20_000;

/// How often keys are fetched: a new one is published long before it signs.
const KEYS_AGE: Duration = Duration::from_mins(10);

/// How soon it is tried again.
const KEYS_RETRY: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests;
