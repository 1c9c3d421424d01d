//! The source of the configuration, for the dump.

use std::time::Instant;

use admin_types::dump::{Source, SourceKind, TypeState};
use xds::model::Kind;

use super::Origin;
use crate::config::in_force::AppliedConfig;
use crate::config::xds::{Connection, TypeState as Counted};

pub(super) fn shown(origin: &Origin, applied: &AppliedConfig) -> Source {
    let age_seconds = applied.since.map(age);
    match origin {
        Origin::Files(files) => Source {
            kind: SourceKind::Files,
            from: files
                .iter()
                .map(|file| file.display().to_string())
                .collect(),
            age_seconds,
            problems: applied.problems as u64,
            ..Source::default()
        },
        Origin::Controller { address, state } => {
            let connection = state.now();
            Source {
                kind: SourceKind::Xds,
                from: vec![address.clone()],
                age_seconds,
                problems: connection.refused as u64,
                connected: Some(connection.connected),
                changed_seconds_ago: connection.changed.map(age),
                streams: Some(connection.streams),
                restored: connection.restored,
                types: types(&connection),
                failure: connection.failure,
            }
        }
    }
}

fn types(connection: &Connection) -> Vec<TypeState> {
    let types = connection.types.iter();
    types
        .map(|(kind, state)| shown_type(*kind, state))
        .collect()
}

fn shown_type(kind: Kind, state: &Counted) -> TypeState {
    TypeState {
        kind: kind.category().to_owned(),
        version: state.version.map_or_else(String::new, |it| it.to_string()),
        acks: state.acks,
        nacks: state.nacks,
        acked_seconds_ago: state.acked.map(age),
        refused_seconds_ago: state.nacked.map(age),
        refused: state.refused.clone(),
    }
}

/// The state of the configuration thread.
pub(super) fn task_state(origin: &Origin, applied: &AppliedConfig) -> &'static str {
    match origin {
        Origin::Files(_) if applied.since.is_some() => "watching",
        Origin::Files(_) => "loading",
        Origin::Controller { state, .. } if state.now().connected => "connected",
        Origin::Controller { .. } => "connecting",
    }
}

fn age(since: Instant) -> u64 {
    since.elapsed().as_secs()
}
