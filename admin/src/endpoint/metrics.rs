//! `/metrics`: what is counted.

use std::sync::Arc;

use http::header::ACCEPT;

use super::{Asked, Endpoint, READ};
use crate::live;
use crate::metrics::{Exposition, Form};
use crate::server::{Answer, ErrorForm, Refusal, made};

pub(super) const ENDPOINT: Endpoint = Endpoint {
    path: "/metrics",
    methods: READ,
    parameters: &[],
    usage: "GET /metrics",
    errors: ErrorForm::Text,
    answer: |asked| Box::pin(answer(asked)),
};

async fn answer(asked: Asked<'_>) -> Result<Answer, Refusal> {
    let accept = asked.headers.get_all(ACCEPT).iter();
    let accept: Vec<_> = accept.filter_map(|value| value.to_str().ok()).collect();
    let form = Form::asked(&accept.join(","));
    // Scrapes come one by one, so they wait for each other rather than fail.
    let slot = asked.shared.scrapes.wait().await;
    let slot = slot.ok_or_else(|| Refusal::busy("the server ends"))?;
    let handles = Arc::clone(&asked.shared.handles);
    let live = live::gather(&handles).await;
    Ok(made(
        slot,
        form.content_type(),
        asked.encoding,
        move |out| {
            let mut metrics = Exposition::new(form);
            (handles.metrics)(&mut metrics, &live);
            out.write_all(metrics.finish().as_bytes())
        },
    ))
}
