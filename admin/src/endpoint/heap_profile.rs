//! `/debug/pprof/heap`: what allocated the memory that the process has used and still holds.

use std::sync::Arc;

use super::cpu_profile::{attached, encoding, format};
use super::{Asked, Endpoint, READ};
use crate::pprof::heap;
use crate::server::{Answer, ErrorForm, Refusal, made};

pub(super) const ENDPOINT: Endpoint = Endpoint {
    path: "/debug/pprof/heap",
    methods: READ,
    parameters: &["format"],
    usage: "GET /debug/pprof/heap?format=pprof|flamegraph",
    errors: ErrorForm::Text,
    answer: |asked| Box::pin(async move { answer(&asked) }),
};

fn answer(asked: &Asked<'_>) -> Result<Answer, Refusal> {
    let format = format(&asked.query).map_err(Refusal::bad_parameter)?;
    let handles = Arc::clone(&asked.shared.handles);
    let samples = (handles.heap)();
    let Some(distance) = samples.distance else {
        return Err(Refusal::conflict(
            "nothing is sampled: start the gateway without --heap-sampling off",
        ));
    };
    let write = move |out: &mut dyn std::io::Write| {
        out.write_all(&heap::write(&samples.stacks, distance, format)?)
    };
    let encoding = encoding(format, asked);
    let answer = made(asked.slot()?, format.content_type(), encoding, write);
    Ok(attached(answer, "heap", format))
}
