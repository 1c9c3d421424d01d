//! `/healthz` and `/readyz`.

use std::sync::Arc;

use http::StatusCode;

use crate::outputs::Outputs;
use crate::server::{Handler, HttpResponse};
use crate::watch::Readiness;

/// Responds to the kubelet's probes.
#[must_use]
pub fn handler(readiness: Readiness, outputs: Arc<Outputs>) -> Arc<Handler> {
    Arc::new(move |path| match path {
        "/healthz" => Some(HttpResponse::text(StatusCode::OK, "ok")),
        "/readyz" => Some(ready(&readiness, &outputs)),
        _ => None,
    })
}

/// Ready once every watch is synced and the result is published: proxies that connect are served.
fn ready(readiness: &Readiness, outputs: &Outputs) -> HttpResponse {
    let unsynced = readiness.unsynced();
    if !unsynced.is_empty() {
        let lines = unsynced.into_iter().map(|(kind, error)| match error {
            Some(error) => format!("{kind} is not synced: {error}"),
            None => format!("{kind} is not synced"),
        });
        let text = lines.collect::<Vec<_>>().join("\n");
        return HttpResponse::text(StatusCode::SERVICE_UNAVAILABLE, &text);
    }
    if !outputs.published.views().is_complete() {
        let text = "the first configuration is being translated";
        return HttpResponse::text(StatusCode::SERVICE_UNAVAILABLE, text);
    }
    HttpResponse::text(StatusCode::OK, "ok")
}

#[cfg(test)]
mod tests {
    use xds::delta::Publication;

    use super::*;
    use crate::watch::{Kinds, State};

    #[test]
    fn readiness_requires_synced_kinds_and_a_publication() {
        let kinds = Kinds::new(&[]);
        let readiness = Readiness::new(kinds.clone());
        let outputs = Arc::new(Outputs::default());
        let handler = handler(readiness.clone(), Arc::clone(&outputs));
        let status = |path| handler(path).map(|answer| answer.status);
        assert_eq!(status("/healthz"), Some(StatusCode::OK));
        assert_eq!(status("/readyz"), Some(StatusCode::SERVICE_UNAVAILABLE));
        assert_eq!(status("/"), None);
        for id in kinds.ids() {
            readiness.set(id, State::Synced);
        }
        let answer = handler("/readyz").expect("an answer");
        assert!(answer.body.contains("translated"), "{}", answer.body);
        outputs.published.publish(Publication::default());
        assert_eq!(status("/readyz"), Some(StatusCode::OK));
    }

    #[test]
    fn pending_conditions_are_named_with_their_error() {
        let kinds = Kinds::new(&[]);
        let readiness = Readiness::new(kinds.clone());
        let id = kinds.ids().next().expect("a kind");
        readiness.fail(id, "403 forbidden");
        let handler = handler(readiness, Arc::default());
        let body = handler("/readyz").expect("an answer").body;
        assert!(body.contains(&format!("{} is not synced: 403 forbidden", kinds.name(id))));
    }
}
