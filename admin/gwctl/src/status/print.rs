//! The status as text.

use std::io::Write;

use anyhow::Result;

use super::objects::Condition;
use super::report::Report;
use crate::output::line;
use crate::table::Table;

/// Prints a report: the object, a table for each kind of part, and the problems.
pub(super) fn write(report: &Report, out: &mut dyn Write) -> Result<()> {
    line(&report.title, out)?;
    if let Some(gateways) = &report.gateways {
        let gateways: Vec<&str> = gateways.iter().map(String::as_str).collect();
        line(
            &format!("  parents     {}", or_none(&gateways.join(", "))),
            out,
        )?;
    } else {
        if !report.class.is_empty() {
            line(&format!("  class       {}", report.class), out)?;
        }
        line(
            &format!("  address     {}", or_none(&report.addresses.join(", "))),
            out,
        )?;
    }
    for condition in &report.conditions {
        let Condition { kind, status, .. } = condition;
        let reason = if condition.is_problem() {
            format!(" ({})", condition.reason)
        } else {
            String::new()
        };
        line(&format!("  {kind:<10}  {status}{reason}"), out)?;
    }
    table(&listeners(report), report.listeners.len(), out)?;
    table(&proxies(report), report.proxies.len(), out)?;
    table(&routes(report), report.routes.len(), out)?;
    table(&policies(report), report.policies.len(), out)?;
    let problems = report.problems.iter();
    let problems = problems.map(|it| format!("{:<7}  {}", it.level.as_str(), it.text));
    list("Problems", &problems.collect::<Vec<_>>(), out)?;
    let notes = report.notes.iter().map(|it| format!("note     {it}"));
    list("Notes", &notes.collect::<Vec<_>>(), out)
}

fn or_none(text: &str) -> &str {
    if text.is_empty() { "none" } else { text }
}

fn table<const COLUMNS: usize>(
    table: &Table<COLUMNS>,
    rows: usize,
    out: &mut dyn Write,
) -> Result<()> {
    if rows > 0 {
        writeln!(out)?;
        table.write(out)?;
    }
    Ok(())
}

fn list(title: &str, items: &[String], out: &mut dyn Write) -> Result<()> {
    if items.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{title}")?;
    for item in items {
        line(&format!("  {item}"), out)?;
    }
    Ok(())
}

fn listeners(report: &Report) -> Table<6> {
    let mut table = Table::new([
        "LISTENER", "PORT", "PROTOCOL", "HOSTNAME", "ROUTES", "STATUS",
    ]);
    for listener in &report.listeners {
        let of = listener.listener_set.as_ref();
        let of = of.map_or_else(String::new, |it| format!(" ({it})"));
        table.row([
            format!("{}{of}", listener.name),
            listener.port.to_string(),
            listener.protocol.clone(),
            listener.hostname.clone().unwrap_or_else(|| "*".to_owned()),
            listener.routes.to_string(),
            listener.status.clone(),
        ]);
    }
    table
}

fn proxies(report: &Report) -> Table<7> {
    let mut table = Table::new([
        "PROXY",
        "NODE",
        "STATE",
        "VERSION",
        "DRIVER",
        "CONTROLLER",
        "CONFIGURATION",
    ]);
    for proxy in &report.proxies {
        let (state, _) = proxy.state.split_once(" (").unwrap_or((&proxy.state, ""));
        let state = match (proxy.ready, state) {
            (true, _) => "ready",
            (false, "Running") => "not ready",
            (false, state) => state,
        };
        let [version, driver, controller, configuration] = match &proxy.own {
            None => Default::default(),
            Some(own) => [
                own.version.clone(),
                own.driver.clone(),
                own.controller.clone(),
                if own.refused.is_empty() {
                    own.configuration.clone()
                } else {
                    format!("{}, partly refused", own.configuration)
                },
            ],
        };
        table.row([
            proxy.pod.clone(),
            proxy.node.clone(),
            state.to_owned(),
            version,
            driver,
            controller,
            configuration,
        ]);
    }
    table
}

fn routes(report: &Report) -> Table<4> {
    let mut table = Table::new(["ROUTE", "LISTENER", "HOSTNAMES", "STATUS"]);
    for route in &report.routes {
        table.row([
            format!("{} {}/{}", route.kind, route.namespace, route.name),
            route.listener.clone().unwrap_or_else(|| "*".to_owned()),
            match route.hostnames.as_slice() {
                [] => "*".to_owned(),
                hostnames => hostnames.join(","),
            },
            route.status.clone(),
        ]);
    }
    table
}

fn policies(report: &Report) -> Table<2> {
    let mut table = Table::new(["POLICY", "STATUS"]);
    for policy in &report.policies {
        table.row([
            format!("{} {}/{}", policy.kind, policy.namespace, policy.name),
            policy.status.clone(),
        ]);
    }
    table
}
