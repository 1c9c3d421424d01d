//! Rejected resources, as carried in a NACK.

use prost::Message;

use crate::discovery::{self, Any, Status};
use crate::limits::REFUSAL_TEXT;
use crate::model::{Kind, ResourceKey};

/// A resource that a proxy rejected, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Kind and key of the resource.
    pub key: ResourceKey,
    /// The reason, for the status of the user's object.
    pub text: String,
}

/// The error detail of a NACK. The message is for people; the details name each resource.
pub(super) fn status<'a>(refusals: impl IntoIterator<Item = &'a Refusal>) -> Status {
    let mut message = String::new();
    let mut details = Vec::new();
    for Refusal { key, text } in refusals {
        let text = shortened(text);
        if message.is_empty() {
            message = format!("{key} was rejected: {text}");
        }
        let refusal = discovery::Refusal {
            name: key.key.to_string(),
            text: text.to_owned(),
        };
        details.push(Any {
            type_url: TYPE_URL.to_owned(),
            value: refusal.encode_to_vec().into(),
        });
    }
    if details.len() > 1 {
        let count = details.len();
        message = format!("{message}; {count} resources were rejected in total");
    }
    Status {
        code: INVALID_ARGUMENT,
        message,
        details,
    }
}

/// The resources of `kind` named in a NACK.
pub(super) fn named(kind: Kind, status: &Status) -> Vec<Refusal> {
    let details = status.details.iter();
    let details = details.filter(|detail| detail.type_url == TYPE_URL);
    let refusals = details.filter_map(|it| discovery::Refusal::decode(it.value.clone()).ok());
    let refusals = refusals.map(|refusal| Refusal {
        key: ResourceKey {
            kind,
            key: refusal.name.into(),
        },
        text: shortened(&refusal.text).to_owned(),
    });
    refusals.collect()
}

pub(super) fn shortened(text: &str) -> &str {
    let end = text.floor_char_boundary(REFUSAL_TEXT);
    text.get(..end).unwrap_or(text)
}

const TYPE_URL: &str = "type.googleapis.com/envoy.service.discovery.v3.Refusal";

/// gRPC code that xDS implementations send with a NACK.
const INVALID_ARGUMENT: i32 = 3;
