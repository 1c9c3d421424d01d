//! What a client reports when a stream begins: what it holds, so that the controller sends the difference.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{Client, key};
use crate::delta::digest::Digest;
use crate::delta::encoded::Version;
use crate::discovery::{DeltaDiscoveryRequest, DeltaDiscoveryResponse, Node};
use crate::limits::{REPORT_BYTES, REPORT_ENTRY_BYTES};
use crate::model::{Features, Kind};

/// How a client reports what it holds when a stream begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    /// By names and versions, which every controller understands.
    Versions,
    /// By a digest for each type, to a controller that states [`Report::DIGESTS`].
    Digests,
}

impl Report {
    /// The header field of a stream's response in which a controller states what it understands, separated by commas.
    pub const HEADER: &str = "gateway-features";

    /// What a controller states there that compares digests.
    pub const DIGESTS: &str = "digests";

    /// For a controller that states this in [`Report::HEADER`].
    #[must_use]
    pub fn stated(features: &str) -> Self {
        let mut features = features.split(',');
        if features.any(|it| it.trim() == Self::DIGESTS) {
            Self::Digests
        } else {
            Self::Versions
        }
    }
}

impl Client {
    /// Begins a stream: subscribes to everything and reports what is held. An unfinished batch of an earlier
    /// stream is dropped.
    pub fn connect(&mut self, report: Report) -> Vec<DeltaDiscoveryRequest> {
        self.arriving.clear();
        self.objects.clear();
        self.unreported.clear();
        self.reported = 0;
        let mut requests = Vec::new();
        for kind in Kind::ALL {
            let mut request = DeltaDiscoveryRequest {
                node: Some(Node {
                    id: self.node.clone(),
                    client_features: Features::all().names(),
                }),
                type_url: kind.type_url().to_owned(),
                ..DeltaDiscoveryRequest::default()
            };
            match report {
                Report::Versions => request.initial_resource_versions = self.versions(kind),
                Report::Digests => request.initial_digest = self.initial_digest(kind),
            }
            requests.push(request);
        }
        requests
    }

    /// The answer to a controller that asks for the versions of a type, since its digest differs. `None` for other
    /// responses, which are for [`Client::receive`].
    pub fn answer(&mut self, response: &DeltaDiscoveryResponse) -> Option<DeltaDiscoveryRequest> {
        let kind = Kind::from_type_url(&response.type_url).filter(|_| response.report_versions)?;
        Some(DeltaDiscoveryRequest {
            type_url: response.type_url.clone(),
            response_nonce: response.nonce.clone(),
            initial_resource_versions: self.versions(kind),
            ..DeltaDiscoveryRequest::default()
        })
    }

    /// What is held of a type, by name.
    fn held_of(&self, kind: Kind) -> impl Iterator<Item = (&str, Option<Version>)> {
        let held = self.held.range(key(kind, "")..);
        let held = held.take_while(move |(key, _)| key.kind == kind);
        held.map(|(key, version)| (&*key.key, *version))
    }

    /// The digest of what is held of a type; empty if that is nothing.
    fn initial_digest(&self, kind: Kind) -> Bytes {
        let mut held = self.held_of(kind).peekable();
        if held.peek().is_none() {
            return Bytes::new();
        }
        Bytes::copy_from_slice(&Digest::of(held).bytes())
    }

    /// The held versions of a type, as far as the controller accepts so many on a stream: otherwise none, and all
    /// resources of the type are received again.
    fn versions(&mut self, kind: Kind) -> BTreeMap<String, String> {
        let sizes = self.held_of(kind).map(|(name, _)| name.len());
        let reported = sizes.fold(self.reported, |sum, size| {
            sum.saturating_add(size).saturating_add(REPORT_ENTRY_BYTES)
        });
        if reported > REPORT_BYTES {
            self.unreported.insert(kind);
            return BTreeMap::new();
        }
        self.reported = reported;
        let versions = self.held_of(kind).map(|(name, version)| {
            let version = version.map_or_else(String::new, |it| it.to_string());
            (name.to_owned(), version)
        });
        versions.collect()
    }
}
