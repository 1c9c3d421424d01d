//! `/config_dump`: what the proxy is told, and how it fares, streamed one resource at a time.

use std::borrow::Borrow;
use std::io::{self, Write};
use std::sync::Arc;

use admin_types::dump;
use serde::Serialize;
use xds::model::Kind;

use super::{Asked, Endpoint, READ};
use crate::certificates;
use crate::handles::{Handles, View};
use crate::live::{self, Live};
use crate::query::Query;
use crate::server::{Answer, ErrorForm, JSON, Refusal, made};

pub(super) const ENDPOINT: Endpoint = Endpoint {
    path: "/config_dump",
    methods: READ,
    parameters: &["type", "name"],
    usage: "GET /config_dump, with ?type=binds, listeners, routes, backends, workloads, services, \
            policies or certificates for one list, ?type=runtime for how the proxy runs and where its \
            configuration comes from, and &name=NAME or NAMESPACE/NAME for what has it in its key",
    errors: ErrorForm::Json,
    answer: |asked| Box::pin(answer(asked)),
};

async fn answer(asked: Asked<'_>) -> Result<Answer, Refusal> {
    let filter = Filter::read(&asked.query).map_err(Refusal::bad_parameter)?;
    let slot = asked.slot()?;
    let handles = Arc::clone(&asked.shared.handles);
    let live = if filter.wants_shards() {
        live::gather(&handles).await
    } else {
        Live::default()
    };
    Ok(made(slot, JSON, asked.encoding, move |out| {
        let view = (handles.view)();
        let mut writer = Writer { out, filter, live };
        writer.all(&handles, &view)
    }))
}

const CERTIFICATES: &str = "certificates";
/// No list: what stands before them.
const RUNTIME: &str = "runtime";

/// What of the configuration is wanted.
pub(crate) struct Filter {
    /// One list alone.
    list: Option<&'static str>,
    /// What has these segments in its key; between slashes.
    name: Option<String>,
}

impl Filter {
    /// Reads it from the parameters.
    pub(crate) fn read(query: &Query<'_>) -> Result<Self, String> {
        let kinds = Kind::ALL.map(Kind::category);
        let lists: Vec<_> = kinds.into_iter().chain([CERTIFICATES, RUNTIME]).collect();
        let list = query.choice("type", &lists)?;
        let name = query.text("name");
        if name.is_some_and(str::is_empty) {
            return Err("the name is empty".to_owned());
        }
        Ok(Self {
            list,
            name: name.map(|name| format!("/{name}/")),
        })
    }

    fn wants_list(&self, list: &str) -> bool {
        self.list.is_none_or(|wanted| wanted == list)
    }

    /// Whether the shards have to be asked: how endpoints fare, and who does not answer.
    fn wants_shards(&self) -> bool {
        [Kind::Backend.category(), Kind::Service.category(), RUNTIME]
            .iter()
            .any(|list| self.wants_list(list))
    }

    fn wants(&self, key: &str) -> bool {
        self.name
            .as_ref()
            .is_none_or(|name| format!("/{key}/").contains(name))
    }
}

struct Writer<'a> {
    out: &'a mut dyn Write,
    filter: Filter,
    live: Live,
}

impl Writer<'_> {
    fn all(&mut self, handles: &Handles, view: &View) -> io::Result<()> {
        let version = dump::Version {
            gateway: env!("CARGO_PKG_VERSION").to_owned(),
            format: dump::Version::FORMAT,
            configuration: view.number,
        };
        self.out.write_all(b"{\"version\":")?;
        serde_json::to_writer(&mut *self.out, &version)?;
        if self.filter.wants_list(RUNTIME) {
            let mut runtime = (handles.runtime)();
            for shard in &mut runtime.shards {
                shard.stuck = self.live.is_stuck(shard.id);
            }
            self.value("runtime", &runtime)?;
            self.value("source", &(handles.source)())?;
        }
        let model = &*view.model;
        self.list("binds", &model.binds, |_, it| dump::Bind::from(it))?;
        self.list("listeners", &model.listeners, |_, it| {
            dump::Listener::from(it)
        })?;
        self.list("routes", &model.routes, |_, it| dump::Route::from(it))?;
        self.list("backends", &model.backends, |this, backend| dump::Backend {
            endpoints: this.endpoints(view, backend.key.as_str()),
            ..backend.into()
        })?;
        self.list("workloads", &model.workloads, |_, it| {
            dump::Workload::from(it)
        })?;
        self.list("services", &model.services, |this, service| dump::Service {
            endpoints: this.endpoints(view, service.key.as_str()),
            ..service.into()
        })?;
        self.list("policies", &model.policies, |_, it| dump::Policy::from(it))?;
        self.certificates(&certificates::of(model))?;
        self.out.write_all(b"}\n")
    }

    /// The endpoints of a service or backend, and how they fare.
    fn endpoints(&self, view: &View, key: &str) -> Vec<dump::Endpoint> {
        let found = (view.endpoints)(key).into_iter();
        let live = |(id, endpoint)| dump::Endpoint {
            live: self.live.endpoint(id),
            ..endpoint
        };
        found.map(live).collect()
    }

    fn value(&mut self, name: &str, value: &impl Serialize) -> io::Result<()> {
        write!(self.out, ",\n\"{name}\":")?;
        Ok(serde_json::to_writer(&mut *self.out, value)?)
    }

    /// A list of resources, each turned into JSON and forgotten.
    fn list<'m, K: Borrow<str> + 'm, V: 'm, D: Serialize>(
        &mut self,
        name: &str,
        resources: impl IntoIterator<Item = (&'m K, &'m V)>,
        shown: impl Fn(&Self, &'m V) -> D,
    ) -> io::Result<()> {
        if !self.filter.wants_list(name) {
            return Ok(());
        }
        write!(self.out, ",\n\"{name}\":[")?;
        let mut separator = "\n";
        for (key, resource) in resources {
            if self.filter.wants(key.borrow()) {
                self.out.write_all(separator.as_bytes())?;
                let shown = shown(self, resource);
                serde_json::to_writer(&mut *self.out, &shown)?;
                separator = ",\n";
            }
        }
        self.out.write_all(b"]")
    }

    fn certificates(&mut self, certificates: &[dump::Certificate]) -> io::Result<()> {
        if !self.filter.wants_list(CERTIFICATES) {
            return Ok(());
        }
        let wanted = |it: &&dump::Certificate| it.used_by.iter().any(|key| self.filter.wants(key));
        let wanted: Vec<_> = certificates.iter().filter(wanted).collect();
        self.value(CERTIFICATES, &wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::Filter;

    #[test]
    fn names_are_whole_segments_of_keys() {
        let key = "HTTPRoute/shop/cart/0/Gateway/infra/web/http";
        for (name, wanted) in [
            ("cart", true),
            ("shop/cart", true),
            ("HTTPRoute/shop/cart", true),
            (key, true),
            ("car", false),
            ("op/cart", false),
            ("shop/web", false),
        ] {
            let filter = Filter {
                list: None,
                name: Some(format!("/{name}/")),
            };
            assert_eq!(filter.wants(key), wanted, "{name}");
        }
    }
}
