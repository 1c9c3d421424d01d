//! `gwctl tasks`: running tasks per thread.

use std::io::Write;

use admin_types::tasks::{Task, Tasks};
use anyhow::Result;

use crate::args::ListArgs;
use crate::pods;
use crate::source::{Source, json};
use crate::table::Table;

/// Prints the tasks of each thread, children indented below their parents.
///
/// # Errors
/// The gateway is unreachable, or its response invalid.
pub(crate) fn run(args: &ListArgs, source: &Source, out: &mut dyn Write) -> Result<()> {
    let clients = source.clients(args.resource.as_ref(), args.all_pods)?;
    let answers = clients.into_iter().map(|it| {
        let answer: Tasks = json(&it.client, "/debug/tasks")?;
        Ok((it.pod, answer))
    });
    let answers = answers.collect::<Result<Vec<_>>>()?;
    pods::write(&answers, table, args.output, out)
}

fn table(tasks: &Tasks) -> Table<6> {
    let mut table = Table::new(["THREAD", "TASK", "STATE", "SINCE", "POLLS", "DETAIL"]);
    for shard in &tasks.shards {
        let thread = format!("shard {}", shard.id);
        if shard.stuck {
            let since = format!("{}ms", shard.heartbeat_ms);
            let detail = "no response within 100 ms; SINCE is its last heartbeat".to_owned();
            let (none, stuck) = (String::new(), "STUCK".to_owned());
            table.row([thread, none.clone(), stuck, since, none, detail]);
            continue;
        }
        rows(&thread, &shard.tasks, 0, &mut table);
        if shard.omitted > 0 {
            let more = format!("and {} more", shard.omitted);
            table.row([
                thread,
                more,
                String::new(),
                String::new(),
                String::new(),
                String::new(),
            ]);
        }
    }
    rows("admin", &tasks.admin, 0, &mut table);
    rows("xds", &tasks.xds, 0, &mut table);
    table
}

fn rows(thread: &str, tasks: &[Task], depth: usize, table: &mut Table<6>) {
    for task in tasks {
        table.row([
            thread.to_owned(),
            format!("{}{} {}", "  ".repeat(depth), task.kind, task.id),
            task.state.clone(),
            format!("{}ms", task.since_ms),
            task.polls.to_string(),
            task.detail.clone(),
        ]);
        rows(thread, &task.children, depth + 1, table);
    }
}
