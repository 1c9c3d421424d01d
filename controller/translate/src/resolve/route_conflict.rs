//! Routes of HTTP and of gRPC that want the same hosts of one listener.

use std::collections::HashMap;

use xds::model::{Hostname, ObjectName};

use super::gateway::Gateways;
use super::parent::Attachment;
use super::route::Route;
use crate::api::{GrpcRoute, HttpRoute, Resource as _};
use crate::problem::Problem;
use crate::status::Reason;

/// Gateway API lets routes of one kind alone have a host of a listener: the oldest decides which
/// (`GRPCRouteSpec.hostnames`). The others lose the listener, and a parent with its last one.
pub(crate) fn between_http_and_grpc(routes: &mut [Route<'_>], gateways: &Gateways<'_>) {
    let first = routes.first().map(|route| route.kind);
    if routes.iter().all(|route| Some(route.kind) == first) {
        return;
    }
    let mut by_age: Vec<usize> = (0..routes.len()).collect();
    by_age.sort_by_key(|&index| {
        let route = &routes[index];
        (route.metadata.created(), route.name, route.kind)
    });
    let mut claims = Claims::default();
    for index in by_age {
        let route = &mut routes[index];
        if !route.is_refused() {
            claims.settle(route, gateways);
        }
    }
}

/// What the routes so far have of each listener, by kind, Gateway and listener.
#[derive(Default)]
struct Claims<'a>(HashMap<(&'static str, usize, usize), Vec<Claim<'a>>>);

struct Claim<'a> {
    kind: &'static str,
    route: &'a ObjectName,
    hostnames: Vec<Hostname>,
}

impl<'a> Claims<'a> {
    fn settle(&mut self, route: &mut Route<'a>, gateways: &Gateways<'_>) {
        let (kind, name) = (route.kind, route.name);
        for (number, parent) in route.parents.iter_mut().enumerate() {
            let Ok((gateway, attachments)) = &mut parent.attached else {
                continue;
            };
            let gateway = *gateway;
            let mut lost = None;
            attachments.retain(|attachment| {
                let listener = attachment.listener;
                if let Some(rival) = self.rival(kind, gateway, attachment) {
                    let listener = &gateways.list[gateway].listeners[listener].spec.name;
                    lost = Some(rival.problem(listener, number));
                    return false;
                }
                let claims = self.0.entry((kind, gateway, listener)).or_default();
                claims.push(Claim {
                    kind,
                    route: name,
                    hostnames: attachment.hostnames.clone(),
                });
                true
            });
            if let (true, Some(problem)) = (attachments.is_empty(), lost) {
                parent.attached = Err(problem);
            }
        }
    }

    /// A route of the other kind that has some of the hosts.
    fn rival(&self, kind: &str, gateway: usize, attachment: &Attachment) -> Option<&Claim<'a>> {
        let other = match kind {
            GrpcRoute::KIND => HttpRoute::KIND,
            _ => GrpcRoute::KIND,
        };
        let claims = self.0.get(&(other, gateway, attachment.listener))?;
        claims.iter().find(|claim| claim.overlaps(attachment))
    }
}

impl Claim<'_> {
    /// No hosts are all hosts of the listener.
    fn overlaps(&self, attachment: &Attachment) -> bool {
        let (own, other) = (&self.hostnames, &attachment.hostnames);
        let meets = |host: &Hostname| other.iter().any(|it| it.intersect(host).is_some());
        own.is_empty() || other.is_empty() || own.iter().any(meets)
    }

    fn problem(&self, listener: &str, parent: usize) -> Problem {
        let message = format!(
            "{} {} is older, or first by name, and has hosts of listener `{listener}` that this \
             route wants: HTTP and gRPC cannot share one, use other hosts or another listener",
            self.kind, self.route
        );
        let field = format!("spec.parentRefs[{parent}]");
        Problem::new(Reason::Conflicted, field, message)
    }
}
