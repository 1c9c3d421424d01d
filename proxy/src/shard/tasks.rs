//! The list of a shard's tasks, each with its purpose and state.
//!
//! A task is registered by a wrapper around its future, which also makes it the current one while
//! it runs: code can set the state without knowing its task, and a new task knows its parent.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use admin::limits::MAX_TASKS;
use admin::shard::{TaskDetail, TaskReport, TaskReports};

use super::Shard;
use super::wheel::Tick;

/// The tasks of a shard.
#[derive(Default)]
pub(crate) struct Tasks {
    slots: RefCell<Vec<Slot>>,
    free: RefCell<Vec<u32>>,
    /// Slot of the running task, counted from 1; 0 for none.
    current: Cell<u32>,
    begun: Cell<u64>,
}

#[derive(Clone, Copy)]
struct Slot {
    /// Id of its task; 0 if free.
    id: u64,
    parent: u64,
    purpose: Purpose,
    state: TaskState,
    since: Tick,
    polls: u32,
}

/// The purpose of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Deadlines, memory, the access log.
    Housekeeping,
    /// Accepts connections of a bind.
    Accept(u32),
    /// Serves a client's connection.
    Connection(SocketAddr),
    /// Serves a stream of a client's HTTP/2 connection, which has begun it.
    Stream,
    /// Drives an HTTP/2 connection to an endpoint.
    UpstreamSession,
    /// Sends a mirrored request.
    Mirror,
}

/// The state of a task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum TaskState {
    #[default]
    Running,
    /// Waiting for a request.
    Idle,
    /// Reading a request head.
    ReadingHead,
    /// Routing, filtering and sending a request.
    Forwarding,
    /// Waiting for an authorization server.
    Authorizing,
    /// Waiting for an endpoint picker.
    Picking,
    /// Connecting to an endpoint, or waiting for a connection.
    Connecting,
    /// Waiting for the response head.
    AwaitingResponse,
    Responding,
    /// Proxying bytes in both directions.
    Tunnel,
}

impl TaskState {
    fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Idle => "idle",
            Self::ReadingHead => "reading-head",
            Self::Forwarding => "forwarding",
            Self::Authorizing => "authorizing",
            Self::Picking => "picking",
            Self::Connecting => "connecting",
            Self::AwaitingResponse => "awaiting-response",
            Self::Responding => "responding",
            Self::Tunnel => "tunnel",
        }
    }
}

impl Shard {
    /// Sets the state of the current task.
    pub(crate) fn set_task_state(&self, state: TaskState) {
        let current = (self.tasks.current.get() as usize).wrapping_sub(1);
        if let Some(slot) = self.tasks.slots.borrow_mut().get_mut(current) {
            slot.state = state;
            slot.since = self.now();
        }
    }

    /// All tasks, for the admin server; some of them if there are too many.
    pub(crate) fn report_tasks(&self) -> TaskReports {
        let config = self.config.load();
        let slots = self.tasks.slots.borrow();
        let used = slots.iter().filter(|slot| slot.id != 0);
        let shown = used.clone().take(MAX_TASKS);
        let report = |slot: &Slot| {
            let (kind, detail) = match slot.purpose {
                Purpose::Housekeeping => ("housekeeping", TaskDetail::Shard),
                Purpose::Stream => ("stream", TaskDetail::Shard),
                Purpose::UpstreamSession => ("upstream-session", TaskDetail::Shard),
                Purpose::Mirror => ("mirror", TaskDetail::Shard),
                Purpose::Connection(client) => ("connection", TaskDetail::Client(client)),
                Purpose::Accept(bind) => {
                    let key = config.bind(bind).map(|bind| Arc::from(bind.key.as_str()));
                    ("accept", key.map_or(TaskDetail::Shard, TaskDetail::Named))
                }
            };
            TaskReport {
                id: slot.id,
                parent: slot.parent,
                kind,
                state: slot.state.as_str(),
                since: self.now().since(slot.since),
                polls: slot.polls.into(),
                detail,
            }
        };
        TaskReports {
            omitted: used.count().saturating_sub(MAX_TASKS) as u64,
            tasks: shown.map(report).collect(),
        }
    }
}

/// A task's entry in the list, removed on drop.
pub(crate) struct TaskEntry {
    pub(super) shard: Rc<Shard>,
    slot: u32,
}

impl TaskEntry {
    /// Registers a task, as a child of the current one.
    pub(crate) fn new(shard: &Rc<Shard>, purpose: Purpose) -> Self {
        let tasks = &shard.tasks;
        tasks.begun.set(tasks.begun.get() + 1);
        let mut slots = tasks.slots.borrow_mut();
        let current = (tasks.current.get() as usize).wrapping_sub(1);
        let entry = Slot {
            id: tasks.begun.get(),
            parent: slots.get(current).map_or(0, |slot| slot.id),
            purpose,
            state: TaskState::default(),
            since: shard.now(),
            polls: 0,
        };
        let free = tasks.free.borrow_mut().pop();
        let slot = free.unwrap_or_else(|| {
            slots.push(entry);
            u32::try_from(slots.len() - 1).expect("tasks are fewer than 2^32")
        });
        slots[slot as usize] = entry;
        Self {
            shard: Rc::clone(shard),
            slot,
        }
    }

    /// Makes its task the current one until the returned value is dropped.
    pub(super) fn run(&self) -> impl Drop {
        let tasks = &self.shard.tasks;
        if let Some(slot) = tasks.slots.borrow_mut().get_mut(self.slot as usize) {
            slot.polls = slot.polls.wrapping_add(1);
        }
        CurrentTaskGuard {
            current: &tasks.current,
            before: tasks.current.replace(self.slot + 1),
        }
    }
}

impl Drop for TaskEntry {
    fn drop(&mut self) {
        let tasks = &self.shard.tasks;
        if let Some(slot) = tasks.slots.borrow_mut().get_mut(self.slot as usize) {
            slot.id = 0;
        }
        tasks.free.borrow_mut().push(self.slot);
    }
}

/// Restores the current task, also after a panic.
struct CurrentTaskGuard<'a> {
    current: &'a Cell<u32>,
    before: u32,
}

impl Drop for CurrentTaskGuard<'_> {
    fn drop(&mut self) {
        self.current.set(self.before);
    }
}

/// Registers a task without a fence: if it panics, its shard has to be restarted.
pub(crate) fn listed<F: Future<Output = ()>>(
    shard: &Rc<Shard>,
    purpose: Purpose,
    task: F,
) -> RegisteredTask<F> {
    RegisteredTask {
        place: TaskEntry::new(shard, purpose),
        task,
    }
}

pin_project_lite::pin_project! {
    /// Registers its task for as long as it runs.
    pub(crate) struct RegisteredTask<F> {
        place: TaskEntry,
        #[pin]
        task: F,
    }
}

impl<F: Future<Output = ()>> Future for RegisteredTask<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        let _running = this.place.run();
        this.task.poll(context)
    }
}
