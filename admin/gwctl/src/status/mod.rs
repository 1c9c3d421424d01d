//! `gwctl status`: whether Gateways work, and why not.
//!
//! `objects` reads what the controller has written, `proxy` queries the proxies, `report` evaluates both, and
//! `print` writes the result as text.

mod objects;
mod print;
mod proxy;
mod report;

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Result, bail};
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::Value;

use self::objects::Object;
use self::report::{Class, Findings, Report};
use crate::args::{Output, StatusArgs};
use crate::cluster::{Cluster, Kind, Scope};
use crate::output;
use crate::resource::{Resource, ResourceKind};
use crate::source::Source;

/// Prints the status of a Gateway, or of all in the namespace; exits with failure if one has a
/// problem.
///
/// # Errors
///
/// There is no such Gateway, or the cluster cannot be read.
pub(crate) fn run(args: &StatusArgs, source: &Source, out: &mut dyn Write) -> Result<ExitCode> {
    let cluster = source.cluster()?;
    let gateways = match &args.resource {
        Some(resource) => vec![cluster.gateway(name(resource)?)?],
        None => cluster.gateways()?,
    };
    if gateways.is_empty() {
        // With the names of those in other namespaces.
        cluster.find(None)?;
    }
    let everything = ReferringObjects::read(cluster);
    let reports = gateways.iter().map(|gateway| {
        let findings = everything.of(gateway, source)?;
        Ok(Report::new(findings))
    });
    let reports = reports.collect::<Result<Vec<_>>>()?;
    match args.output {
        Output::Json => output::json(&reports, out)?,
        Output::Yaml => output::yaml(&reports, out)?,
        Output::Table => {
            for (index, report) in reports.iter().enumerate() {
                if index > 0 {
                    writeln!(out)?;
                }
                print::write(report, out)?;
            }
        }
    }
    let all_work = reports.iter().all(|it| it.problems.is_empty());
    Ok(if all_work {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn name(resource: &Resource) -> Result<&str> {
    if resource.kind != ResourceKind::Gateway {
        bail!("only a Gateway has a status; name one as [gateway/]NAME");
    }
    Ok(&resource.name)
}

/// Objects that may refer to any Gateway.
struct ReferringObjects<'a> {
    cluster: &'a Cluster,
    listener_sets: Vec<DynamicObject>,
    routes: Vec<(&'static str, DynamicObject)>,
    policies: Vec<(&'static str, DynamicObject)>,
    /// Parts of the cluster that could not be read.
    unread: Vec<String>,
}

impl<'a> ReferringObjects<'a> {
    fn read(cluster: &'a Cluster) -> Self {
        let mut all = Self {
            cluster,
            listener_sets: Vec::new(),
            routes: Vec::new(),
            policies: Vec::new(),
            unread: Vec::new(),
        };
        all.listener_sets = all.list(&LISTENER_SET);
        for versions in &ROUTES {
            let routes = all.list(versions);
            all.routes
                .extend(routes.into_iter().map(|it| (versions[0].name, it)));
        }
        for versions in &POLICIES {
            let policies = all.list(versions);
            all.policies
                .extend(policies.into_iter().map(|it| (versions[0].name, it)));
        }
        all
    }

    /// The objects of a kind of all namespaces, in the first version that the cluster has. Of the own
    /// namespace only, where others may not be read.
    fn list(&mut self, versions: &[Kind]) -> Vec<DynamicObject> {
        for kind in versions {
            for scope in [Scope::Cluster, Scope::Namespace] {
                let api = self.cluster.objects(*kind, scope);
                let what = match scope {
                    Scope::Cluster => format!("{} of all namespaces", kind.plural),
                    Scope::Namespace => {
                        format!("{} of namespace {}", kind.plural, self.cluster.namespace())
                    }
                };
                match self.cluster.list(&api, &what, "") {
                    Ok(Some(objects)) => return objects,
                    Ok(None) => break,
                    Err(error) => self.unread.push(error.to_string()),
                }
            }
        }
        Vec::new()
    }

    fn of(&self, gateway: &DynamicObject, source: &Source) -> Result<Findings> {
        let gateway = Object::new("Gateway", gateway);
        let mut unread = self.unread.clone();
        let listener_sets = self.listener_sets.iter();
        let listener_sets = listener_sets.map(|it| Object::new("ListenerSet", it));
        let of_kinds = |all: &[(&'static str, DynamicObject)]| -> Vec<Object> {
            all.iter().map(|(kind, it)| Object::new(kind, it)).collect()
        };
        let class = match self.class(gateway.class()) {
            Ok(class) => Some(class),
            Err(error) => {
                unread.push(error.to_string());
                None
            }
        };
        let resource = Resource {
            kind: ResourceKind::Gateway,
            name: gateway.name.clone(),
        };
        let pods = self.cluster.find(Some(&resource))?.pods;
        Ok(Findings {
            class,
            listener_sets: listener_sets.collect(),
            routes: of_kinds(&self.routes),
            policies: of_kinds(&self.policies),
            proxies: proxy::query(&pods, source)?,
            unread,
            gateway,
        })
    }

    fn class(&self, name: &str) -> Result<Class> {
        let classes = self.cluster.objects(CLASS, Scope::Cluster);
        let Some(class) = self.cluster.get(&classes, "GatewayClass", name)? else {
            return Ok(Class::Missing);
        };
        let controller = class.data.pointer("/spec/controllerName");
        let controller = controller.and_then(Value::as_str).unwrap_or_default();
        Ok(Class::Present {
            controller: controller.to_owned(),
            is_claimed: class.annotations().contains_key(CLAIMED_BY),
            conditions: Object::new("GatewayClass", &class).conditions().to_vec(),
        })
    }
}

/// The annotation of a class that an installation of our controller serves.
const CLAIMED_BY: &str = "gateway-system.io/claimed-by";
const CLASS: Kind = Kind::of_gateway_api("GatewayClass", "gatewayclasses");
const LISTENER_SET: [Kind; 1] = [Kind::of_gateway_api("ListenerSet", "listenersets")];
/// Kinds of routes, the newest version first.
const ROUTES: [&[Kind]; 5] = [
    &[Kind::HTTP_ROUTE],
    &[Kind::GRPC_ROUTE],
    &[
        Kind::of_gateway_api("TLSRoute", "tlsroutes"),
        Kind::of_gateway_api("TLSRoute", "tlsroutes").in_version("v1alpha3"),
        Kind::of_gateway_api("TLSRoute", "tlsroutes").in_version("v1alpha2"),
    ],
    &[
        Kind::of_gateway_api("TCPRoute", "tcproutes"),
        Kind::of_gateway_api("TCPRoute", "tcproutes").in_version("v1alpha2"),
    ],
    &[
        Kind::of_gateway_api("UDPRoute", "udproutes"),
        Kind::of_gateway_api("UDPRoute", "udproutes").in_version("v1alpha2"),
    ],
];
/// Kinds whose statuses name Gateways or targets.
const POLICIES: [&[Kind]; 4] = [
    &[Kind::TRAFFIC_POLICY],
    &[Kind::experimental(
        "XBackendTrafficPolicy",
        "xbackendtrafficpolicies",
    )],
    &[Kind::experimental("XBackend", "xbackends")],
    &[
        Kind::of_gateway_api("BackendTLSPolicy", "backendtlspolicies"),
        Kind::of_gateway_api("BackendTLSPolicy", "backendtlspolicies").in_version("v1alpha3"),
    ],
];
