//! The current configuration, and how much of it is in effect.

use admin::metrics::{Exposition, Labels};
use admin_types::dump::SourceKind;
use xds::model::{Kind, Listener};

use super::Scrape;
use super::names::Names;
use crate::names::Interned;

impl Scrape<'_> {
    pub(super) fn configuration(&self, names: &Names<'_>, out: &mut Exposition) {
        let none = Labels::none();
        let help = "Generation of the current configuration.";
        out.gauge("configuration_number", help)
            .number(&none, self.snapshot.version);
        let kind = match self.source.kind {
            SourceKind::Files => "files",
            SourceKind::Xds => "xds",
        };
        let help = "Source of the configuration.";
        out.gauge("configuration_source_info", help)
            .number(&none.with("source", kind), 1);
        let help = "Age of the current configuration.";
        let mut family = out.gauge("configuration_age_seconds", help);
        if let Some(age) = self.source.age_seconds {
            family.number(&none, age);
        }
        let help = "Conditions of configured objects that report a problem, and errors in files.";
        out.gauge("configuration_problems", help)
            .number(&none, self.source.problems);
        let help = "Objects in files whose previous version stays in effect.";
        out.gauge("configuration_previous_versions", help)
            .number(&none, self.previous_versions as u64);
        let help = "Replaced configurations that requests still use.";
        out.gauge("configuration_replaced_in_use", help)
            .number(&none, self.replaced as u64);
        let mut family = out.gauge(
            "configuration_resources",
            "Loaded configuration objects by kind; of routes, their rules.",
        );
        for kind in Kind::ALL {
            let count = self.count(kind) as u64;
            family.number(&none.with("type", kind.category()), count);
        }
        let help = "Listeners of the rules of routes: a rule at two listeners counts twice.";
        out.gauge("configuration_attachments", help)
            .number(&none, self.snapshot.rules.attachments as u64);
        self.binds(names, out);
        self.certificates(out);
        self.keys(out);
        self.controller(out);
    }

    fn count(&self, kind: Kind) -> usize {
        let model = self.model;
        match kind {
            Kind::Bind => model.binds.len(),
            Kind::Listener => model.listeners.len(),
            // Whether a controller sends a rule once, or for each listener.
            Kind::Route => self.snapshot.rules.rules,
            Kind::Backend => model.backends.len(),
            Kind::Workload => model.workloads.len(),
            Kind::Service => model.services.len(),
            Kind::Policy => model.policies.len(),
        }
    }

    fn binds(&self, names: &Names<'_>, out: &mut Exposition) {
        let help = "Whether the gateway listens on an address.";
        let mut family = out.gauge("bind_up", help);
        for (id, labels) in &names.binds {
            let is_down = self
                .binds_down
                .iter()
                .any(|down| Interned::bind(*down) == *id);
            family.number(labels, u64::from(!is_down));
        }
    }

    fn keys(&self, out: &mut Exposition) {
        let none = Labels::none();
        let help = "JWKS that could not be fetched, or have not been fetched yet.";
        let missing = self.missing_keys;
        out.gauge("jwks_missing", help)
            .number(&none, missing.len() as u64);
        let help = "Longest time for which a JWKS has been missing.";
        let longest = missing.iter().map(|keys| keys.since.elapsed().as_secs());
        out.gauge("jwks_missing_seconds", help)
            .number(&none, longest.max().unwrap_or_default());
    }

    fn certificates(&self, out: &mut Exposition) {
        let help = "Earliest expiry of a listener's certificates, in Unix time.";
        let mut family = out.gauge("certificate_expiry_timestamp_seconds", help);
        for bind in self.snapshot.binds.iter().flatten() {
            let gateway = Labels::none().with("gateway", &bind.gateway);
            for listener in bind.listeners.iter() {
                let known = self.model.listeners.get(&listener.key);
                if let Some(expiry) = known.and_then(|listener| first_expiry(listener)) {
                    family.number(&gateway.with("listener", listener.key.as_str()), expiry);
                }
            }
        }
    }

    /// State of the controller connection, if there is one.
    fn controller(&self, out: &mut Exposition) {
        if self.source.kind != SourceKind::Xds {
            return;
        }
        let none = Labels::none();
        let connected = self.source.connected.unwrap_or_default();
        let help = "Whether the gateway is connected to the controller.";
        out.gauge("xds_connected", help)
            .number(&none, u64::from(connected));
        let labels = |kind: &str| none.with("type", kind);
        let help = "Streams opened to the controller; each after the first is a reconnection.";
        out.counter("xds_streams", help)
            .number(&none, self.source.streams.unwrap_or_default());
        let help = "Time since the last accepted response of a type.";
        let mut family = out.gauge("xds_accepted_age_seconds", help);
        for state in &self.source.types {
            if let Some(age) = state.acked_seconds_ago {
                family.number(&labels(&state.kind), age);
            }
        }
        let help = "Responses accepted.";
        let mut family = out.counter("xds_acks", help);
        for state in &self.source.types {
            family.number(&labels(&state.kind), state.acks);
        }
        let help = "Responses rejected at least in part.";
        let mut family = out.counter("xds_nacks", help);
        for state in &self.source.types {
            family.number(&labels(&state.kind), state.nacks);
        }
        let help = "Whether resources of a type are currently rejected.";
        let mut family = out.gauge("xds_refused", help);
        for state in &self.source.types {
            let refused = u64::from(state.refused.is_some());
            family.number(&labels(&state.kind), refused);
        }
    }
}

fn first_expiry(listener: &Listener) -> Option<u64> {
    let certificates = listener.protocol.tls()?.pairs();
    // Of a chain, the leaf: issuers usually outlive it.
    let own = certificates.filter_map(|certificate| certificate.chain.first());
    let first = own.filter_map(translate::expiry::of).min()?;
    // An expiry before 1970 is long past.
    Some(u64::try_from(first.as_second()).unwrap_or_default())
}
