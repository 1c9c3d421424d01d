//! What takes the place of the rules of a route that cannot be translated, by a defect.

use xds::model::{HttpMatch, HttpRule, L4Rule, RequestProtocol, RouteRule};

use super::name::RouteKind;
use super::rule::LoweredRule;
use crate::status::problem::Problem;
use crate::status::reason::Reason;

/// A rule that takes everything at the hosts of the route, and rejects it: what the route would take must not
/// go to others, which may check less.
pub(crate) fn closed_rule(kind: RouteKind) -> LoweredRule {
    let http = |protocol| {
        RouteRule::Http(HttpRule {
            protocol,
            invalid: Some(MESSAGE.into()),
            ..HttpRule::refusing(vec![HttpMatch::everything()])
        })
    };
    let l4 = L4Rule {
        name: None,
        backends: Vec::new(),
    };
    LoweredRule {
        name: None,
        rule: match kind {
            RouteKind::Http => http(RequestProtocol::Http),
            RouteKind::Grpc => http(RequestProtocol::Grpc),
            RouteKind::Tls => RouteRule::Tls(l4),
            RouteKind::Tcp => RouteRule::Tcp(l4),
            RouteKind::Udp => RouteRule::Udp(l4),
        },
        problems: vec![Problem::new(Reason::UnsupportedValue, "spec", MESSAGE)],
        refs: Vec::new(),
    }
}

const MESSAGE: &str = "a defect of the controller keeps it from translating this route, so all requests to its hosts \
                       get status 500: please report it, with the controller's log";
