//! `/config_dump`: the configuration with the state of endpoints, streamed one resource at a time.

use std::io::{self, Write};
use std::sync::Arc;

use admin_types::dump;
use serde::Serialize;
use xds::model::{Keyed, Kind, Model, Resources};

use super::handler::{Endpoint, EndpointRequest, READ};
use crate::certificates;
use crate::handles::{ConfigView, Handles};
use crate::query::Query;
use crate::response::{ErrorFormat, ErrorResponse, JSON, Response, streamed};
use crate::upstreams::{self, UpstreamStats};

pub(super) const ENDPOINT: Endpoint = Endpoint {
    path: "/config_dump",
    methods: READ,
    parameters: &["type", "name"],
    usage: "GET /config_dump; ?type=binds, listeners, routes, backends, workloads, services, policies \
            or certificates selects one list, ?type=runtime the state of the proxy and the source of \
            its configuration, and &name=NAME or NAMESPACE/NAME the resources with it in their keys",
    errors: ErrorFormat::Json,
    handle: |request| Box::pin(handle(request)),
};

async fn handle(request: EndpointRequest<'_>) -> Result<Response, ErrorResponse> {
    let filter = Filter::parse(&request.query).map_err(ErrorResponse::bad_parameter)?;
    let slot = request.slot()?;
    let handles = Arc::clone(&request.context.handles);
    let live = if filter.needs_shards() {
        upstreams::gather(&handles.shards).await
    } else {
        UpstreamStats::default()
    };
    Ok(streamed(slot, JSON, request.encoding, move |out| {
        let view = (handles.view)();
        let mut writer = Writer { out, filter, live };
        writer.all(&handles, &view)
    }))
}

const CERTIFICATES: &str = "certificates";
/// The part before the lists: runtime state and source.
const RUNTIME: &str = "runtime";

/// The part of the dump that a request selects.
pub(crate) struct Filter {
    /// Only this list; None for all.
    list: Option<&'static str>,
    /// Only resources with these segments in their keys, as `/namespace/name/`; None for all.
    name: Option<String>,
}

impl Filter {
    /// Parses the query parameters.
    pub(crate) fn parse(query: &Query<'_>) -> Result<Self, String> {
        let kinds = Kind::ALL.map(Kind::category);
        let lists: Vec<_> = kinds.into_iter().chain([CERTIFICATES, RUNTIME]).collect();
        let list = query.choice("type", &lists)?;
        let name = query.text("name");
        if name.is_some_and(str::is_empty) {
            return Err("the parameter `name` is empty".to_owned());
        }
        Ok(Self {
            list,
            name: name.map(|name| format!("/{name}/")),
        })
    }

    fn includes_list(&self, list: &str) -> bool {
        self.list.is_none_or(|selected| selected == list)
    }

    /// Whether the shards have to be queried, for the state of endpoints or for stuck shards.
    fn needs_shards(&self) -> bool {
        [Kind::Backend.category(), Kind::Service.category(), RUNTIME]
            .iter()
            .any(|list| self.includes_list(list))
    }

    fn includes(&self, key: &str) -> bool {
        self.name
            .as_ref()
            .is_none_or(|name| format!("/{key}/").contains(name))
    }
}

/// A service or backend with its endpoints.
#[derive(Serialize)]
struct WithEndpoints<'a, T> {
    #[serde(flatten)]
    resource: &'a T,
    endpoints: Vec<dump::Endpoint>,
}

struct Writer<'a> {
    out: &'a mut dyn Write,
    filter: Filter,
    live: UpstreamStats,
}

impl Writer<'_> {
    fn all(&mut self, handles: &Handles, view: &ConfigView) -> io::Result<()> {
        let version = dump::Version {
            gateway: env!("CARGO_PKG_VERSION").to_owned(),
            format: dump::Version::FORMAT,
            configuration: view.number,
        };
        self.out.write_all(b"{\"version\":")?;
        serde_json::to_writer(&mut *self.out, &version)?;
        if self.filter.includes_list(RUNTIME) {
            let mut runtime = (handles.runtime)();
            for shard in &mut runtime.shards {
                shard.stuck = self.live.is_stuck(shard.id);
            }
            self.value("runtime", &runtime)?;
            self.value("source", &(handles.source)())?;
        }
        let model = &*view.model;
        self.list("binds", &model.binds, |_, it| it)?;
        self.list("listeners", &model.listeners, |_, it| it)?;
        self.routes(model)?;
        self.list("backends", &model.backends, |this, backend| WithEndpoints {
            endpoints: this.endpoints(view, backend.key.as_str()),
            resource: backend,
        })?;
        self.list("workloads", &model.workloads, |_, it| it)?;
        self.list("services", &model.services, |this, service| WithEndpoints {
            endpoints: this.endpoints(view, service.key.as_str()),
            resource: service,
        })?;
        self.list("policies", &model.policies, |_, it| it)?;
        self.certificates(&certificates::of(model))?;
        self.out.write_all(b"}\n")
    }

    /// The endpoints of a service or backend with their state.
    fn endpoints(&self, view: &ConfigView, key: &str) -> Vec<dump::Endpoint> {
        let found = (view.endpoints)(key).into_iter();
        let live = |(id, endpoint): (_, dump::Endpoint)| {
            let check = endpoint.health_check.as_ref();
            let is_out = check.is_some_and(|check| check.state.is_out());
            let mut live = self.live.endpoint(id);
            if is_out {
                live.health = 0.0;
            }
            dump::Endpoint { live, ..endpoint }
        };
        found.map(live).collect()
    }

    fn value(&mut self, name: &str, value: &impl Serialize) -> io::Result<()> {
        write!(self.out, ",\n\"{name}\":")?;
        Ok(serde_json::to_writer(&mut *self.out, value)?)
    }

    /// Writes a list, one resource at a time.
    fn list<'m, T: Keyed, D: Serialize>(
        &mut self,
        name: &str,
        resources: &'m Resources<T>,
        shown: impl Fn(&Self, &'m T) -> D,
    ) -> io::Result<()> {
        if !self.filter.includes_list(name) {
            return Ok(());
        }
        write!(self.out, ",\n\"{name}\":[")?;
        let mut separator = "\n";
        for resource in resources {
            if self.filter.includes(resource.key()) {
                self.out.write_all(separator.as_bytes())?;
                let shown = shown(self, resource);
                serde_json::to_writer(&mut *self.out, &shown)?;
                separator = ",\n";
            }
        }
        self.out.write_all(b"]")
    }

    /// Writes the rules. One that serves several listeners is there once for each of them, as every field of
    /// it is.
    fn routes(&mut self, model: &Model) -> io::Result<()> {
        let list = Kind::Route.category();
        if !self.filter.includes_list(list) {
            return Ok(());
        }
        write!(self.out, ",\n\"{list}\":[")?;
        let mut separator = "\n";
        for rule in model.rules_at_listeners() {
            if self.filter.includes(rule.key().as_str()) {
                self.out.write_all(separator.as_bytes())?;
                serde_json::to_writer(&mut *self.out, &rule)?;
                separator = ",\n";
            }
        }
        self.out.write_all(b"]")
    }

    fn certificates(&mut self, certificates: &[dump::Certificate]) -> io::Result<()> {
        if !self.filter.includes_list(CERTIFICATES) {
            return Ok(());
        }
        let is_selected =
            |it: &&dump::Certificate| it.used_by.iter().any(|key| self.filter.includes(key));
        let selected: Vec<_> = certificates.iter().filter(is_selected).collect();
        self.value(CERTIFICATES, &selected)
    }
}

#[cfg(test)]
mod tests;
