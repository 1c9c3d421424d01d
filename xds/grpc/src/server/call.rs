//! One gRPC call: checks method and token. The first response of a stream is made here.

use std::str::FromStr;
use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Request, header};
use hyper::body::Incoming;
use tokio::time::timeout;
use tonic::{Code, Status, Streaming};
use xds::delta::{Report, Symptom};

use super::authorize::ProxyIdentity;
use super::connection::{Call, Connection};
use super::response::{self, Responses};
use super::stream::Stream;
use crate::{METHOD, ProstDecoder, ZONE_HEADER};

impl Connection {
    /// Responds to a call. A rejected call ends the connection, so that each retry costs a new one.
    pub(super) async fn respond(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> http::Response<Responses> {
        let call = self.begin_call();
        match self.accept(request, call).await {
            Ok(response) => response,
            Err(status) => {
                let reason = format!("{}: {}", status.code(), status.message());
                self.server.log_failure(self.address, &reason);
                self.retire();
                status.into_http()
            }
        }
    }

    async fn accept(
        self: &Arc<Self>,
        request: Request<Incoming>,
        call: Call,
    ) -> Result<http::Response<Responses>, Status> {
        if request.uri().path() != METHOD {
            let text = format!("this server has one method, {METHOD}");
            return Err(Status::unimplemented(text));
        }
        if !self.may_call() {
            return Err(Status::resource_exhausted(TOO_MANY_CALLS));
        }
        let identity = self.identity(request.headers()).await?;
        self.set_authenticated();
        let decoder = ProstDecoder::default();
        let max = self.server.limits.request_bytes;
        let requests = Streaming::new_request(decoder, request.into_body(), None, Some(max));
        let (sender, body) = response::channel();
        let stream = Stream::new(Arc::clone(self), call, requests, sender);
        let zone = identity.zone.as_deref();
        let zone = zone.and_then(|zone| HeaderValue::try_from(zone).ok());
        tokio::spawn(stream.run(identity));
        let mut response = http::Response::new(body);
        let grpc = HeaderValue::from_static("application/grpc");
        response.headers_mut().insert(header::CONTENT_TYPE, grpc);
        let features = format!("{}, {}", Report::DIGESTS, Symptom::FEATURE);
        if let Ok(features) = HeaderValue::try_from(features) {
            response.headers_mut().insert(Report::HEADER, features);
        }
        if let Some(zone) = zone {
            response.headers_mut().insert(ZONE_HEADER, zone);
        }
        Ok(response)
    }

    async fn identity(&self, headers: &HeaderMap) -> Result<ProxyIdentity, Status> {
        let token = bearer(headers).ok_or_else(|| Status::unauthenticated(NO_TOKEN))?;
        let identity = self.server.authorize.authorize(token);
        let identity = timeout(self.server.limits.authorization, identity).await;
        let identity = identity.map_err(|_| Status::unavailable(SLOW_AUTHORIZATION))?;
        Ok(identity?)
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Checks that the node id matches the token's owner.
pub(super) fn node(identity: &ProxyIdentity, id: &str) -> Result<crate::NodeId, Status> {
    let node = crate::NodeId::from_str(id);
    let node = node.map_err(|error| Status::invalid_argument(error.to_string()))?;
    if node.gateway != identity.gateway {
        let text = format!(
            "the token belongs to a proxy of the Gateway {}, but the node id names the Gateway {}; \
             start it with the service account of its own Gateway",
            identity.gateway, node.gateway
        );
        return Err(Status::new(Code::PermissionDenied, text));
    }
    if let Some(pod) = identity.pod.as_ref().filter(|pod| **pod != node.proxy) {
        let text = format!(
            "the token belongs to the pod {pod}, but the node id names {}; mount each pod's own \
             token into it",
            node.proxy
        );
        return Err(Status::new(Code::PermissionDenied, text));
    }
    Ok(node)
}

const NO_TOKEN: &str = "the request has no `authorization: Bearer` token; give the proxy a \
     token of its service account with --xds-token";

const TOO_MANY_CALLS: &str = "too many calls on one connection; wait between them";

const SLOW_AUTHORIZATION: &str = "the token could not be authenticated in time: is the \
     Kubernetes API server reachable for the controller?";
