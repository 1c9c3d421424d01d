//! A controller of one Gateway with only services, and a stream to it controlled by the test.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Buf;
use prost::Message;
use xds::delta::{Answered, Encoded, Member, Outgoing, Poll, ProxySession, Publication, Views};
use xds::discovery::{DeltaDiscoveryRequest, DeltaDiscoveryResponse, Status};
use xds::model::{
    Features, Kind, ObjectName, Resource, ResourceKey, Service, ServiceKey, SessionAffinity,
};

pub(crate) fn gateway() -> ObjectName {
    ObjectName::new("a", "web")
}

/// A service whose content depends on `content`.
pub(crate) fn service(name: &str, content: u8) -> Resource {
    Resource::from(Service {
        key: ServiceKey::new(&ObjectName::new("a", name)),
        vips: vec![[127, 0, 0, content].into()],
        ports: Vec::new(),
        session_affinity: SessionAffinity::None,
    })
}

pub(crate) fn key(name: &str) -> ResourceKey {
    ResourceKey {
        kind: Kind::Service,
        key: format!("Service/a/{name}").into(),
    }
}

/// A publication for [`gateway`]: services by name, each with its content, or removed.
pub(crate) fn publication(services: &[(&str, Option<u8>)]) -> Publication {
    let mut publication = Publication::default();
    for (name, content) in services {
        let encoded = content.map(|content| Arc::new(Encoded::new(&service(name, content))));
        let member = if encoded.is_some() {
            Member::Joined
        } else {
            Member::Left
        };
        publication.resources.push((key(name), encoded));
        publication.members.push((gateway(), key(name), member));
    }
    publication
}

/// A stream with the controller at its other end.
pub(crate) struct Stream {
    pub(crate) session: ProxySession,
    now: Instant,
}

impl Stream {
    pub(crate) fn to(views: &mut Views) -> Self {
        Self::with(views, Features::all())
    }

    pub(crate) fn with(views: &mut Views, features: Features) -> Self {
        Self {
            session: ProxySession::begin(views, gateway(), features),
            now: Instant::now(),
        }
    }

    /// One that has subscribed to everything, holding nothing.
    pub(crate) fn subscribed(views: &mut Views) -> Self {
        Self::subscribed_with(views, Features::all())
    }

    /// The same for a proxy with these features.
    pub(crate) fn subscribed_with(views: &mut Views, features: Features) -> Self {
        let mut stream = Self::with(views, features);
        for kind in Kind::ALL {
            stream.request(kind, DeltaDiscoveryRequest::default());
        }
        stream
    }

    pub(crate) fn request(&mut self, kind: Kind, request: DeltaDiscoveryRequest) -> Answered {
        let request = DeltaDiscoveryRequest {
            type_url: kind.type_url().to_owned(),
            ..request
        };
        self.session
            .receive(request, self.now)
            .expect("it is one of our types")
    }

    /// Requests for services, which also lets the delay of the first response pass.
    pub(crate) fn services(&mut self, request: DeltaDiscoveryRequest) -> Answered {
        let answered = self.request(Kind::Service, request);
        self.now += Duration::from_secs(2);
        answered
    }

    /// The next step, once what it needs is derived.
    pub(crate) fn poll(&mut self, views: &mut Views) -> Poll {
        loop {
            match self.session.poll(views, self.now) {
                Poll::Derive(derivation) => views.install(derivation.run()),
                next => return next,
            }
        }
    }

    /// Without deriving what it needs.
    pub(crate) fn poll_once(&mut self, views: &mut Views) -> Poll {
        self.session.poll(views, self.now)
    }

    pub(crate) fn outgoing(&mut self, views: &mut Views) -> Vec<Outgoing> {
        match self.poll(views) {
            Poll::Send(unsent) => self.session.send(unsent),
            _ => Vec::new(),
        }
    }

    pub(crate) fn sent(&mut self, views: &mut Views) -> Vec<DeltaDiscoveryResponse> {
        self.outgoing(views).iter().map(decoded).collect()
    }

    /// The sent resources as text: `name` for a resource, `-name` for a removal.
    pub(crate) fn names(&mut self, views: &mut Views) -> Vec<String> {
        let sent = self.sent(views);
        self.acknowledge(&sent);
        names(&sent)
    }

    pub(crate) fn acknowledge(&mut self, responses: &[DeltaDiscoveryResponse]) {
        for response in responses {
            assert_eq!(self.answer(response, None), Answered::Accepted);
        }
    }

    pub(crate) fn answer(
        &mut self,
        response: &DeltaDiscoveryResponse,
        error_detail: Option<Status>,
    ) -> Answered {
        let kind = Kind::from_type_url(&response.type_url).expect("one of our types");
        let request = DeltaDiscoveryRequest {
            response_nonce: response.nonce.clone(),
            error_detail,
            ..DeltaDiscoveryRequest::default()
        };
        self.request(kind, request)
    }
}

pub(crate) fn decoded(outgoing: &Outgoing) -> DeltaDiscoveryResponse {
    let bytes = outgoing.body.clone().chain(outgoing.tail.clone());
    DeltaDiscoveryResponse::decode(bytes).expect("it is a response")
}

pub(crate) fn names(responses: &[DeltaDiscoveryResponse]) -> Vec<String> {
    let mut names = Vec::new();
    for response in responses {
        let short = |name: &str| name.rsplit('/').next().unwrap_or_default().to_owned();
        names.extend(response.resources.iter().map(|it| short(&it.name)));
        let removed = response.removed_resources.iter();
        names.extend(removed.map(|name| format!("-{}", short(name))));
    }
    names.sort();
    names
}
