//! Ports of this machine that lead into a cluster: for browsers, and what else does not run in its network.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::Cluster;
use crate::args::ForwardArgs;
use crate::{packages, process};

impl Cluster {
    /// Forwards a port of this machine to a Service, or to a program in the network of the cluster's clients, until
    /// this process is interrupted.
    pub(crate) fn forward(&self, args: &ForwardArgs) -> Result<()> {
        let (service, ports) = match &*args.words {
            [ports] => (None, ports),
            [service, ports, ..] => (Some(service.as_str()), ports),
            [] => bail!("name a port"),
        };
        let (local, remote) = ports_of(ports)?;
        packages::check_root()?;
        self.check_up()?;
        // A socket stays in the network in which it was made; those to the Service are made in the clients'.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, local))
            .with_context(|| format!("cannot listen at port {local} of this machine"))?;
        self.enter_as_client()?;
        let target = SocketAddr::new(self.address_of(service)?, remote);
        let local = listener.local_addr()?;
        process::print_line(&format!("{local} leads to {target}"))?;
        for client in listener.incoming() {
            let client = client?;
            thread::spawn(move || {
                if let Err(error) = relay(&client, target) {
                    eprintln!("{target}: {error}");
                }
            });
        }
        Ok(())
    }

    /// The address at which clients of the cluster reach a Service.
    fn address_of(&self, service: Option<&str>) -> Result<IpAddr> {
        if service == Some("localhost") {
            return Ok(Ipv4Addr::LOCALHOST.into());
        }
        let mut command = process::command(&["kubectl", "get", "services", "-A", "-o", "json"]);
        command
            .env("PATH", self.search_path())
            .env("KUBECONFIG", self.kubeconfig());
        let services = serde_json::from_str(&process::run(&mut command)?)?;
        choose(&services, service)
    }
}

/// The address of the Service that is meant, in a list of all.
fn choose(services: &Value, wanted: Option<&str>) -> Result<IpAddr> {
    let all = services["items"].as_array().into_iter().flatten();
    let all = all.map(|it| {
        let text = |path| it.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let name = format!("{}/{}", text("/metadata/namespace"), text("/metadata/name"));
        let address = text("/status/loadBalancer/ingress/0/ip").parse().ok();
        (name, address)
    });
    let with_address =
        all.filter_map(|(name, address): (String, Option<IpAddr>)| Some((name, address?)));
    let with_address: Vec<(String, IpAddr)> = with_address.collect();
    let is_meant = |name: &str| match wanted {
        None => true,
        Some(wanted) if wanted.contains('/') => name == wanted,
        Some(wanted) => name.ends_with(&format!("/{wanted}")),
    };
    let found = with_address.iter().filter(|(name, _)| is_meant(name));
    if let [(_, address)] = *found.collect::<Vec<_>>() {
        return Ok(*address);
    }
    if with_address.is_empty() {
        bail!(
            "no Service has an address of the load balancer: create one of type LoadBalancer, or a Gateway"
        );
    }
    let names = with_address.iter().map(|it| it.0.as_str());
    let names = names.collect::<Vec<_>>().join(", ");
    bail!("name one Service that has an address of the load balancer; there are: {names}")
}

/// The ports of this machine and of the Service: `PORT` or `LOCAL:PORT`.
fn ports_of(text: &str) -> Result<(u16, u16)> {
    let (local, remote) = text.split_once(':').unwrap_or((text, text));
    let port = |text: &str| {
        let port = text.parse();
        port.with_context(|| format!("`{text}` is not a port"))
    };
    Ok((port(local)?, port(remote)?))
}

/// Connects, and copies both ways until both have ended.
fn relay(client: &TcpStream, target: SocketAddr) -> io::Result<()> {
    let server = TcpStream::connect(target)?;
    thread::scope(|scope| {
        let upload = scope.spawn(|| copy(client, &server));
        copy(&server, client)?;
        upload.join().unwrap_or(Ok(()))
    })
}

fn copy(mut from: &TcpStream, mut to: &TcpStream) -> io::Result<()> {
    io::copy(&mut from, &mut to)?;
    // The other side may have closed already.
    let _ = to.shutdown(Shutdown::Write);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{choose, ports_of};
    use serde_json::json;

    #[test]
    fn a_service_is_chosen_by_name_or_if_it_is_the_only_one() {
        let service = |name: &str, address: Option<&str>| {
            let ingress = address.map(|it| json!([{"ip": it}])).unwrap_or_default();
            json!({
                "metadata": {"namespace": "app", "name": name},
                "status": {"loadBalancer": {"ingress": ingress}},
            })
        };
        let (edge, inner) = (service("edge", Some("10.0.0.1")), service("inner", None));
        let one = json!({"items": [edge, inner]});
        let two = json!({"items": [edge, service("other", Some("10.0.0.2"))]});
        for (services, wanted, expected) in [
            (&one, None, Some("10.0.0.1")),
            (&one, Some("app/edge"), Some("10.0.0.1")),
            (&one, Some("inner"), None),
            (&two, None, None),
            (&two, Some("other"), Some("10.0.0.2")),
            (&two, Some("web/other"), None),
        ] {
            let chosen = choose(services, wanted).map(|it| it.to_string());
            assert_eq!(chosen.as_deref().ok(), expected, "{wanted:?}");
        }
        let error = choose(&two, None).expect_err("two").to_string();
        assert!(error.ends_with(": app/edge, app/other"), "{error}");
    }

    #[test]
    fn a_cluster_without_addresses_says_what_to_create() {
        let error = choose(&json!({"items": []}), None).expect_err("none");
        assert!(error.to_string().contains("create one"), "{error}");
    }

    #[test]
    fn ports_are_one_or_two() {
        assert_eq!(ports_of("80").ok(), Some((80, 80)));
        assert_eq!(ports_of("8080:80").ok(), Some((8080, 80)));
        assert!(ports_of("http").is_err());
    }
}
