//! A snapshot as text, to compare the output of two compilers.

use std::fmt::Write;
use std::sync::Arc;

use xds::model;

use super::Compiler;
use crate::config::{
    Bind, BindSettings, Cluster, ClusterIndex, Listener, ListenerSettings, PagesInForce,
    Protection, Rule, Snapshot,
};
use crate::failure::FailureKind;
use crate::policy::answer::ErrorPages;

/// A description of a snapshot without ids and numbers, which depend on its history.
pub(super) fn describe(snapshot: &Snapshot, compiler: &Compiler) -> String {
    let mut text = String::new();
    let mut binds: Vec<&Bind> = snapshot.binds.iter().flatten().map(|it| &**it).collect();
    binds.sort_by_key(|bind| bind.key.clone());
    for bind in binds {
        let BindSettings {
            key,
            address,
            opening,
            gateway,
            limits,
            access_log,
            ..
        } = &*bind.settings;
        line(
            &mut text,
            format_args!("{key} {address} {opening:?} {gateway} {limits:?} {access_log:?}"),
        );
        for host in ["a.test", "b.test", "x.a.test", "x.b.test", "c.test", "d"] {
            let found = bind.listener(host).map(|it| it.key.to_string());
            line(&mut text, format_args!("{host} is of {found:?}"));
        }
        for listener in bind.listeners.iter() {
            describe_listener(&mut text, listener, snapshot);
        }
    }
    let mut clusters: Vec<&Cluster> = snapshot.clusters.iter().collect();
    clusters.sort_by_key(|cluster| Arc::clone(&cluster.name));
    for cluster in &clusters {
        describe_cluster(&mut text, cluster);
    }
    let connections = clusters.iter().map(|it| it.connections_per_shard.get());
    assert_eq!(
        snapshot.upstream_connections_per_shard,
        connections.sum::<u32>()
    );
    let endpoints = clusters.iter().map(|it| it.endpoints.len());
    assert_eq!(snapshot.endpoints, endpoints.sum::<usize>());
    line(&mut text, format_args!("{:?}", snapshot.rules));
    let mut keys: Vec<String> = compiler
        .remote_keys()
        .iter()
        .map(|it| format!("{:?}", it.location))
        .collect();
    keys.sort();
    line(&mut text, format_args!("{keys:?}"));
    text
}

fn describe_listener(text: &mut String, listener: &Listener, snapshot: &Snapshot) {
    let ListenerSettings {
        key,
        hostname,
        access_log,
        head_policies,
        error_pages,
        ..
    } = &*listener.settings;
    let traffic = listener.traffic;
    line(
        text,
        format_args!(
            "{key} {hostname:?} {traffic:?} {access_log:?} {head_policies:?} {:?}",
            pages(error_pages.as_ref(), snapshot),
        ),
    );
    let mut rules: Vec<String> = listener.rules.iter().map(|it| rule(it, snapshot)).collect();
    rules.sort();
    for (_, rule) in listener.l4.iter() {
        let to = rule.backends.iter().map(|it| cluster(it.cluster, snapshot));
        let to: Vec<String> = to.collect();
        let access = (&rule.networks, &rule.refused_by);
        rules.push(format!("{} {:?} {to:?} {access:?}", rule.name, rule.limits));
    }
    line(text, format_args!("{rules:#?}"));
    for path in ["/", "/shop/1", "/else"] {
        let headers = http::HeaderMap::new();
        let view = crate::route::RequestView {
            host: b"a.test",
            path: path.as_bytes(),
            query: None,
            method: b"GET",
            headers: &headers,
        };
        let selected = listener
            .router
            .select(&view, &mut crate::route::RegexCache::default())
            .expect("little work");
        let rule = selected.and_then(|it| listener.rules.get(it.route as usize));
        assert_eq!(
            selected.is_some(),
            rule.is_some(),
            "the router names rules that are there"
        );
        line(
            text,
            format_args!("{path} is of {:?}", rule.map(|it| &*it.name)),
        );
    }
}

fn rule(rule: &Rule, snapshot: &Snapshot) -> String {
    let Rule {
        name,
        limits,
        access_log,
        draw,
        ..
    } = rule;
    let to = rule.backends.iter().map(|it| {
        let mirrors = it.mirrors().iter().map(|it| cluster(*it, snapshot));
        let mirrors: Vec<String> = mirrors.collect();
        format!(
            "{} {mirrors:?} {:?}",
            cluster(it.cluster, snapshot),
            it.unresolved()
        )
    });
    let to: Vec<String> = to.collect();
    let jwt = rule
        .authenticator()
        .and_then(|it| it.challenge(FailureKind::NoToken))
        .map(|it| String::from_utf8_lossy(it).into_owned());
    let pages = pages(rule.error_pages(), snapshot);
    let access = (&rule.networks, rule.refused_by(), pages);
    format!("{name} {limits:?} {access_log:?} {draw:?} {to:?} {jwt:?} {access:?}")
}

fn pages<'p>(
    pages: Option<&'p PagesInForce>,
    snapshot: &Snapshot,
) -> Option<(&'p ErrorPages, Vec<String>)> {
    let pages = pages?;
    let servers = pages.servers.iter().map(|it| cluster(*it, snapshot));
    Some((&pages.pages, servers.collect()))
}

fn cluster(index: Result<ClusterIndex, model::InvalidBackend>, snapshot: &Snapshot) -> String {
    match index {
        Ok(index) => snapshot.cluster(index).name.to_string(),
        Err(why) => format!("{why:?}"),
    }
}

fn describe_cluster(text: &mut String, cluster: &Cluster) {
    let Cluster {
        name,
        protocol,
        connections_per_shard,
        endpoint_connections,
        endpoint_pending_per_shard,
        pending_per_shard,
        ..
    } = cluster;
    let mut endpoints: Vec<String> = cluster
        .endpoints
        .iter()
        .map(|it| format!("{} {} {:?}", it.name, it.weight, it.health))
        .collect();
    endpoints.sort();
    let serving = cluster.set.serving().len();
    let ejection = cluster.set.ejection();
    let is_protected = !matches!(cluster.protection, Protection::Plain);
    line(
        text,
        format_args!(
            "{name} {protocol:?} {connections_per_shard} {pending_per_shard} {endpoint_connections:?} \
         {endpoint_pending_per_shard} {endpoints:?} {serving} \
         {ejection:?} {is_protected}"
        ),
    );
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(text, "{line}").expect("a text takes all");
}
