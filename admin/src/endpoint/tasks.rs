//! `/debug/tasks`: the running tasks of each thread. A shard that does not respond in time is reported
//! as stuck.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};

use admin_types::tasks::{ShardTasks, Task, Tasks};

use super::handler::{Endpoint, EndpointRequest, READ};
use crate::handles::Handles;
use crate::query::Query;
use crate::response::{ErrorFormat, ErrorResponse, JSON, Response, TEXT, streamed};
use crate::shard::{self, ShardQuery, TaskDetail, TaskReport};

pub(super) const ENDPOINT: Endpoint = Endpoint {
    path: "/debug/tasks",
    methods: READ,
    parameters: &["format"],
    usage: "GET /debug/tasks, or GET /debug/tasks?format=text",
    errors: ErrorFormat::Json,
    handle: |request| Box::pin(handle(request)),
};

async fn handle(request: EndpointRequest<'_>) -> Result<Response, ErrorResponse> {
    let format = format(&request.query).map_err(ErrorResponse::bad_parameter)?;
    let slot = request.slot()?;
    let handles = &request.context.handles;
    let tasks = Tasks {
        shards: shards(handles).await,
        admin: request.context.tasks.report(),
        xds: (handles.xds_tasks)(),
    };
    Ok(match format {
        Some("text") => streamed(slot, TEXT, request.encoding, move |out| draw(&tasks, out)),
        _ => streamed(slot, JSON, request.encoding, move |out| {
            serde_json::to_writer(&mut *out, &tasks)?;
            out.write_all(b"\n")
        }),
    })
}

pub(crate) fn format(query: &Query<'_>) -> Result<Option<&'static str>, String> {
    query.choice("format", &["json", "text"])
}

async fn shards(handles: &Handles) -> Vec<ShardTasks> {
    let replies = shard::query_all(&handles.shards, ShardQuery::Tasks).await;
    let replies = (0..).zip(&handles.shards).zip(replies);
    let shown = replies.map(|((id, shard), reports)| {
        let stuck = reports.is_none();
        let reports = reports.unwrap_or_default();
        ShardTasks {
            id,
            heartbeat_ms: u64::try_from((shard.heartbeat)().as_millis()).unwrap_or(u64::MAX),
            stuck,
            omitted: reports.omitted,
            tasks: tree(reports.tasks),
        }
    });
    shown.collect()
}

/// Arranges tasks below their parents. A task whose parent has ended becomes a root.
fn tree(mut reports: Vec<TaskReport>) -> Vec<Task> {
    reports.sort_unstable_by_key(|report| report.id);
    let known: HashSet<u64> = reports.iter().map(|report| report.id).collect();
    let mut roots = Vec::new();
    let mut children: HashMap<u64, Vec<Task>> = HashMap::new();
    // Ids of children are larger than those of their parents, so children come first in reverse.
    for report in reports.into_iter().rev() {
        let mut task = shown(&report);
        task.children = children.remove(&report.id).unwrap_or_default();
        task.children.reverse();
        if report.parent < report.id && known.contains(&report.parent) {
            children.entry(report.parent).or_default().push(task);
        } else {
            roots.push(task);
        }
    }
    roots.reverse();
    roots
}

fn shown(report: &TaskReport) -> Task {
    Task {
        id: report.id,
        kind: report.kind.to_owned(),
        state: report.state.to_owned(),
        since_ms: u64::try_from(report.since.as_millis()).unwrap_or(u64::MAX),
        polls: report.polls,
        detail: match &report.detail {
            TaskDetail::Shard => String::new(),
            TaskDetail::Client(address) => address.to_string(),
            TaskDetail::Named(name) => name.to_string(),
        },
        children: Vec::new(),
    }
}

/// Writes the tree as text.
fn draw(tasks: &Tasks, out: &mut dyn Write) -> io::Result<()> {
    for shard in &tasks.shards {
        let stuck = if shard.stuck {
            ", STUCK: not responding"
        } else {
            ""
        };
        writeln!(
            out,
            "shard {} (heartbeat {} ms ago{stuck})",
            shard.id, shard.heartbeat_ms
        )?;
        branches(&shard.tasks, "", out)?;
        if shard.omitted > 0 {
            writeln!(out, "   … and {} more", shard.omitted)?;
        }
    }
    for (name, tasks) in [("admin", &tasks.admin), ("xds", &tasks.xds)] {
        writeln!(out, "{name}")?;
        branches(tasks, "", out)?;
    }
    Ok(())
}

fn branches(tasks: &[Task], indent: &str, out: &mut dyn Write) -> io::Result<()> {
    for (number, task) in (1..).zip(tasks) {
        let (branch, below) = if number == tasks.len() {
            ("└─ ", "   ")
        } else {
            ("├─ ", "│  ")
        };
        let Task {
            id,
            kind,
            state,
            since_ms,
            polls,
            detail,
            ..
        } = task;
        writeln!(
            out,
            "{indent}{branch}{kind} #{id} {state} for {since_ms} ms, {polls} polls  {detail}"
        )?;
        branches(&task.children, &format!("{indent}{below}"), out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use admin_types::tasks::{ShardTasks, Task, Tasks};

    use std::time::Duration;

    use super::{draw, tree};
    use crate::shard::{TaskDetail, TaskReport};

    #[test]
    fn tasks_are_arranged_below_their_parents() {
        let report = |id, parent| TaskReport {
            id,
            parent,
            kind: "task",
            state: "idle",
            since: Duration::ZERO,
            polls: 0,
            detail: TaskDetail::Shard,
        };
        // The parent of 9 has ended; a task that is its own parent is kept.
        let reports = [(4, 2), (1, 0), (2, 1), (3, 1), (9, 8), (10, 10)];
        let roots = tree(reports.map(|(id, parent)| report(id, parent)).to_vec());
        let ids = |tasks: &[Task]| tasks.iter().map(|task| task.id).collect::<Vec<_>>();
        assert_eq!(ids(&roots), [1, 9, 10]);
        assert_eq!(ids(&roots[0].children), [2, 3]);
        assert_eq!(ids(&roots[0].children[0].children), [4]);
    }

    #[test]
    fn the_task_tree_is_drawn() {
        let task = |id, kind: &str, children| Task {
            id,
            kind: kind.to_owned(),
            state: "idle".to_owned(),
            detail: "x".to_owned(),
            children,
            ..Task::default()
        };
        let tree = vec![
            task(1, "connection", vec![task(3, "mirror", Vec::new())]),
            task(2, "accept", Vec::new()),
        ];
        let stuck = ShardTasks {
            id: 1,
            heartbeat_ms: 900,
            stuck: true,
            ..ShardTasks::default()
        };
        let shards = vec![
            ShardTasks {
                tasks: tree,
                omitted: 5,
                ..ShardTasks::default()
            },
            stuck,
        ];
        let tasks = Tasks {
            shards,
            ..Tasks::default()
        };
        let mut text = Vec::new();
        draw(&tasks, &mut text).expect("memory");
        let expected = "\
shard 0 (heartbeat 0 ms ago)
├─ connection #1 idle for 0 ms, 0 polls  x
│  └─ mirror #3 idle for 0 ms, 0 polls  x
└─ accept #2 idle for 0 ms, 0 polls  x
   … and 5 more
shard 1 (heartbeat 900 ms ago, STUCK: not responding)
admin
xds
";
        assert_eq!(String::from_utf8_lossy(&text), expected);
    }
}
